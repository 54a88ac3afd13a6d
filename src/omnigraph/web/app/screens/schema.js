// The schema as a picture: types as boxes with their numbers of rows, edges between them.

import { dot, fill, h, s } from '../dom.js';
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from '../../vendor/force.js';
import { count } from '../values.js';

const TICKS = 320;
const HEIGHT = 54;
const PLACES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74];

export class Schema {
  #chosen = null;

  constructor(app, said) {
    this.app = app;
    this.boxes = placed(app.catalog);
    this.byName = new Map(this.boxes.map((one) => [one.name, one]));
    this.#build();
    this.choose(this.byName.has(said.type) ? said.type : null, false);
  }

  #build() {
    const { catalog, colours } = this.app;
    const paths = bent(catalog.edges).map(({ edge, nth, many }) => ({
      edge,
      path: edgePath(this.byName.get(edge.from), this.byName.get(edge.to), nth, many),
    }));
    named(paths, this.boxes);
    this.edges = paths.map(({ edge, path }) => this.#edge(edge, path));
    this.groups = this.boxes.map((box) => this.#box(box, colours.of(box.name)));
    const arrow = s(
      'marker',
      { id: 'tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto' },
      s('path', { d: 'M0 0 8 4 0 8z', fill: 'context-stroke' }),
    );
    const labels = this.edges.map((one) => one.label);
    this.drawing = s(
      'svg',
      { class: 'schema', role: 'group', 'aria-label': 'Types and edges' },
      s('defs', {}, arrow),
      this.edges.map((one) => one.line),
      this.groups.map((one) => one.group),
      labels,
    );
    this.#fitted();
    const note = h(
      'div',
      { class: 'note' },
      `${count(catalog.nodes.length, 'type')}, ${count(catalog.edges.length, 'edge type')}`,
    );
    const zoom = (factor) => () => this.#zoom(factor);
    const tools = h(
      'div',
      { class: 'tools' },
      h('button', { onclick: () => this.#fitted() }, 'Fit'),
      h('button', { 'aria-label': 'Larger', onclick: zoom(0.8) }, '+'),
      h('button', { 'aria-label': 'Smaller', onclick: zoom(1.25) }, '−'),
    );
    this.drawing.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        this.#zoom(Math.exp(event.deltaY * 0.001));
      },
      { passive: false },
    );
    this.drawing.addEventListener('click', (event) => event.target === this.drawing && this.choose(null));
    this.inspector = h('aside', { class: 'inspector', 'aria-label': 'Type' });
    this.element = h(
      'div',
      { class: 'out' },
      h('div', { class: 'picture' }, this.drawing, tools, note),
      this.inspector,
    );
  }

  #fitted() {
    const xs = this.boxes.flatMap((one) => [one.x - one.width / 2, one.x + one.width / 2]);
    const ys = this.boxes.flatMap((one) => [one.y - HEIGHT, one.y + HEIGHT]);
    const [left, top] = [Math.min(...xs, 0) - 50, Math.min(...ys, 0) - 60];
    this.frame = {
      x: left,
      y: top,
      width: Math.max(...xs, 0) + 50 - left,
      height: Math.max(...ys, 0) + 40 - top,
    };
    this.#zoom(1);
  }

