// All there is to know of one node or edge: its values, its neighbours, its life.

import { dot, fill, h } from './dom.js';
import { problem } from './dialogs.js';
import { ago, isLink, shortId, told } from './values.js';

const MORE = 100;

/** What stands for a value: text, or a link if it is an address of the web. */
export function valueOf(value) {
  const text = told(value);
  if (text === null) return h('span', { class: 'dim' }, 'null');
  return isLink(text) ? h('a', { href: text, rel: 'noopener noreferrer', target: '_blank' }, text) : text;
}

export class Inspector {
  #turn = 0;

  /** `on.widen(group, node)` adds neighbours to a picture; without it they only lead on. */
  constructor(app, on = {}) {
    this.app = app;
    this.on = on;
    this.element = h('aside', { class: 'inspector', 'aria-label': 'Inspector', hidden: true });
  }

  clear() {
    this.#turn++;
    this.element.hidden = true;
  }

  /** Show a node or an edge by its type and id. */
  async show(type, id) {
    const turn = ++this.#turn;
    const isEdge = !this.app.catalog.nodes.some((one) => one.name === type);
    const table = `${isEdge ? 'edge' : 'node'}:${type}`;
    this.element.hidden = false;
    try {
      const query = { table, id, js_safe: 1, ...this.app.state };
      const asked = [this.app.api.get('/entity', query)];
      if (!isEdge) asked.push(this.app.api.get('/entity/neighbours', { table, id, ...this.app.state }));
      const [row, near] = await Promise.all(asked);
      if (turn === this.#turn) fill(this.element, this.#parts({ type, id, table, isEdge, row, near }));
    } catch (error) {
      if (turn === this.#turn) fill(this.element, problem(error));
    }
  }

  #parts(one) {
    const { type, id, row, near, isEdge } = one;
    const close = h(
      'button',
      { class: 'plain', 'aria-label': 'Close the inspector', onclick: () => this.clear() },
      '✕',
    );
    const values = Object.entries(row).filter(([name]) => name !== 'id');
    return [
      h(
        'div',
        { class: 'row' },
        dot(this.app.colours.of(type), isEdge),
        h('span', { class: 'tag' }, type),
        h('code', { class: 'dim id' }, id),
        h('span', { class: 'grow' }),
        close,
      ),
      h('h2', {}, near?.label ?? `${row.src} → ${row.dst}`),
      h(
        'dl',
        {},
        values.map(([name, value]) => [h('dt', {}, name), h('dd', {}, valueOf(value))]),
      ),
      (near?.groups ?? []).map((group) => this.#group(group, near)),
      this.#life(one),
    ];
  }

  #group(group, node) {
    const left = group.total - group.neighbours.length;
    const chips = group.neighbours.map((one) =>
      h('button', { class: 'chip', onclick: () => this.#follow(group, node, one) }, one.label),
    );
    const more =
      left > 0 &&
      h(
        'button',
        {
          class: 'chip dim',
          title: `Show up to ${MORE}`,
          onclick: (event) => this.#more(event, group, node),
        },
        `+${left.toLocaleString('en')}`,
      );
    const widen =
      this.on.widen &&
      h(
        'button',
        {
          class: 'chip',
          title: 'Add these to the picture',
          'aria-label': `Add ${group.edge} to the picture`,
          onclick: () => this.on.widen(group, node),
        },
        '⊕',
      );
    return h(
      'section',
      {},
      h('h3', {}, group.way === 'out' ? '→' : '←', ` ${group.edge} · ${group.total.toLocaleString('en')} `, widen),
      h('div', { class: 'chips' }, chips, more),
    );
  }

  #follow(group, node, one) {
    if (this.on.widen) this.on.widen({ ...group, neighbours: [one] }, node);
    if (this.on.follow) this.on.follow(group.type, one.id);
    else this.show(group.type, one.id);
  }

  async #more(event, group, node) {
    const place = event.currentTarget.closest('section');
    try {
      const found = await this.app.api.get('/entity/neighbours', {
        table: node.table_key,
        id: node.id,
        edge: group.edge,
        way: group.way,
        limit: MORE,
        ...this.app.state,
      });
      if (found.groups[0]) place.replaceWith(this.#group(found.groups[0], node));
    } catch (error) {
      place.append(problem(error));
    }
  }

  #life({ type, id, table, isEdge }) {
    const place = h('div', {});
    const blame = h(
      'button',
      { class: 'chip', onclick: () => this.#into(place, () => blamed(this.app, table, id)) },
      'Who changed what',
    );
    const history = h(
      'button',
      { class: 'chip', onclick: () => this.#into(place, () => lived(this.app, table, id)) },
      'History',
    );
    const open = h('button', { class: 'chip', onclick: () => this.app.go('entity', { type, id }) }, 'Open');
    const ask =
      !isEdge &&
      h(
        'button',
        {
          class: 'chip',
          onclick: () => this.app.go('query', { q: queryOf(type), p: JSON.stringify({ id }), view: 'graph' }),
        },
        'Open in query',
      );
    return h('section', {}, h('h3', {}, 'History'), h('div', { class: 'chips' }, history, blame, open, ask), place);
  }

  async #into(place, work) {
    try {
      fill(place, await work());
    } catch (error) {
      fill(place, problem(error));
    }
  }
}

const queryOf = (type) =>
  `query around($id: String) {\n  match {\n    $n: ${type}\n    $n.id = $id\n  }\n  return { $n.id }\n}\n`;

const by = (commit) => `${commit.actor_id ?? 'nobody named'}, ${ago(commit.created_at)}`;

/** Which commit gave every value. */
export async function blamed(app, table, id) {
  const found = await app.api.get('/entity/blame', { table, id, branch: app.branch });
  const rows = found.properties.map((one) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, one.name),
      h('td', {}, valueOf(one.value)),
      h(
        'td',
        {},
        h('code', { title: one.commit.graph_commit_id }, shortId(one.commit.graph_commit_id)),
        h('div', { class: 'dim' }, by(one.commit)),
      ),
    ),
  );
  return h('table', { class: 'grid' }, h('caption', { class: 'sr' }, 'Who changed what'), h('tbody', {}, rows));
}

/** Every commit that changed it, and what it was before and after. */
export async function lived(app, table, id) {
  const found = await app.api.get('/entity/history', { table, id, branch: app.branch, limit: 50 });
  if (!found.versions.length) return h('p', { class: 'dim' }, 'No commit changed it.');
  return h(
    'ol',
    { class: 'life' },
    found.versions.map((one) => {
      const names = one.op === 'update' ? one.changed : [];
      return h(
        'li',
        { class: one.op },
        h(
          'div',
          {},
          h('b', {}, one.op),
          ' ',
          h('code', { title: one.commit.graph_commit_id }, shortId(one.commit.graph_commit_id)),
          h('span', { class: 'dim' }, ` ${by(one.commit)}`),
        ),
        one.commit.message && h('div', { class: 'dim' }, one.commit.message),
        names.map((name) =>
          h(
            'div',
            { class: 'was-now' },
            h('code', {}, name),
            h('span', { class: 'was' }, valueOf(one.before?.[name])),
            h('span', { class: 'now' }, valueOf(one.after?.[name])),
          ),
        ),
      );
    }),
  );
}
