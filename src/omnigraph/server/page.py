"""A page that shows every route and sends requests. One text: it needs no other file or host."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Omnigraph API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:62rem;padding:1rem;color:#1a1a1a}
h1{font-size:1.3rem}h2{font-size:1rem;margin:1.5rem 0 .4rem;text-transform:capitalize}
details{border:1px solid #ddd;border-radius:6px;margin:.3rem 0;padding:.4rem .7rem}
summary{cursor:pointer}code,textarea,input,pre{font:13px/1.45 ui-monospace,monospace}
.m{display:inline-block;width:4.2rem;font-weight:600}label{display:block;margin:.4rem 0}
input,textarea{width:100%;box-sizing:border-box;padding:.3rem;border:1px solid #bbb;
border-radius:4px}
pre{background:#f5f5f5;padding:.6rem;border-radius:6px;overflow:auto;max-height:24rem}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}pre{background:#222}
details{border-color:#333}input,textarea{background:#222;color:#e6e6e6;border-color:#444}}
</style></head><body>
<h1>Omnigraph API</h1>
<label>Token <input id="token" type="password" autocomplete="off"
 placeholder="kept on this page only"></label>
<div id="routes">loading…</div>
<script>
const el=(tag,props={},...kids)=>{const e=Object.assign(document.createElement(tag),props);
 e.append(...kids);return e};
const example=(schema,all)=>{if(!schema)return null;
 if(schema.$ref)return example(all[schema.$ref.split('/').pop()],all);
 if(schema.properties){const out={};for(const name of schema.required||[])
  out[name]=example(schema.properties[name],all);return out}
 if(schema.enum)return schema.enum[0];
 return {string:'',integer:0,number:0,boolean:false,array:[]}[[].concat(schema.type)[0]]??null};
async function send(method,path,inputs,body,out){
 let url=path;const query=new URLSearchParams();
 for(const [parameter,input] of inputs){if(!input.value)continue;
  if(parameter.in==='path')url=url.replace('{'+parameter.name+'}',encodeURIComponent(input.value));
  else query.append(parameter.name,input.value)}
 if([...query].length)url+='?'+query;
 const headers={};const token=document.getElementById('token').value;
 if(token)headers.Authorization='Bearer '+token;
 if(body)headers['Content-Type']='application/json';
 out.textContent='…';
 try{const answer=await fetch('.'+url,{method,headers,body:body?body.value:undefined});
  let text=await answer.text();
  try{text=JSON.stringify(JSON.parse(text),null,2)}catch(_){/* lines, or text */}
  out.textContent=answer.status+'\\n'+text}
 catch(error){out.textContent=String(error)}}
fetch('./openapi.full.json').then(answer=>answer.json()).then(api=>{
 const groups={};
 for(const [path,operations] of Object.entries(api.paths))
  for(const [method,operation] of Object.entries(operations))
   (groups[operation.tags[0]]??=[]).push([method.toUpperCase(),path,operation]);
 const root=document.getElementById('routes');root.textContent='';
 for(const tag of Object.keys(groups).sort()){root.append(el('h2',{textContent:tag}));
  for(const [method,path,operation] of groups[tag]){
   const inputs=(operation.parameters||[]).map(parameter=>[parameter,el('input')]);
   const content=operation.requestBody?.content['application/json'];
   const body=content?el('textarea',{rows:6,
    value:JSON.stringify(example(content.schema,api.components.schemas),null,2)}):null;
   const out=el('pre');
   root.append(el('details',{},
    el('summary',{},el('span',{className:'m',textContent:method}),el('code',{textContent:path}),
     ' '+(operation.summary||'')),
    ...inputs.map(([parameter,input])=>el('label',{},parameter.name,input)),
    ...(body?[el('label',{},'body',body)]:[]),
    el('button',{textContent:'Send',onclick:()=>send(method,path,inputs,body,out)}),out))}}
}).catch(error=>{document.getElementById('routes').textContent=String(error)});
</script></body></html>
"""


def _hash_of(tag: str) -> str:
    """Return what a policy calls the one script, or style sheet, of the page."""
    text = PAGE.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


POLICY: Final = (
    f"default-src 'none'; script-src 'sha256-{_hash_of('script')}'; "
    f"style-src 'sha256-{_hash_of('style')}'; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a browser lets the page do: run its own script, and ask this server."""
