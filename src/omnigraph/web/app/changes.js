// What differs, table by table and field by field.

import { dot, fill, h } from './dom.js';
import { valueOf } from './inspector.js';
import { count } from './values.js';

const SHOWN = 25;
const SIGNS = { insert: '+', update: '~', delete: '−' };

/** Cards of changes; `conflictOf(change)` may put something else in a row's place. */
export function changeCards(app, changes, conflictOf = () => null) {
  const tables = new Map();
  for (const one of changes) {
    if (!tables.has(one.table_key)) tables.set(one.table_key, []);
    tables.get(one.table_key).push(one);
  }
  const nodesFirst = [...tables].sort(([a], [b]) => b.startsWith('node:') - a.startsWith('node:'));
  return nodesFirst.map(([key, rows]) => card(app, key, rows, conflictOf));
}

function card(app, key, rows, conflictOf) {
  const body = h('div', {});
  const show = (most) => {
    const left = rows.length - most;
    fill(
      body,
      rows.slice(0, most).map((one) => conflictOf(one) ?? changed(one)),
      left > 0 &&
        h(
          'div',
          { class: 'inside' },
          h(
            'button',
            { onclick: () => show(most + 200) },
            `Show ${Math.min(left, 200)} more of ${left.toLocaleString('en')}`,
          ),
        ),
    );
  };
  show(SHOWN);
  return h('section', { class: 'card' }, title(app, key, count(rows.length, 'row')), body);
}

export function title(app, key, note) {
  const [kind, type] = key.split(':');
  return h('h2', {}, dot(app.colours.of(type), kind === 'edge'), key, h('span', { class: 'tag' }, note));
}

export const nameOf = (one) => (one.endpoints ? `${one.endpoints.src} → ${one.endpoints.dst}` : one.id);

function changed(one) {
  const names =
    one.op === 'update'
      ? one.changed
      : Object.keys(one.after ?? one.before ?? {}).filter(
          (name) => name !== 'id' && (one.after ?? one.before)[name] !== null,
        );
  const row = (name) => {
    const before = one.op === 'insert' ? null : h('td', { class: 'was' }, valueOf(one.before?.[name]));
    const after = one.op === 'delete' ? null : h('td', { class: 'now' }, valueOf(one.after?.[name]));
    const wide = one.op === 'update' ? null : 2;
    if (wide) (before ?? after).setAttribute('colspan', '2');
    return h('tr', {}, h('th', { scope: 'row' }, name), before, after);
  };
  return h(
    'table',
    { class: 'diff' },
    h(
      'caption',
      { class: one.op },
      h('span', { class: 'sign', 'aria-hidden': 'true' }, SIGNS[one.op]),
      h('b', {}, nameOf(one)),
      ` ${one.op}`,
    ),
    h('tbody', {}, names.map(row)),
  );
}