  #zoom(factor) {
    const { x, y, width, height } = this.frame;
    this.frame = {
      x: x + (width * (1 - factor)) / 2,
      y: y + (height * (1 - factor)) / 2,
      width: width * factor,
      height: height * factor,
    };
    const frame = this.frame;
    this.drawing.setAttribute('viewBox', `${frame.x} ${frame.y} ${frame.width} ${frame.height}`);
  }

  #box(box, colour) {
    const { x, y, width, name } = box;
    const choose = (event) => {
      event.preventDefault();
      this.choose(name);
    };
    const group = s(
      'g',
      {
        class: 'type',
        tabindex: '0',
        role: 'button',
        'aria-label': `${name}, ${count(box.rows, 'row')}`,
        transform: `translate(${x - width / 2} ${y - HEIGHT / 2})`,
        style: { '--c': colour },
        onclick: choose,
        onkeydown: (event) => [' ', 'Enter'].includes(event.key) && choose(event),
      },
      s('rect', { width, height: HEIGHT, rx: 9 }),
      s('path', { d: `M9 1h3v${HEIGHT - 2}h-3a8 8 0 0 1-8-8V9a8 8 0 0 1 8-8z` }),
      s('text', { class: 'name', x: width / 2 + 5, y: 23 }, name),
      s('text', { class: 'rows', x: width / 2 + 5, y: 43 }, `${box.rows.toLocaleString('en')} rows`),
    );
    return { group, name };
  }

  #edge(edge, path) {
    const line = s('path', {
      class: 'edge',
      d: path.d,
      'marker-end': 'url(#tip)',
      style: { '--c': this.app.colours.of(edge.from) },
    });
    const label = s('text', { class: 'edge-name', x: path.x, y: path.y }, edge.word);
    return { edge, line, label };
  }

  /** Show one type; the others step back. */
  choose(name, note = true) {
    this.#chosen = name;
    const near = new Set([name]);
    for (const { edge, line, label } of this.edges) {
      const lit = name === null || edge.from === name || edge.to === name;
      if (lit) near.add(edge.from).add(edge.to);
      for (const one of [line, label]) one.classList.toggle('faint', !lit);
      line.classList.toggle('lit', lit && name !== null);
    }
    for (const one of this.groups) {
      one.group.classList.toggle('faint', name !== null && !near.has(one.name));
      one.group.classList.toggle('chosen', one.name === name);
    }
    if (note) this.app.note({ type: name ?? '' });
    fill(
      this.inspector,
      name === null ? this.#everything() : this.#typed(this.app.catalog.nodes.find((one) => one.name === name)),
    );
  }

  #everything() {
    const { catalog, colours } = this.app;
    const nodes = catalog.nodes.map((one) =>
      h(
        'tr',
        {},
        h(
          'th',
          { scope: 'row' },
          dot(colours.of(one.name)),
          ' ',
          h('button', { class: 'link', onclick: () => this.choose(one.name) }, one.name),
        ),
        h('td', { class: 'num' }, one.row_count.toLocaleString('en')),
      ),
    );
    const edges = catalog.edges.map((one) =>
      h(
        'tr',
        {},
        h('th', { scope: 'row' }, one.word),
        h('td', {}, `${one.from} → ${one.to}`),
        h('td', { class: 'num' }, one.row_count.toLocaleString('en')),
      ),
    );
    return [
      h('h2', {}, 'Types'),
      h('table', { class: 'grid' }, h('tbody', {}, nodes)),
      h('h3', {}, 'Edges'),
      h('table', { class: 'grid' }, h('tbody', {}, edges)),
      h('p', {}, h('button', { onclick: () => this.#text() }, 'Schema as text')),
    ];
  }

  async #text() {
    const place = h('pre', { class: 'json', tabindex: '0' }, 'Loading…');
    fill(
      this.inspector,
      h(
        'div',
        { class: 'row' },
        h('h2', { class: 'grow' }, 'Schema'),
        h('button', { class: 'plain', 'aria-label': 'Close', onclick: () => this.choose(this.#chosen) }, '✕'),
      ),
      place,
    );
    try {
      place.textContent = (await this.app.api.get('/schema', this.app.state)).schema_source;
    } catch (error) {
      place.textContent = error.message;
    }
  }

  #typed(type) {
    const keys = new Set(type.key);
    const words = (prop) =>
      [
        prop.type,
        keys.has(prop.name) && '@key',
        type.unique.some((one) => one.length === 1 && one[0] === prop.name) && '@unique',
        type.indexes.some((one) => one.length === 1 && one[0] === prop.name) && !keys.has(prop.name) && '@index',
      ]
        .filter(Boolean)
        .join(' ');
    const near = this.app.catalog.edges.filter((one) => one.from === type.name || one.to === type.name);
    const edge = (one) =>
      one.from === type.name ? [`${one.word} → ${one.to}`, one.to] : [`${one.from} → ${one.word}`, one.from];
    return [
      h(
        'div',
        { class: 'row' },
        dot(this.app.colours.of(type.name)),
        h('span', { class: 'tag' }, 'node type'),
        h('span', { class: 'grow' }),
        h('button', { class: 'plain', 'aria-label': 'All types', onclick: () => this.choose(null) }, '✕'),
      ),
      h('h2', {}, type.name),
      type.description && h('p', { class: 'dim' }, type.description),
      h(
        'div',
        { class: 'row' },
        h('span', { class: 'tag' }, count(type.row_count, 'row')),
        type.implements.map((one) => h('span', { class: 'tag' }, one)),
      ),
      h(
        'dl',
        {},
        type.properties.map((one) => [
          h('dt', {}, one.name),
          h('dd', { class: 'mono', title: one.description }, words(one)),
        ]),
      ),
      type.instruction && h('p', { class: 'dim' }, type.instruction),
      h('h3', {}, 'Edges'),
      h(
        'div',
        { class: 'chips' },
        near.map((one) =>
          h(
            'button',
            { class: 'chip', title: one.description, onclick: () => this.choose(edge(one)[1]) },
            edge(one)[0],
          ),
        ),
      ),
    ];
  }
}

// The same schema always gets the same picture.
function placed(catalog) {
  const boxes = catalog.nodes.map((one, at) => ({
    name: one.name,
    rows: one.row_count,
    width: Math.max(110, 34 + 9 * Math.max(one.name.length, String(one.row_count).length + 6)),
    x: 260 * Math.cos(at * 2.399963) * Math.sqrt(at + 0.5),
    y: 160 * Math.sin(at * 2.399963) * Math.sqrt(at + 0.5),
  }));
  const links = catalog.edges.filter((one) => one.from !== one.to).map((one) => ({ source: one.from, target: one.to }));
  const forces = forceSimulation(boxes)
    .force(
      'link',
      forceLink(links)
        .id((one) => one.name)
        .distance(230)
        .strength(0.22),
    )
    .force('charge', forceManyBody().strength(-1500))
    .force('x', forceX(0).strength(0.035))
    .force('y', forceY(0).strength(0.075))
    .force(
      'apart',
      forceCollide((one) => one.width / 2 + 34),
    )
    .stop();
  for (let tick = 0; tick < TICKS; tick++) forces.tick();
  return boxes;
}

// Edges between the same two types lie beside each other.
function bent(edges) {
  const between = new Map();
  const pair = (one) => [one.from, one.to].sort().join('\n');
  for (const one of edges) between.set(pair(one), (between.get(pair(one)) ?? 0) + 1);
  const seen = new Map();
  return edges.map((edge) => {
    const nth = seen.get(pair(edge)) ?? 0;
    seen.set(pair(edge), nth + 1);
    return { edge, nth, many: between.get(pair(edge)) };
  });
}

function edgePath(a, b, nth, many) {
  if (a === b) {
    const up = nth % 2 === 0 ? -1 : 1;
    const reach = 46 + 24 * Math.floor(nth / 2);
    const x = a.x + a.width / 2 - 34; // beside the middle, where other edges leave
    const y = a.y + (up * HEIGHT) / 2;
    const end = y + up * reach * 0.78 + (up < 0 ? -4 : 12);
    return {
      d: `M${x - 22} ${y}C${x - 30} ${y + up * reach} ${x + 30} ${y + up * reach} ${x + 22} ${y}`,
      at: () => ({ x, y: end }),
    };
  }
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = Math.hypot(dx, dy) || 1;
  const side = (a.name < b.name ? 1 : -1) * (nth - (many - 1) / 2) * 56;
  const middle = { x: (a.x + b.x) / 2 - (dy / length) * side, y: (a.y + b.y) / 2 + (dx / length) * side };
  const from = rim(a, middle);
  const to = rim(b, middle);
  const along = (one, t) => (1 - t) ** 2 * from[one] + 2 * t * (1 - t) * middle[one] + t ** 2 * to[one];
  return {
    d: `M${from.x} ${from.y}Q${middle.x} ${middle.y} ${to.x} ${to.y}`,
    at: (t) => ({ x: along('x', t), y: along('y', t) + 4 }),
  };
}

// Names stand near the middle of their edges, unless another name or a box is there.
function named(paths, boxes) {
  const taken = boxes.map(({ x, y, width }) => ({ x, y, width, height: HEIGHT }));
  const free = (one) =>
    taken.every(
      (other) =>
        Math.abs(other.x - one.x) * 2 > other.width + one.width ||
        Math.abs(other.y - one.y) * 2 > other.height + one.height,
    );
  const isLoop = ({ edge }) => edge.from === edge.to;
  for (const { edge, path } of [...paths].sort((a, b) => isLoop(b) - isLoop(a))) {
    const places = PLACES.map((t) => ({ ...path.at(t), width: 8 * edge.word.length + 8, height: 20 }));
    const place = places.find(free) ?? places[0];
    taken.push(place);
    Object.assign(path, { x: place.x, y: place.y });
  }
}

// Where a line from the middle of a box to a point leaves the box.
function rim(box, to) {
  const [dx, dy] = [to.x - box.x, to.y - box.y];
  const share = Math.min((box.width / 2 + 2) / Math.abs(dx || 1e-6), (HEIGHT / 2 + 2) / Math.abs(dy || 1e-6), 1);
  return { x: box.x + dx * share, y: box.y + dy * share };
}
