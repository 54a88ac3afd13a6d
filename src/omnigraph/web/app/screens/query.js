// Queries: typed, checked while they are typed, run, and seen as rows, picture, text or plan.

import { tableFromIPC } from '../../vendor/arrow.js';
import { typeOf } from '../complete.js';
import { problem, shownIn } from '../dialogs.js';
import { dot, fill, h, later } from '../dom.js';
import { Editor } from '../editor.js';
import { exporter } from '../export.js';
import { Inspector } from '../inspector.js';
import { Params } from '../params.js';
import { Picture } from '../picture.js';
import { Rows } from '../table.js';
import { count, size } from '../values.js';
import { storedQueries } from '../stored.js';
import { widening } from '../widen.js';
import { offerWrite } from '../write.js';

const TABS = { table: 'Table', graph: 'Graph', json: 'JSON', plan: 'Plan' };
const PICTURE_NODES = 1_000;
const JSON_ROWS = 500;
const PAUSE_MS = 250;

export class Query {
  #lint = { queries: [], diagnostics: [] };
  #asked = 0;
  #run = null;
  #cancel = null;
  #parts = [];

  constructor(app, said) {
    this.app = app;
    this.view = TABS[said.view] ? said.view : 'table';
    this.given = readParams(said.p);
    this.name = said.name ?? null;
    this.stored = null;
    const text = said.q ?? firstQuery(app.catalog);
    this.editor = new Editor(text, { change: () => this.#typed(), run: () => this.run() });
    this.editor.catalog = app.catalog;
    this.params = new Params();
    this.inspector = new Inspector(app, { widen: (group, node) => this.#widened(group, node) });
    this.checkSoon = later(() => this.check(), PAUSE_MS);
    this.autorun = said.q !== undefined;
    this.#build();
  }

  #build() {
    this.go = h('button', { class: 'primary run', title: 'Ctrl-Enter or ⌘-Enter', onclick: () => (this.#cancel ? this.stop() : this.run()) }, '▶ Run');
    this.choice = h('select', { 'aria-label': 'Which query', hidden: true, onchange: () => this.#choose(this.choice.value) });
    this.called = h('span', { class: 'tag', hidden: true });
    this.tabs = h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'How to see the result' }, Object.entries(TABS).map(([name, title]) => this.#tab(name, title)));
    this.status = h('div', { class: 'status', role: 'status' }, h('span', { class: 'dim' }, 'Ctrl-Enter runs'));
    this.findings = h('div', { class: 'findings', hidden: true });
    this.pane = h('div', { class: 'pane', id: 'result', role: 'tabpanel' }, h('div', { class: 'empty' }, 'Run a query to see rows, a picture or a plan.'));
    const bar = h('div', { class: 'bar' }, this.go, this.choice, this.called, this.params.element, h('span', { class: 'grow' }), this.tabs, exporter(this));
    const work = h('div', { class: 'work' }, h('div', { class: 'editing' }, this.editor.element), this.findings, bar, this.status, h('div', { class: 'out' }, this.pane, this.inspector.element));
    this.element = h('div', { class: 'query' }, this.#side(), work);
  }

  #tab(name, title) {
    return h('button', { role: 'tab', 'data-view': name, 'aria-controls': 'result', 'aria-selected': String(name === this.view), tabindex: name === this.view ? '0' : '-1', onclick: () => this.see(name), onkeydown: (event) => this.#turned(event) }, title);
  }

  #turned(event) {
    const names = Object.keys(TABS);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    this.see(names[(names.indexOf(this.view) + step + names.length) % names.length]);
    this.tabs.querySelector('[aria-selected="true"]').focus();
  }

  #side() {
    const { catalog, colours } = this.app;
    const entry = (one, isEdge) => h('li', {}, h('button', { class: 'item', title: one.description ?? one.table_key, onclick: () => this.#ask(exampleOf(one, isEdge, catalog)) }, dot(isEdge ? colours.of(one.from) : colours.of(one.name), isEdge), h('span', { class: 'name' }, isEdge ? one.word : one.name), h('span', { class: 'number' }, one.row_count.toLocaleString('en'))));
    this.queries = h('section', { hidden: true });
    return h('nav', { class: 'side', 'aria-label': 'What there is' }, this.queries,
      h('section', {}, h('h2', {}, 'Nodes'), h('ul', {}, catalog.nodes.map((one) => entry(one, false)))),
      h('section', {}, h('h2', {}, 'Edges'), h('ul', {}, catalog.edges.map((one) => entry(one, true)))));
  }

  async shown() {
    storedQueries(this.app, (one) => this.#openStored(one)).then((list) => list && (fill(this.queries, list), (this.queries.hidden = false)));
    await this.check();
    const chosen = this.chosen;
    if (this.autorun && chosen?.kind === 'read' && this.#lint.status !== 'error') this.run();
  }

  destroy() {
    this.stop();
    this.#asked++;
    this.#clear();
    this.editor.destroy();
  }

  #clear() {
    for (const one of this.#parts) one.destroy();
    this.#parts = [];
    this.picture = null;
  }

  get text() {
    return this.editor.text;
  }

  /** The query that runs: the one that was chosen, else the one the cursor is in. */
  get chosen() {
    if (this.stored) return this.stored;
    const { queries } = this.#lint;
    return queries.find((one) => one.name === this.name) ?? queries.findLast((one) => one.span.start <= this.editor.cursor) ?? queries[0] ?? null;
  }

  #ask(text) {
    this.stored = null;
    this.editor.text = text;
    this.name = null;
    this.#typed();
    this.check().then(() => this.run());
  }

  #openStored(one) {
    this.stored = one.text ? null : one;
    this.editor.text = one.text ?? `// ${one.name}${one.description ? `: ${one.description}` : ''}\n// The server keeps this query; its parameters are below.\n`;
    this.name = one.name;
    if (this.stored) this.#form();
    else this.check();
    this.editor.focus();
  }

  #typed() {
    this.stored = null;
    this.app.note({ q: this.text });
    this.checkSoon();
  }

  #choose(name) {
    this.name = name;
    this.#form();
  }

  /** Ask the server what it thinks of the text; a later answer to an earlier text is dropped. */
  async check() {
    if (this.stored) return;
    const turn = ++this.#asked;
    try {
      const found = await this.app.api.post('/lint', { query_source: this.text, ...this.app.state });
      if (turn !== this.#asked) return;
      this.editor.diagnose(found.diagnostics);
      this.#tell(found);
      const parsed = found.queries.length > 0 || this.text.trim() === '';
      this.params.disabled = !parsed; // the form of the last text that could be read stays
      if (parsed) {
        this.#lint = found;
        this.#form();
      }
    } catch (error) {
      if (turn === this.#asked) fill(this.status, h('span', { class: 'bad' }, error.message));
    }
  }

  #tell({ diagnostics }) {
    const worst = diagnostics[0];
    this.findings.hidden = !worst;
    if (!worst) return;
    const more = diagnostics.length > 1 ? ` (and ${diagnostics.length - 1} more)` : '';
    fill(this.findings, h('span', { class: worst.severity === 'error' ? 'tag bad' : 'tag warn' }, worst.severity), h('span', {}, `${worst.line ? `line ${worst.line}: ` : ''}${worst.message}${more}`), worst.hint && h('span', { class: 'hint' }, worst.hint));
  }

  #form() {
    const { queries } = this.#lint;
    const one = this.chosen;
    this.choice.hidden = this.stored !== null || queries.length < 2;
    fill(this.choice, queries.map((query) => h('option', { value: query.name, selected: query === one }, query.name)));
    this.called.hidden = !one || !this.choice.hidden;
    this.called.textContent = one?.name ?? '';
    this.params.show(one?.params ?? [], this.given);
    const writes = one?.kind === 'mutation';
    this.go.textContent = writes ? '✎ Write…' : '▶ Run';
    this.go.classList.toggle('writes', writes);
    this.go.disabled = writes && !this.app.may('change') && !this.app.mayElsewhere('change');
  }

  get body() {
    return { query_source: this.text, query_name: this.chosen?.name, params: this.params.values, ...this.app.state };
  }

  /** Run what is chosen: a read at once, a write after a question. */
  async run() {
    this.stop();
    if (!this.stored) await this.check();
    const one = this.chosen;
    try {
      const body = one ? this.body : { query_source: this.text, ...this.app.state };
      if (one?.kind === 'mutation') {
        await offerWrite(this.app, one, body, this.stored, (parts) => this.#present(parts));
        return;
      }
      this.#run = { body, stored: this.stored, rows: null };
      this.app.note({ q: this.text, name: this.#lint.queries.length > 1 ? one?.name : '', p: JSON.stringify(this.params.raw) === '{}' ? '' : JSON.stringify(this.params.raw), view: this.view });
      await this.#look();
    } catch (error) {
      this.#present([problem(error)]);
    }
  }

  stop() {
    this.#cancel?.abort();
    this.#cancel = null;
  }

  #present(parts) {
    this.#clear();
    fill(this.pane, parts);
  }

  /** See the result another way. */
  see(view) {
    this.view = view;
    for (const tab of this.tabs.children) {
      tab.setAttribute('aria-selected', String(tab.dataset.view === view));
      tab.tabIndex = tab.dataset.view === view ? 0 : -1;
    }
    this.app.note({ view });
    if (this.#run) this.#look();
  }

  async #look() {
    const run = this.#run;
    this.stop();
    const cancel = (this.#cancel = new AbortController());
    this.go.textContent = '■ Stop';
    this.#clear();
    await shownIn(this.pane, () => this[`see_${this.view}`](run, cancel.signal), 'Running…');
    for (const one of this.#parts) one.draw();
    if (this.#cancel !== cancel) return;
    this.#cancel = null;
    this.#form();
  }

  async #rows(run, signal) {
    if (run.rows) return run.rows;
    const started = performance.now();
    const found = run.stored
      ? await run.stored.rows(run.body.params, this.app.state, signal)
      : await this.app.api.arrow('/query', run.body, { signal });
    const table = tableFromIPC(found.bytes, { useBigInt: true });
    const total = performance.now() - started;
    const said = [count(table.numRows, 'row'), size(found.bytes.length), found.ms !== null && `server ${found.ms.toFixed(1)} ms`, `total ${total.toFixed(0)} ms`].filter(Boolean).join(' · ');
    run.rows = { table, said, commit: found.commit };
    return run.rows;
  }

  async see_table(run, signal) {
    const { table, said } = await this.#rows(run, signal);
    this.status.textContent = said;
    if (!table.numRows) return [h('div', { class: 'empty' }, 'No rows.')];
    const rows = new Rows(table, (name, value) => this.#pointed(name, value));
    this.#parts.push(rows);
    return [rows.element];
  }

  // A cell that holds an id or a key leads to its node.
  #pointed(column, value) {
    const [variable, prop] = column.split('.');
    const type = prop && typeOf(variable, this.text, this.app.catalog);
    const isKey = prop === 'id' || (type?.key?.length === 1 && type.key[0] === prop);
    if (type && isKey && typeof value === 'string') this.inspector.show(type.name, value);
  }

  async see_graph(run, signal) {
    if (run.stored) return [h('div', { class: 'empty' }, 'A picture needs the text of the query.')];
    const found = await this.app.api.post('/read', { ...run.body, shape: 'graph', max_nodes: PICTURE_NODES }, { signal });
    this.status.textContent = `${count(found.nodes.length, 'node')}, ${count(found.edges.length, 'edge')} behind ${count(found.row_count, 'row')} of the match${found.truncated ? '; there are more: the table has them all' : ''}`;
    if (!found.nodes.length) return [h('div', { class: 'empty' }, 'No nodes behind this result.')];
    const picture = new Picture(this.app.colours, {
      select: (one) => (one ? this.inspector.show(one.type, one.id) : this.inspector.clear()),
      expand: (node) => widening(this.app, picture, node),
      announce: (text) => this.app.announce(text),
    });
    picture.show(found.nodes, found.edges, found.truncated ? `first ${PICTURE_NODES}` : '');
    this.picture = picture;
    this.#parts.push(picture);
    return [picture.element];
  }

  #widened(group, node) {
    if (!this.picture) return;
    const ends = group.way === 'out' ? (one) => ({ from: node.id, from_type: node.type, to: one.id, to_type: group.type }) : (one) => ({ from: one.id, from_type: group.type, to: node.id, to_type: node.type });
    this.picture.add(
      [{ type: node.type, id: node.id, label: node.label }, ...group.neighbours.map((one) => ({ type: group.type, id: one.id, label: one.label }))],
      group.neighbours.map((one) => ({ type: group.edge, id: one.edge_id, ...ends(one) })),
    );
  }

  async see_json(run, signal) {
    const { table, said } = await this.#rows(run, signal);
    if (table.numRows > JSON_ROWS)
      return [h('div', { class: 'empty' }, h('p', {}, `${count(table.numRows, 'row')} are more than anybody reads as JSON here.`), h('p', {}, 'Save them with Export, or add a limit.'))];
    const found = run.stored ? await run.stored.json(run.body.params, this.app.state, signal) : await this.app.api.post('/query', run.body, { signal, query: { js_safe: 1 } });
    this.status.textContent = said;
    return [h('pre', { class: 'json', tabindex: '0' }, JSON.stringify(found, null, 2))];
  }

  async see_plan(run, signal) {
    if (run.stored) return [h('div', { class: 'empty' }, 'A plan needs the text of the query.')];
    const found = await this.app.api.post('/profile', run.body, { signal });
    const most = Math.max(...found.operators.map((one) => one.ms), 0.001);
    this.status.textContent = `${count(found.row_count, 'row')} · compile ${found.compile_ms.toFixed(2)} ms · total ${found.total_ms.toFixed(2)} ms`;
    const rows = found.operators.map((one) => h('tr', {}, h('th', { scope: 'row' }, '\u00a0\u00a0'.repeat(one.depth), one.operator), h('td', {}, one.access ?? ''), h('td', { class: 'num' }, one.expected_rows?.toLocaleString('en') ?? ''), h('td', { class: 'num' }, one.rows.toLocaleString('en')), h('td', { class: 'num' }, one.ms.toFixed(2)), h('td', {}, h('div', { class: 'meter', 'aria-hidden': 'true' }, h('i', { style: { width: `${(100 * one.ms) / most}%` } })))));
    const heads = ['Operator', 'Access', 'Expected', 'Rows', 'ms', 'Share'].map((one) => h('th', { scope: 'col' }, one));
    return [h('table', { class: 'grid plan' }, h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows))];
  }
}

function readParams(text) {
  try {
    const found = JSON.parse(text ?? '{}');
    return found !== null && typeof found === 'object' ? found : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {}; // an address somebody cut
    throw error;
  }
}

function firstQuery(catalog) {
  const best = [...catalog.nodes].sort((a, b) => b.row_count - a.row_count)[0];
  return best ? exampleOf(best, false, catalog) : '';
}

// A query that shows what is in a type.
function exampleOf(one, isEdge, catalog) {
  const shown = (variable, kind, most) => kind.properties.filter((prop) => prop.scalar !== 'Vector' && prop.scalar !== 'Blob').slice(0, most).map((prop) => `$${variable}.${prop.name}`);
  if (!isEdge) {
    const columns = shown('n', one, 5).join(', ') || '$n.id';
    return `query ${one.name.toLowerCase()}_rows() {\n  match {\n    $n: ${one.name}\n  }\n  return { ${columns} }\n  limit 200\n}\n`;
  }
  const label = (variable, name) => `$${variable}.${catalog.nodes.find((kind) => kind.name === name)?.label ?? 'id'}`;
  const columns = [label('a', one.from) + ' as from_node', label('b', one.to) + ' as to_node', ...shown('e', one, 3)].join(', ');
  return `query ${one.word}_rows() {\n  match {\n    $a: ${one.from}\n    $b: ${one.to}\n    $a $e:${one.word} $b\n  }\n  return { ${columns} }\n  limit 200\n}\n`;
}
