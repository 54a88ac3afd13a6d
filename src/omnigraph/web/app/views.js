// A result seen four ways. Each asks for what it needs once the way is chosen.

import { h } from './dom.js';
import { Picture } from './picture.js';
import { Rows } from './table.js';
import { count, size } from './values.js';
import { widening } from './widen.js';

const PICTURE_NODES = 1_000;
const JSON_ROWS = 500;

async function rowsOf(screen, run, signal) {
  if (run.rows) return run.rows;
  const started = performance.now();
  const found = run.stored
    ? await run.stored.rows(run.body.params, screen.app.state, signal)
    : await screen.app.api.rows('/query', run.body, { signal });
  const { table } = found;
  const total = performance.now() - started;
  const said = [
    count(table.numRows, 'row'),
    size(found.bytes),
    found.ms !== null && `server ${found.ms.toFixed(1)} ms`,
    `total ${total.toFixed(0)} ms`,
  ]
    .filter(Boolean)
    .join(' · ');
  run.rows = { table, said };
  return run.rows;
}

async function table(screen, run, signal) {
  const { table, said } = await rowsOf(screen, run, signal);
  screen.status.textContent = said;
  if (!table.numRows) return [h('div', { class: 'empty' }, 'No rows.')];
  const rows = new Rows(table, (name, value) => screen.pointed(name, value));
  screen.keep(rows);
  return [rows.element];
}

async function graph(screen, run, signal) {
  if (run.stored) return [h('div', { class: 'empty' }, 'A picture needs the text of the query.')];
  const found = await screen.app.api.post(
    '/read',
    { ...run.body, shape: 'graph', max_nodes: PICTURE_NODES },
    { signal },
  );
  screen.status.textContent = `${count(found.nodes.length, 'node')}, ${count(found.edges.length, 'edge')} behind ${count(found.row_count, 'row')} of the match${found.truncated ? '; there are more: the table has them all' : ''}`;
  if (!found.nodes.length) return [h('div', { class: 'empty' }, 'No nodes behind this result.')];
  const picture = new Picture(screen.app.colours, {
    select: (one) => (one ? screen.inspector.show(one.type, one.id) : screen.inspector.clear()),
    expand: (node) => widening(screen.app, picture, node),
    announce: (text) => screen.app.announce(text),
  });
  picture.show(found.nodes, found.edges, found.truncated ? `first ${PICTURE_NODES}` : '');
  screen.picture = picture;
  screen.keep(picture);
  return [picture.element];
}

async function json(screen, run, signal) {
  const { table, said } = await rowsOf(screen, run, signal);
  if (table.numRows > JSON_ROWS)
    return [
      h(
        'div',
        { class: 'empty' },
        h('p', {}, `${count(table.numRows, 'row')} are more than anybody reads as JSON here.`),
        h('p', {}, 'Save them with Export, or add a limit.'),
      ),
    ];
  const found = run.stored
    ? await run.stored.json(run.body.params, screen.app.state, signal)
    : await screen.app.api.post('/query', run.body, { signal, query: { js_safe: 1 } });
  screen.status.textContent = said;
  return [h('pre', { class: 'json', tabindex: '0' }, JSON.stringify(found, null, 2))];
}

async function plan(screen, run, signal) {
  if (run.stored) return [h('div', { class: 'empty' }, 'A plan needs the text of the query.')];
  const found = await screen.app.api.post('/profile', run.body, { signal });
  const most = Math.max(...found.operators.map((one) => one.ms), 0.001);
  screen.status.textContent = `${count(found.row_count, 'row')} · compile ${found.compile_ms.toFixed(2)} ms · total ${found.total_ms.toFixed(2)} ms`;
  const rows = found.operators.map((one) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, '\u00a0\u00a0'.repeat(one.depth), one.operator),
      h('td', {}, one.access ?? ''),
      h('td', { class: 'num' }, one.expected_rows?.toLocaleString('en') ?? ''),
      h('td', { class: 'num' }, one.rows.toLocaleString('en')),
      h('td', { class: 'num' }, one.ms.toFixed(2)),
      h(
        'td',
        {},
        h('div', { class: 'meter', 'aria-hidden': 'true' }, h('i', { style: { width: `${(100 * one.ms) / most}%` } })),
      ),
    ),
  );
  const heads = ['Operator', 'Access', 'Expected', 'Rows', 'ms', 'Share'].map((one) => h('th', { scope: 'col' }, one));
  return [h('table', { class: 'grid plan' }, h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows))];
}

/** By name: (screen, run, signal) => elements. */
export const VIEWS = { table, graph, json, plan };
