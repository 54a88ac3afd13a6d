// What may come next in a typed text, from the catalogue. Pure: no editor, no server.

import { FUNCTIONS, KEYWORDS } from './words.js';

const PROPERTY = /\$(\w+)\.(\w*)$/;
const INLINE = /(?:\$\w+\s*:|\b(?:insert|update))\s*(\w+)(?:\s+set)?\s*\{([^{}]*)$/;
const VALUE = /(\w+)\s*(?::|=|!=)\s*"?(\w*)$/;
const TYPE = /(?:\$\w+\s*:|\b(?:insert|update|delete))\s*([A-Za-z]\w*|)$/;
const STEP = /\$(\w+)\s+(?:\$\w+:\s*)?<?([a-z]\w*|)$/;
const VARIABLE = /\$(\w*)$/;
const WORD = /(?:^|[^\w$."])([a-z_]\w*)$/;

/**
 * Return {typed, options} for the end of `before`, or null.
 *
 * `after` is what follows: names bound later count, too. Each option has a label, a kind and a
 * detail; it replaces the last `typed` characters.
 */
export function complete(before, after, catalog, explicit = false) {
  const whole = before + after;
  let found = PROPERTY.exec(before);
  if (found) return options(found[2], properties(typeOf(found[1], whole, catalog), catalog));
  found = INLINE.exec(before);
  if (found) return inline(found, catalog);
  found = TYPE.exec(before);
  if (found && (found[1] || explicit || /[:\s]$/.test(before))) return options(found[1], types(catalog));
  found = STEP.exec(before);
  if (found) return options(found[2], steps(typeOf(found[1], whole, catalog), catalog), explicit);
  found = VARIABLE.exec(before);
  if (found) return options(found[1], variables(whole, found[1]));
  found = WORD.exec(before);
  return found && (found[1].length > 1 || explicit) ? options(found[1], words()) : null;
}

function inline(found, catalog) {
  const owner = named(found[1], catalog);
  const part = found[2].split(',').pop();
  const value = VALUE.exec(part);
  if (value) {
    const prop = owner?.properties.find((one) => one.name === value[1]);
    const known = (prop?.values ?? []).map((word) => option(word, 'value', prop.name));
    return known.length ? options(value[2], known) : null;
  }
  if (/:/.test(part)) return null;
  const ends = owner?.from ? [option('from', 'property', owner.from), option('to', 'property', owner.to)] : [];
  const typed = /(\w*)$/.exec(part)[1];
  return options(typed, owner ? [...own(owner), ...ends].map((one) => ({ ...one, apply: `${one.label}: ` })) : []);
}

function options(typed, all, keepAll = false) {
  const start = typed.toLowerCase();
  const fitting = all.filter((one) => one.label.toLowerCase().startsWith(start) && one.label !== typed);
  return fitting.length || keepAll ? { typed: typed.length, options: fitting } : null;
}

const option = (label, kind, detail = '', info = undefined) => ({ label, type: kind, detail, info });

const words = () => [
  ...KEYWORDS.map((word) => option(word, 'keyword')),
  ...FUNCTIONS.map((word) => option(word, 'function')),
];

const types = (catalog) => [
  ...catalog.nodes.map((one) => option(one.name, 'class', `${one.row_count} rows`, one.description)),
  ...catalog.edges.map((one) => option(one.name, 'interface', `${one.from} → ${one.to}`, one.description)),
];

const own = (owner) => owner.properties.map((one) => option(one.name, 'property', one.type, one.description));

function properties(owner, catalog) {
  if (owner) return [...own(owner), option('id', 'property', 'String')];
  const seen = new Map();
  for (const one of [...catalog.nodes, ...catalog.edges])
    for (const prop of own(one)) if (!seen.has(prop.label)) seen.set(prop.label, prop);
  return [...seen.values()];
}

function steps(owner, catalog) {
  const fits = (edge) => !owner || edge.from === owner.name || edge.to === owner.name;
  return catalog.edges
    .filter(fits)
    .map((edge) => option(edge.word, 'method', `${edge.from} → ${edge.to}`, edge.description));
}

function variables(text, typed) {
  const seen = new Set([...text.matchAll(/\$(\w+)/g)].map((one) => one[1]));
  if (typed) seen.delete(typed);
  return [...seen].map((name) => option(name, 'variable'));
}

const named = (name, catalog) =>
  catalog.nodes.find((one) => one.name === name) ?? catalog.edges.find((one) => one.name === name);

/** Return the type a variable has, from where it is bound or from a step it is an end of. */
export function typeOf(variable, text, catalog) {
  for (const [, name, type] of text.matchAll(/\$(\w+)\s*:\s*([A-Z]\w*)/g))
    if (name === variable && named(type, catalog)) return named(type, catalog);
  for (const [, name, word] of text.matchAll(/\$(\w+)\s*:\s*([a-z]\w*)/g)) {
    const edge = edgeOf(word, catalog);
    if (name === variable && edge) return edge;
  }
  const step = /\$(\w+)\s+(?:\$\w+:\s*)?<?(\w+)>?(?:\{[^}]*\})?\s+\$(\w+)/g;
  for (const [, from, word, to] of text.matchAll(step)) {
    const edge = edgeOf(word, catalog);
    if (edge && from === variable) return named(edge.from, catalog);
    if (edge && to === variable) return named(edge.to, catalog);
  }
  return null;
}

const edgeOf = (word, catalog) => catalog.edges.find((one) => one.name.toLowerCase() === word.toLowerCase());
