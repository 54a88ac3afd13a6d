// A table of which only the rows in sight exist, so that a million of them scroll. Columns stay
// columns: a cell is read from Arrow when it is drawn.

import { fill, h } from './dom.js';
import { isLink, isNumber, shown } from './values.js';

const ROW = 27;
const SPARE = 10;
const TALLEST = 30_000_000; // browsers end near 33 million pixels; beyond, the scroll bar is scaled
const SAMPLE = 80;

export class Rows {
  #columns;
  #count;
  #order = null;
  #sorted = { column: null, down: false };
  #drawn = '';
  #watch;

  /** `table` is an Arrow table; `onCell(column, value, row)` hears of clicks. */
  constructor(table, onCell) {
    this.#count = table.numRows;
    this.#columns = table.schema.fields.map((field, at) => column(field, table.getChildAt(at), this.#count));
    this.onCell = onCell;
    this.head = h('div', { class: 'vt-head', role: 'row' });
    this.body = h('div', { class: 'vt-body', role: 'rowgroup' });
    const width = 64 + this.#columns.reduce((sum, one) => sum + one.width, 0);
    this.body.style.setProperty('height', `${Math.min(this.#count * ROW, TALLEST)}px`);
    this.body.style.setProperty('width', `${width}px`);
    this.element = h(
      'div',
      {
        class: 'vt',
        tabindex: '0',
        role: 'table',
        'aria-label': 'Rows of the result',
        'aria-rowcount': this.#count + 1,
      },
      h('div', { role: 'rowgroup', class: 'vt-top' }, this.head),
      this.body,
    );
    this.element.addEventListener('scroll', () => this.draw(), { passive: true });
    this.#watch = new ResizeObserver(() => this.draw(true));
    this.#watch.observe(this.element);
    this.#heads();
  }

  destroy() {
    this.#watch.disconnect();
  }

  get #scale() {
    const real = this.#count * ROW - this.element.clientHeight;
    const seen = Math.min(this.#count * ROW, TALLEST) - this.element.clientHeight;
    return seen > 0 ? Math.max(1, real / seen) : 1;
  }

  draw(again = false) {
    const { scrollTop, clientHeight } = this.element;
    const real = scrollTop * this.#scale;
    const first = Math.max(0, Math.floor(real / ROW) - SPARE);
    const last = Math.min(this.#count, first + Math.ceil(clientHeight / ROW) + 2 * SPARE);
    const mark = `${first}-${last}`;
    if (!again && mark === this.#drawn && this.#scale === 1) return;
    this.#drawn = mark;
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.#row(at, at * ROW - real + scrollTop));
    fill(this.body, rows);
  }

  #row(at, top) {
    const row = this.#order ? this.#order[at] : at;
    const cells = this.#columns.map((one) => this.#cell(one, row));
    return h(
      'div',
      { class: 'vt-row', role: 'row', 'aria-rowindex': at + 2, style: { transform: `translateY(${top}px)` } },
      h('div', { class: 'vt-cell vt-number', role: 'rowheader' }, String(at + 1)),
      cells,
    );
  }

  #cell(one, row) {
    const value = one.values.at(row);
    const text = shown(value, one.type);
    const kind = text === null ? ' vt-null' : one.isNumber ? ' vt-right' : '';
    const content =
      text !== null && isLink(text)
        ? h('a', { href: text, rel: 'noopener noreferrer', target: '_blank' }, text)
        : (text ?? 'null');
    return h(
      'div',
      {
        class: `vt-cell${kind}`,
        role: 'cell',
        style: { width: `${one.width}px` },
        title: text !== null && text.length > 30 ? text : null,
        onclick: () => this.onCell?.(one.name, value, row),
      },
      content,
    );
  }

  #heads() {
    const { column: by, down } = this.#sorted;
    const cells = this.#columns.map((one) =>
      h(
        'div',
        {
          class: 'vt-cell',
          role: 'columnheader',
          style: { width: `${one.width}px` },
          'aria-sort': by === one ? (down ? 'descending' : 'ascending') : 'none',
        },
        h(
          'button',
          { class: 'plain', title: `Sort the rows shown by ${one.name}`, onclick: () => this.#sort(one) },
          one.name,
          by === one && h('span', { 'aria-hidden': 'true' }, down ? ' ▼' : ' ▲'),
        ),
      ),
    );
    fill(this.head, h('div', { class: 'vt-cell vt-number', role: 'columnheader' }, '#'), cells);
  }

  // Up, down, and back to the order of the query.
  #sort(one) {
    const { column: by, down } = this.#sorted;
    if (by !== one) this.#sorted = { column: one, down: false };
    else this.#sorted = down ? { column: null, down: false } : { column: one, down: true };
    this.#order = this.#sorted.column ? orderOf(one, this.#count, this.#sorted.down) : null;
    this.#heads();
    this.draw(true);
  }
}

function column(field, values, count) {
  let longest = field.name.length + 3;
  const step = Math.max(1, Math.floor(count / SAMPLE));
  for (let at = 0; at < count; at += step) longest = Math.max(longest, shown(values.at(at), field.type)?.length ?? 4);
  const width = Math.round(Math.min(440, 26 + longest * 7.8));
  return { name: field.name, type: field.type, values, width, isNumber: isNumber(field.type) };
}

function orderOf(one, count, down) {
  const keys = Array.from({ length: count }, (_, at) => {
    const value = one.values.at(at);
    return value instanceof Date ? value.getTime() : one.isNumber ? value : shown(value, one.type);
  });
  const order = Uint32Array.from({ length: count }, (_, at) => at);
  const sign = down ? -1 : 1;
  return order.sort((a, b) => {
    if (keys[a] === null || keys[b] === null) return (keys[a] === null) - (keys[b] === null) || a - b;
    return keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : a - b;
  });
}
