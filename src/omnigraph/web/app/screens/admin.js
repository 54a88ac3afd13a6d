// Looking after the graph: checks, compaction, cleanup, locks; what runs now, and who may do what.

import { confirm, problem, shownIn, toast } from '../dialogs.js';
import { fill, h } from '../dom.js';
import { ago, count, size } from '../values.js';

const METRICS = /^(omnigraph_(?:image|cache|reads|http_requests|memory)\w*)(?:\{([^}]*)\})? (\S+)$/;

export class Admin {
  constructor(app) {
    this.app = app;
    this.element = h(
      'div',
      { class: 'page' },
      h('div', { class: 'row hero' }, h('h1', {}, 'Admin')),
      h(
        'div',
        { class: 'cards two' },
        this.#verify(),
        this.#optimize(),
        this.#cleanup(),
        this.#card('Locks', () => this.#locks()),
        this.#card('Space', () => this.#usage()),
        this.#card('Who you are', () => this.#rights()),
        this.#card('This worker', () => this.#metrics()),
      ),
    );
  }

  #card(name, work) {
    const place = h('div', { class: 'inside' });
    const again = h(
      'button',
      { class: 'plain small', 'aria-label': `Look again: ${name}`, onclick: () => shownIn(place, work) },
      '↻',
    );
    shownIn(place, work);
    return h(
      'section',
      { class: 'card' },
      h('div', { class: 'head row' }, h('h2', { class: 'grow' }, name), again),
      place,
    );
  }

  #worked(title, note, controls, ...works) {
    const place = h('div', { class: 'answer' });
    const buttons = works.map(({ name, run, danger }) =>
      h('button', { class: danger ? 'danger' : '', onclick: () => shownIn(place, run, 'Working…') }, name),
    );
    return h(
      'section',
      { class: 'card' },
      h('h2', {}, title),
      h(
        'div',
        { class: 'inside' },
        h('p', { class: 'dim' }, note),
        h('div', { class: 'row' }, controls, buttons),
        place,
      ),
    );
  }

  #verify() {
    const deep = h('input', { type: 'checkbox' });
    return this.#worked(
      'Verify',
      'Compares the graph with its own rules; deep also compares the bytes of every file.',
      h('label', { class: 'row' }, deep, 'deep'),
      {
        name: 'Verify',
        run: async () => {
          const { findings } = await this.app.api.get('/maintenance/verify', { deep: deep.checked ? 1 : 0 });
          if (!findings.length) return h('p', {}, h('span', { class: 'tag good' }, 'ok'), ' Nothing is wrong.');
          const some = count(findings.filter((one) => !one.harmless).length, 'finding');
          return [
            h(
              'p',
              {},
              findings.every((one) => one.harmless)
                ? 'Nothing is wrong; what was found is harmless.'
                : `${some} to look into.`,
            ),
            h(
              'ul',
              { class: 'rules' },
              findings.map((one) =>
                h(
                  'li',
                  {},
                  h('span', { class: one.harmless ? 'tag' : 'tag bad' }, one.kind),
                  ' ',
                  h('code', {}, one.subject),
                  ' ',
                  one.detail,
                ),
              ),
            ),
          ];
        },
      },
    );
  }

  #optimize() {
    const run = async (preview) => {
      const { tables } = await this.app.api.post('/maintenance/optimize', {
        branch: this.app.branch,
        preview,
      });
      const some = tables.filter((one) => one.fragments_removed || one.pending_indexes?.length || one.skipped);
      if (!some.length) return h('p', {}, h('span', { class: 'tag good' }, 'ok'), ' There is nothing to do.');
      return grid(
        ['Table', 'Files', 'Becomes', 'Indexes to build', ''],
        some.map((one) => [
          one.table_key,
          one.fragments_removed,
          one.fragments_added,
          (one.pending_indexes ?? []).join(', '),
          one.skipped ?? (one.committed ? 'done' : ''),
        ]),
      );
    };
    return this.#worked(
      'Optimize',
      `Merges small files of ${this.app.branch} and brings indexes up to date; readers and writers go on.`,
      null,
      { name: 'Preview', run: () => run(true) },
      { name: 'Optimize', run: () => run(false) },
    );
  }

  #cleanup() {
    const keep = h('input', {
      type: 'number',
      min: '1',
      value: '20',
      'aria-label': 'Versions to keep',
      class: 'short',
    });
    const run = async (dry) => {
      const { tables } = await this.app.api.post('/maintenance/cleanup', {
        keep_versions: Number(keep.value),
        dry_run: dry,
      });
      if (!tables.length) return h('p', {}, h('span', { class: 'tag good' }, 'ok'), ' Nothing would go.');
      const names = Object.keys(tables[0]);
      return grid(
        names,
        tables.map((one) => names.map((name) => shownCell(name, one[name]))),
      );
    };
    return this.#worked(
      'Cleanup',
      'Removes old versions that no branch, tag or merge needs. What is gone cannot be read at any more.',
      h('label', { class: 'row' }, 'keep', keep, 'versions'),
      { name: 'Preview', run: () => run(true) },
      {
        name: 'Clean up…',
        danger: true,
        run: async () =>
          (await confirm(
            'Remove old versions?',
            `All but the newest ${keep.value} versions of every table go for good, unless something needs them.`,
            'Remove',
          ))
            ? run(false)
            : h('p', { class: 'dim' }, 'Nothing was removed.'),
      },
    );
  }

  async #locks() {
    const { locks } = await this.app.api.get('/locks');
    if (!locks.length) return h('p', { class: 'dim' }, 'Nobody holds a lock.');
    return h(
      'ul',
      { class: 'rules' },
      locks.map((one) =>
        h(
          'li',
          { class: 'row' },
          h('code', {}, one.name),
          h(
            'span',
            { class: 'dim' },
            Object.entries(one)
              .filter(([name, value]) => name !== 'name' && value !== null)
              .map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : value}`)
              .join(', '),
          ),
          h('span', { class: 'grow' }),
          h('button', { class: 'danger', onclick: (event) => this.#break(event, one.name) }, 'Break'),
        ),
      ),
    );
  }

  async #break(event, name) {
    const place = event.currentTarget.closest('.inside');
    if (!(await confirm(`Break ${name}?`, 'Only a lock whose writer is gone may be broken.', 'Break'))) return;
    try {
      await this.app.api.delete(`/locks/${encodeURIComponent(name)}`);
      toast(`${name} was broken`);
      shownIn(place, () => this.#locks());
    } catch (error) {
      fill(place, problem(error));
    }
  }

  async #usage() {
    const { datasets } = await this.app.api.get('/maintenance/usage');
    const most = [...datasets].sort((a, b) => b.total - a.total).slice(0, 12);
    const all = datasets.reduce((sum, one) => sum + one.total, 0);
    return [
      h(
        'p',
        {},
        h('b', {}, size(all)),
        h('span', { class: 'dim' }, ` in ${count(datasets.length, 'dataset')}; the largest:`),
      ),
      grid(
        ['Dataset', 'Branch', 'Rows', 'Versions', 'Indexes', 'All'],
        most.map((one) => [
          one.table_key ?? one.location,
          one.branch ?? 'main',
          size(one.data),
          size(one.versions),
          size(one.indexes),
          size(one.total),
        ]),
      ),
    ];
  }

  async #rights() {
    const { me } = this.app;
    const words = me.policy
      ? 'a policy says who may do what'
      : me.needs_token
        ? 'any known token may do everything'
        : 'everybody may do everything';
    const rights = (title, allowed) => [
      h('dt', {}, title),
      h(
        'dd',
        { class: 'chips' },
        allowed.length
          ? allowed.map((one) => h('span', { class: 'tag' }, one))
          : h('span', { class: 'dim' }, 'nothing'),
      ),
    ];
    return [
      h(
        'p',
        {},
        h('b', {}, me.actor ?? 'nobody named'),
        h(
          'span',
          { class: 'dim' },
          ` · OmniGraph ${me.version} · ${words}${me.hides_rows ? ', and which rows they see' : ''}`,
        ),
      ),
      h('dl', {}, rights(`on ${me.branch}`, me.allowed), rights('on a new branch', this.app.elsewhere.allowed)),
    ];
  }

  async #metrics() {
    const blob = await this.app.api.blob('GET', '/metrics', { accept: 'text/plain' });
    const found = (await blob.text())
      .split('\n')
      .map((line) => METRICS.exec(line))
      .filter(Boolean);
    const gauges = found
      .filter(([, name]) => !/_bucket$|http_requests/.test(name))
      .map(([, name, labels, value]) => [
        name.replace('omnigraph_', '').replaceAll('_', ' '),
        labels ?? '',
        /bytes/.test(name) ? size(Number(value)) : Number(value).toLocaleString('en'),
      ]);
    if (!gauges.length) return h('p', { class: 'dim' }, 'Nothing was counted yet.');
    return grid(['What', '', ''], gauges);
  }
}

function shownCell(name, value) {
  if (value === null || value === undefined) return '';
  if (/bytes/.test(name)) return size(value);
  if (/_at$/.test(name) && typeof value === 'number') return ago(value);
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function grid(heads, rows) {
  return h(
    'div',
    { class: 'scrolls', tabindex: '0', role: 'region', 'aria-label': 'Answer' },
    h(
      'table',
      { class: 'grid' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          heads.map((one) => h('th', { scope: 'col' }, one)),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((cells) =>
          h(
            'tr',
            {},
            cells.map((one) => h('td', { class: typeof one === 'number' ? 'num' : '' }, String(one))),
          ),
        ),
      ),
    ),
  );
}
