// A form for the parameters of a query, typed as the compiler knows them.

import { h } from './dom.js';

const INTEGERS = new Set(['I32', 'I64', 'U32', 'U64']);
const FLOATS = new Set(['F32', 'F64']);

export class Params {
  #fields = [];

  constructor() {
    this.element = h('div', { class: 'params' });
  }

  /** Show fields for parameters; values typed under the same names stay. */
  show(params, given = {}) {
    const kept = { ...given, ...Object.fromEntries(this.#fields.map((one) => [one.param.name, one.raw()])) };
    this.#fields = params.map((param) => fieldOf(param, kept[param.name]));
    this.element.replaceChildren(
      ...this.#fields.map((one) =>
        h('label', { title: one.param.type }, h('span', {}, `$${one.param.name}`), one.control),
      ),
    );
  }

  /** What was typed, as an address keeps it. */
  get raw() {
    return Object.fromEntries(this.#fields.map((one) => [one.param.name, one.raw()]).filter(([, text]) => text !== ''));
  }

  set disabled(off) {
    this.element.classList.toggle('stale', off);
  }

  /** The values a request takes; throws where one cannot be read. */
  get values() {
    const found = {};
    for (const { param, raw } of this.#fields) {
      const text = raw();
      if (text === '' && param.nullable) continue;
      found[param.name] = valueOf(param, text);
    }
    return found;
  }
}

function fieldOf(param, text = '') {
  const shown = typeof text === 'string' ? text : JSON.stringify(text);
  const words = param.scalar === 'Bool' && !param.is_list ? ['true', 'false'] : param.is_list ? [] : param.values;
  if (words.length) {
    const all = param.nullable || !words.includes(shown) ? ['', ...words] : words;
    const control = h(
      'select',
      {},
      all.map((word) =>
        h('option', { value: word, selected: word === shown }, word || (param.nullable ? 'null' : 'choose…')),
      ),
    );
    return { param, control, raw: () => control.value };
  }
  const isDay = param.scalar === 'Date' && !param.is_list;
  const control = h('input', {
    type: isDay ? 'date' : 'text',
    value: shown,
    spellcheck: 'false',
    autocomplete: 'off',
    placeholder: param.is_list ? '["…"]' : param.nullable ? 'null' : param.type,
    inputmode: INTEGERS.has(param.scalar) && !param.is_list ? 'numeric' : null,
  });
  return { param, control, raw: () => control.value };
}

function valueOf(param, text) {
  if (param.is_list || param.scalar === 'Vector') return parsed(param, text);
  if (INTEGERS.has(param.scalar)) {
    if (!/^-?\d+$/.test(text)) throw wrong(param, text);
    return Number.isSafeInteger(Number(text)) ? Number(text) : exact(text);
  }
  if (FLOATS.has(param.scalar)) {
    if (text === '' || Number.isNaN(Number(text))) throw wrong(param, text);
    return Number(text);
  }
  if (param.scalar === 'Bool') {
    if (text === '') throw wrong(param, text);
    return text === 'true';
  }
  if ((param.values.length || param.scalar.startsWith('Date')) && text === '') throw wrong(param, text);
  return text;
}

// Large integers keep every digit, where the browser can write them.
const exact = (text) => (JSON.rawJSON ? JSON.rawJSON(text) : text);

function parsed(param, text) {
  try {
    const found = JSON.parse(text);
    if (Array.isArray(found)) return found;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw wrong(param, text);
}

const wrong = (param, text) => new Error(`$${param.name} is ${param.type}, not '${text}'`);
