// Queries: typed, checked while they are typed, run, and seen as rows, picture, text or plan.

import { typeOf } from '../complete.js';
import { problem, shownIn } from '../dialogs.js';
import { dot, fill, h, later } from '../dom.js';
import { Editor } from '../editor.js';
import { exampleOf, firstQuery } from '../examples.js';
import { exporter } from '../export.js';
import { Inspector } from '../inspector.js';
import { Params } from '../params.js';
import { storedQueries } from '../stored.js';
import { VIEWS } from '../views.js';
import { offerWrite } from '../write.js';

const TABS = { table: 'Table', graph: 'Graph', json: 'JSON', plan: 'Plan' };
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
    this.isGone = false;
    this.checkSoon = later(() => this.#paused(), PAUSE_MS);
    this.autorun = said.q !== undefined;
    this.#build();
  }

  #build() {
    this.go = h(
      'button',
      {
        class: 'primary run',
        title: 'Ctrl-Enter or ⌘-Enter',
        onclick: () => (this.#cancel ? this.halt() : this.run()),
      },
      '▶ Run',
    );
    this.choice = h('select', {
      'aria-label': 'Which query',
      hidden: true,
      onchange: () => this.#choose(this.choice.value),
    });
    this.called = h('span', { class: 'tag', hidden: true });
    this.tabs = h(
      'div',
      { class: 'tabs', role: 'tablist', 'aria-label': 'How to see the result' },
      Object.entries(TABS).map(([name, title]) => this.#tab(name, title)),
    );
    this.status = h('div', { class: 'status', role: 'status' }, h('span', { class: 'dim' }, 'Ctrl-Enter runs'));
    this.findings = h('div', { class: 'findings', hidden: true });
    this.pane = h(
      'div',
      { class: 'pane', id: 'result', role: 'tabpanel' },
      h('div', { class: 'empty' }, 'Run a query to see rows, a picture or a plan.'),
    );
    const bar = h(
      'div',
      { class: 'bar' },
      this.go,
      this.choice,
      this.called,
      this.params.element,
      h('span', { class: 'grow' }),
      this.tabs,
      exporter(this),
    );
    const work = h(
      'div',
      { class: 'work' },
      h('div', { class: 'editing' }, this.editor.element),
      this.findings,
      bar,
      this.status,
      h('div', { class: 'out' }, this.pane, this.inspector.element),
    );
    this.element = h('div', { class: 'query' }, this.#side(), work);
  }

  #tab(name, title) {
    return h(
      'button',
      {
        role: 'tab',
        'data-view': name,
        'aria-controls': 'result',
        'aria-selected': String(name === this.view),
        tabindex: name === this.view ? '0' : '-1',
        onclick: () => this.see(name),
        onkeydown: (event) => this.#turned(event),
      },
      title,
    );
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
    const entry = (one, isEdge) =>
      h(
        'li',
        {},
        h(
          'button',
          {
            class: 'item',
            title: one.description ?? one.table_key,
            onclick: () => this.#ask(exampleOf(one, isEdge, catalog)),
          },
          dot(isEdge ? colours.of(one.from) : colours.of(one.name), isEdge),
          h('span', { class: 'name' }, isEdge ? one.word : one.name),
          h('span', { class: 'number' }, one.row_count.toLocaleString('en')),
        ),
      );
    this.queries = h('section', { hidden: true });
    return h(
      'nav',
      { class: 'side', 'aria-label': 'What there is' },
      this.queries,
      h(
        'section',
        {},
        h('h2', {}, 'Nodes'),
        h(
          'ul',
          {},
          catalog.nodes.map((one) => entry(one, false)),
        ),
      ),
      h(
        'section',
        {},
        h('h2', {}, 'Edges'),
        h(
          'ul',
          {},
          catalog.edges.map((one) => entry(one, true)),
        ),
      ),
    );
  }

  async shown() {
    storedQueries(this.app, (one) => this.#openStored(one)).then(
      (list) => list && (fill(this.queries, list), (this.queries.hidden = false)),
    );
    await this.check();
    const chosen = this.chosen;
    if (this.autorun && chosen?.kind === 'read' && this.#lint.status !== 'error') this.run();
  }

  destroy() {
    this.isGone = true;
    this.stop();
    this.#asked++;
    this.#clear();
    this.editor.destroy();
  }

  /** Remember a part that has to be let go of. */
  keep(part) {
    this.#parts.push(part);
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
    return (
      queries.find((one) => one.name === this.name) ??
      queries.findLast((one) => one.span.start <= this.editor.cursor) ??
      queries[0] ??
      null
    );
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
    this.editor.text =
      one.text ??
      `// ${one.name}${one.description ? `: ${one.description}` : ''}\n// The server keeps this query; its parameters are below.\n`;
    this.name = one.name;
    if (this.stored) this.#form();
    else this.check();
    this.editor.focus();
  }

  // Browsers take only so many changes of an address, so it follows when the typing pauses.
  #paused() {
    if (this.isGone) return;
    this.app.note({ q: this.text });
    this.check();
  }

  #typed() {
    this.stored = null;
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
    fill(
      this.findings,
      h('span', { class: worst.severity === 'error' ? 'tag bad' : 'tag warn' }, worst.severity),
      h('span', {}, `${worst.line ? `line ${worst.line}: ` : ''}${worst.message}${more}`),
      worst.hint && h('span', { class: 'hint' }, worst.hint),
    );
  }

  #form() {
    const { queries } = this.#lint;
    const one = this.chosen;
    this.choice.hidden = this.stored !== null || queries.length < 2;
    fill(
      this.choice,
      queries.map((query) => h('option', { value: query.name, selected: query === one }, query.name)),
    );
    this.called.hidden = !one || !this.choice.hidden;
    this.called.textContent = one?.name ?? '';
    this.params.show(one?.params ?? [], this.given);
    const writes = one?.kind === 'mutation';
    this.go.textContent = writes ? '✎ Write…' : '▶ Run';
    this.go.classList.toggle('writes', writes);
    this.go.disabled = writes && !this.app.may('change') && !this.app.mayElsewhere('change');
  }

  get body() {
    return {
      query_source: this.text,
      query_name: this.chosen?.name,
      params: this.params.values,
      ...this.app.state,
    };
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
      this.app.note({
        q: this.text,
        name: this.#lint.queries.length > 1 ? one?.name : '',
        p: JSON.stringify(this.params.raw) === '{}' ? '' : JSON.stringify(this.params.raw),
        view: this.view,
      });
      await this.#look();
    } catch (error) {
      this.#present([problem(error)]);
    }
  }

  stop() {
    this.#cancel?.abort();
    this.#cancel = null;
  }

  /** Stop what runs because somebody said so; the server hears of it. */
  halt() {
    this.stop();
    this.#form();
    this.#present([h('div', { class: 'empty' }, 'Stopped.')]);
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
    await shownIn(this.pane, () => VIEWS[this.view](this, run, cancel.signal), 'Running…');
    for (const one of this.#parts) one.draw();
    if (this.#cancel !== cancel) return;
    this.#cancel = null;
    this.#form();
  }

  // A cell that holds an id or a key leads to its node.
  pointed(column, value) {
    const [variable, prop] = column.split('.');
    const type = prop && typeOf(variable, this.text, this.app.catalog);
    const isKey = prop === 'id' || (type?.key?.length === 1 && type.key[0] === prop);
    if (type && isKey && typeof value === 'string') this.inspector.show(type.name, value);
  }

  #widened(group, node) {
    if (!this.picture) return;
    const ends =
      group.way === 'out'
        ? (one) => ({ from: node.id, from_type: node.type, to: one.id, to_type: group.type })
        : (one) => ({ from: one.id, from_type: group.type, to: node.id, to_type: node.type });
    this.picture.add(
      [
        { type: node.type, id: node.id, label: node.label },
        ...group.neighbours.map((one) => ({ type: group.type, id: one.id, label: one.label })),
      ],
      group.neighbours.map((one) => ({ type: group.edge, id: one.edge_id, ...ends(one) })),
    );
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
