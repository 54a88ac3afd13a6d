// Files into a new branch, never straight into main: there they are looked at, then merged.

import { field, problem } from '../dialogs.js';
import { fill, h } from '../dom.js';
import { tarOf } from '../tar.js';
import { count, size } from '../values.js';

const LINES = /\.(jsonl|ndjson|json)$/i;
const TABLES = /\.(csv|tsv|parquet|arrow|feather)$/i;

export class Load {
  #files = [];

  constructor(app) {
    this.app = app;
    this.input = h('input', {
      type: 'file',
      multiple: true,
      class: 'sr',
      id: 'files',
      onchange: () => this.#take(this.input.files),
    });
    this.zone = h(
      'label',
      { class: 'drop', for: 'files' },
      h('b', {}, 'Drop files here'),
      h('span', { class: 'dim' }, 'JSON lines, CSV, Parquet or Arrow; or choose them'),
    );
    for (const kind of ['dragenter', 'dragover'])
      this.zone.addEventListener(kind, (event) => this.#hovered(event, true));
    for (const kind of ['dragleave', 'drop']) this.zone.addEventListener(kind, (event) => this.#hovered(event, false));
    this.zone.addEventListener('drop', (event) => this.#take(event.dataTransfer.files));
    this.place = h('div', {});
    this.element = h(
      'div',
      { class: 'page' },
      h('div', { class: 'row hero' }, h('h1', {}, 'Load')),
      h(
        'p',
        { class: 'dim' },
        'Files go to a branch of their own. What they change is shown before anything is merged.',
      ),
      this.input,
      this.zone,
      this.place,
    );
  }

  #hovered(event, over) {
    event.preventDefault();
    this.zone.classList.toggle('over', over);
  }

  #take(files) {
    this.#files = [...files].map((file) => ({
      file,
      what: LINES.test(file.name) ? 'lines' : this.#typeOf(file.name),
    }));
    if (this.#files.length) this.#form();
  }

  #typeOf(name) {
    const stem = name.split('.')[0].toLowerCase();
    const types = [...this.app.catalog.nodes, ...this.app.catalog.edges].map((one) => one.name);
    return types.find((one) => one.toLowerCase() === stem) ?? types[0];
  }

  #form() {
    const types = [...this.app.catalog.nodes, ...this.app.catalog.edges].map((one) => one.name);
    const rows = this.#files.map((one) => {
      const known = LINES.test(one.file.name);
      const what = h(
        'select',
        {
          'aria-label': `What ${one.file.name} holds`,
          disabled: known,
          onchange: () => (one.what = what.value),
        },
        (known ? ['lines'] : types).map((type) => h('option', { value: type, selected: type === one.what }, type)),
      );
      return h(
        'tr',
        {},
        h('th', { scope: 'row' }, one.file.name),
        h('td', { class: 'num' }, size(one.file.size)),
        h('td', {}, what),
        h(
          'td',
          {},
          !known && !TABLES.test(one.file.name) && h('span', { class: 'tag warn' }, 'an unknown kind of file'),
        ),
      );
    });
    const stem =
      this.#files[0].file.name
        .split('.')[0]
        .replace(/[^\w-]/g, '-')
        .toLowerCase() || 'files';
    const name = h('input', { value: `load/${stem}`, required: true, spellcheck: 'false' });
    const source = h(
      'select',
      {},
      this.app.branches.map((one) => h('option', { value: one, selected: one === this.app.branch }, one)),
    );
    const mode = h(
      'select',
      {},
      [
        ['merge', 'merge: rows with known keys are changed'],
        ['append', 'append: known keys are refused'],
        ['overwrite', 'overwrite: the tables hold these rows alone'],
      ].map(([word, text]) => h('option', { value: word }, text)),
    );
    const message = h('input', { placeholder: 'why' });
    const go = h('button', { class: 'primary' }, 'Load');
    const form = h(
      'form',
      {
        class: 'card inside form',
        onsubmit: (event) => (
          event.preventDefault(),
          this.#load(go, name.value.trim(), source.value, mode.value, message.value.trim())
        ),
      },
      h('table', { class: 'grid' }, h('tbody', {}, rows)),
      h(
        'div',
        { class: 'fields' },
        field('New branch', name),
        field('From', source),
        field('Mode', mode),
        field('Message', message),
      ),
      h('div', { class: 'row' }, go),
    );
    fill(this.place, form);
  }

  async #load(go, branch, from, mode, message) {
    go.disabled = true;
    go.textContent = 'Loading…';
    try {
      const query = { branch, from, mode, message };
      const [one] = this.#files;
      const done =
        this.#files.length === 1 && one.what === 'lines'
          ? await this.app.api.send('/load/ndjson', query, one.file, 'application/x-ndjson')
          : await this.app.api.send('/load/files', query, tarOf(this.#files), 'application/x-tar');
      await this.app.refresh();
      this.app.announce('Loaded');
      const tables = done.tables
        .filter((table) => table.rows_loaded)
        .map((table) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, table.table_key),
            h('td', { class: 'num' }, count(table.rows_loaded, 'row')),
          ),
        );
      fill(
        this.place,
        h(
          'section',
          { class: 'card done' },
          h('h2', {}, `Loaded into ${done.branch}`),
          h('table', { class: 'grid' }, h('tbody', {}, tables)),
          h(
            'div',
            { class: 'row' },
            h(
              'button',
              {
                class: 'primary',
                onclick: () => this.app.go('review', { source: done.branch, target: from }),
              },
              'See what it changes',
            ),
            h(
              'button',
              { onclick: () => this.app.go('query', { branch: done.branch, at: '' }) },
              `Look at ${done.branch}`,
            ),
          ),
        ),
      );
    } catch (error) {
      go.disabled = false;
      go.textContent = 'Load';
      this.place.querySelector('.problem')?.remove();
      this.place.append(problem(error));
    }
  }
}
