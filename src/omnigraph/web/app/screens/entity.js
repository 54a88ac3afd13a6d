// One node or edge: its values, neighbours, every commit that changed it.

import { shownIn } from '../dialogs.js';
import { dot, fill, h } from '../dom.js';
import { blamed, lived, valueOf } from '../inspector.js';

export class Entity {
  constructor(app, said) {
    this.app = app;
    this.said = said;
    const types = [...app.catalog.nodes, ...app.catalog.edges].map((one) => one.name);
    this.type = h(
      'select',
      { 'aria-label': 'Type' },
      types.map((one) => h('option', { value: one, selected: one === said.type }, one)),
    );
    this.id = h('input', {
      'aria-label': 'Id',
      value: said.id ?? '',
      spellcheck: 'false',
      placeholder: 'id or key',
    });
    this.place = h('div', { class: 'cards two' });
    const form = h(
      'form',
      { class: 'row', onsubmit: (event) => (event.preventDefault(), this.#go()) },
      this.type,
      this.id,
      h('button', { class: 'primary' }, 'Show'),
    );
    this.element = h(
      'div',
      { class: 'page' },
      h(
        'div',
        { class: 'row hero' },
        h('h1', { class: 'grow' }, said.id ? `${said.type} ${said.id}` : 'One node or edge'),
        form,
      ),
      this.place,
    );
  }

  #go() {
    this.app.go('entity', { type: this.type.value, id: this.id.value });
  }

  shown() {
    if (!this.said.id) {
      fill(this.place, h('p', { class: 'dim' }, 'Choose a type and an id.'));
      return;
    }
    const isEdge = !this.app.catalog.nodes.some((one) => one.name === this.said.type);
    const table = `${isEdge ? 'edge' : 'node'}:${this.said.type}`;
    const { id } = this.said;
    const card = (title, work) => {
      const body = h('div', { class: 'inside' });
      shownIn(body, work);
      return h('section', { class: 'card' }, h('h2', {}, title), body);
    };
    fill(
      this.place,
      card('Values', () => this.#values(table, id)),
      !isEdge && card('Neighbours', () => this.#near(table, id)),
      card('Who changed what', () => blamed(this.app, table, id)),
      card('History', () => lived(this.app, table, id)),
    );
  }

  async #values(table, id) {
    const row = await this.app.api.get('/entity', { table, id, js_safe: 1, ...this.app.state });
    return h(
      'dl',
      {},
      Object.entries(row).map(([name, value]) => [h('dt', {}, name), h('dd', {}, valueOf(value))]),
    );
  }

  async #near(table, id) {
    const found = await this.app.api.get('/entity/neighbours', { table, id, limit: 24, ...this.app.state });
    if (!found.groups.length) return h('p', { class: 'dim' }, 'No edge leads here or away.');
    return found.groups.map((group) =>
      h(
        'section',
        {},
        h('h3', {}, group.way === 'out' ? '→ ' : '← ', `${group.edge} · ${group.total.toLocaleString('en')}`),
        h(
          'div',
          { class: 'chips' },
          group.neighbours.map((one) =>
            h(
              'button',
              { class: 'chip', onclick: () => this.app.go('entity', { type: group.type, id: one.id }) },
              dot(this.app.colours.of(group.type)),
              one.label,
            ),
          ),
          group.total > group.neighbours.length &&
            h('span', { class: 'tag' }, `+${(group.total - group.neighbours.length).toLocaleString('en')}`),
        ),
      ),
    );
  }
}
