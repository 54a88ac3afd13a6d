// Elements without markup: text is text, whatever it says. Nothing in the page sets HTML.

const SVG = 'http://www.w3.org/2000/svg';
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'selected', 'indeterminate', 'open']);

/** Make an element. `on…` are listeners, `style` an object; null and false leave a thing out. */
export function h(name, props, ...children) {
  return filled(document.createElement(name), props, children);
}

/** The same for drawings. */
export function s(name, props, ...children) {
  return filled(document.createElementNS(SVG, name), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === 'style') restyle(element, value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...flat(children));
  return element;
}

// A style attribute would be refused by the page's policy; single properties are not.
function restyle(element, rules) {
  for (const [name, value] of Object.entries(rules)) element.style.setProperty(name, value);
}

function flat(children) {
  return children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);
}

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** A coloured dot that stands for a type. */
export function dot(colour, edge = false) {
  return h('span', {
    class: edge ? 'dot edge' : 'dot',
    style: { '--c': colour },
    'aria-hidden': 'true',
  });
}

/** Let the browser save some text or bytes. */
export function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Call `work` once the calls stop for a while. */
export function later(work, pause) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(work, pause, ...given);
  };
}
