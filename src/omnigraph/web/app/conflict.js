// One conflict of a row: what it was, what both sides made of it, and how it is settled.

import { fill, h } from './dom.js';
import { valueOf } from './inspector.js';
import { keyOfConflict } from './resolutions.js';

export class Conflicts {
  /** `settled` is called after every choice. */
  constructor(resolutions, { target, source }, mayMerge, settled) {
    Object.assign(this, { resolutions, target, source, mayMerge, settled });
  }

  element(one, name) {
    const key = keyOfConflict(one);
    const group = `choice-${key}`;
    const detail = h('tbody', {});
    const both = Boolean(one.ours && one.theirs);
    const chosen = this.resolutions.of(one);
    const byProperty = chosen !== null && typeof chosen === 'object';
    const radio = (value, text, checked) =>
      h(
        'label',
        {},
        h('input', {
          type: 'radio',
          name: group,
          value,
          checked,
          onchange: () => this.#chose(one, value, detail),
        }),
        text,
      );
    const gone = (side) => (side ? '' : ' (deleted)');
    const choices =
      this.mayMerge &&
      h(
        'div',
        { class: 'choices', role: 'radiogroup', 'aria-label': `How to settle ${name}` },
        radio('ours', `Keep ${this.target}${gone(one.ours)}`, chosen === 'ours'),
        radio('theirs', `Take ${this.source}${gone(one.theirs)}`, chosen === 'theirs'),
        both && radio('columns', 'By property', byProperty),
      );
    this.#details(one, detail, byProperty ? chosen : null);
    const heads = ['', 'base', `ours (${this.target})`, `theirs (${this.source})`].map((text) =>
      h('th', { scope: 'col' }, text),
    );
    return h(
      'div',
      { class: 'conflict', 'data-conflict': `${one.table_key}:${one.row_id}` },
      h(
        'div',
        { class: 'row conflict-head' },
        h('span', { class: 'sign', 'aria-hidden': 'true' }, '!'),
        h('b', {}, name),
        h('span', { class: 'tag bad' }, one.kind),
        h('span', { class: 'grow' }),
        choices,
      ),
      h(
        'table',
        { class: 'diff three' },
        h('caption', { class: 'sr' }, one.message),
        h('thead', {}, h('tr', {}, heads)),
        detail,
      ),
    );
  }

  #chose(one, value, detail) {
    const byProperty = value === 'columns' ? {} : null;
    this.resolutions.settle(one, byProperty ? null : value);
    this.#details(one, detail, byProperty);
    this.settled();
  }

  #details(one, place, byProperty) {
    const names = one.columns?.length
      ? one.columns
      : Object.keys(one.ours ?? one.theirs ?? {}).filter(
          (name) => name !== 'id' && [one.base, one.ours, one.theirs].some((image) => image?.[name] != null),
        );
    // What was chosen property by property so far; it counts once every property has its value.
    const draft = byProperty && { columns: { ...byProperty.columns }, values: { ...byProperty.values } };
    const image = (row, name) => (row ? valueOf(row[name]) : h('span', { class: 'dim' }, 'no row'));
    fill(
      place,
      names.map((name) =>
        h(
          'tr',
          {},
          h('th', { scope: 'row' }, name, draft && this.#sides(one, names, draft, name)),
          h('td', { class: 'was' }, image(one.base, name)),
          h('td', { class: 'now' }, image(one.ours, name)),
          h('td', { class: 'now' }, image(one.theirs, name)),
        ),
      ),
    );
  }

  // Of each property either side, or a value by hand.
  #sides(one, names, draft, name) {
    const given = draft.values[name];
    const value = h('input', {
      'aria-label': `Value of ${name}`,
      hidden: given === undefined,
      value: given === undefined ? '' : String(given),
      oninput: () => said(),
    });
    const chosen = given !== undefined ? 'value' : (draft.columns[name] ?? '');
    const words = { '': 'choose…', ours: this.target, theirs: this.source, value: 'a value' };
    const options = Object.entries(words).map(([word, text]) =>
      h('option', { value: word, selected: word === chosen }, text),
    );
    const side = h('select', { 'aria-label': `Side of ${name}`, onchange: () => said() }, options);
    const said = () => {
      delete draft.columns[name];
      delete draft.values[name];
      value.hidden = side.value !== 'value';
      const byHand = value.hidden ? undefined : typed(value.value, one.ours?.[name] ?? one.theirs?.[name]);
      if (byHand !== undefined) draft.values[name] = byHand;
      else if (value.hidden && side.value) draft.columns[name] = side.value;
      const whole = names.every((each) => each in draft.columns || each in draft.values);
      this.resolutions.settle(one, whole ? { columns: { ...draft.columns }, values: { ...draft.values } } : null);
      this.settled();
    };
    return h('div', { class: 'side-choice' }, side, value);
  }
}

// A value typed for a property that has numbers or truths is one; nothing typed is none yet.
function typed(text, like) {
  if (typeof like === 'string') return text;
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
