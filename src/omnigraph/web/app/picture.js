// A picture of nodes and edges that can be walked, widened and taken back. It knows ids and labels;
// what else there is to know of a node is the inspector's.

import { inks } from './colours.js';
import { dot, fill, h, save } from './dom.js';
import { Layout, keyOf } from './layout.js';
import { isNear, onward } from './near.js';
import { lineOf, paint } from './paint.js';
import { count } from './values.js';

export const MOST_NODES = 2_000;
const ZOOM = [0.05, 6];
const REACH = 14;

export class Picture {
  #nodes = new Map();
  #edges = new Map();
  #scene;
  #view = { x: 0, y: 0, zoom: 1, width: 300, height: 200 };
  #moved = false;
  #chosen = null;
  #steps = [];
  #layout;
  #frame = 0;
  #watch;

  /** `on` has select(node or edge or null), expand(node), announce(text). */
  constructor(colours, on) {
    this.colours = colours;
    this.on = on;
    this.#scene = { nodes: [], edges: [], colours };
    this.#layout = new Layout(
      () => this.#placed(),
      () => this.#settled(),
    );
    this.#build();
    this.#watch = new ResizeObserver(() => this.#resized());
    this.#watch.observe(this.element);
    this.theme = matchMedia('(prefers-color-scheme: dark)');
    this.theme.addEventListener('change', this.#repaint);
    addEventListener('omnigraph-theme', this.#repaint);
  }

  #build() {
    this.canvas = h('canvas', {
      tabindex: '0',
      role: 'application',
      'aria-label': 'Picture of nodes and edges',
      'aria-description': 'Arrow keys walk, Enter shows neighbours, Backspace takes back, 0 fits, plus and minus zoom',
    });
    this.legend = h('ul', { class: 'legend', 'aria-label': 'Types' });
    this.note = h('div', { class: 'note' });
    this.list = h('div', { class: 'nodelist', hidden: true });
    const tool = (label, name, work) => h('button', { title: name, 'aria-label': name, onclick: work }, label);
    this.undoButton = tool('Undo', 'Take back the last step', () => this.undo());
    this.listButton = h(
      'button',
      { 'aria-expanded': 'false', title: 'The nodes as a table', onclick: () => this.toggleList() },
      'List',
    );
    this.undoButton.disabled = true;
    const tools = h(
      'div',
      { class: 'tools' },
      this.undoButton,
      tool('Fit', 'Fit the picture', () => this.fit()),
      tool('+', 'Larger', () => this.zoomBy(1.3)),
      tool('−', 'Smaller', () => this.zoomBy(1 / 1.3)),
      this.listButton,
      tool('PNG', 'Save as an image', () => this.#png()),
    );
    this.element = h('div', { class: 'picture' }, this.canvas, this.legend, tools, this.note, this.list);
    this.#listen();
  }

  destroy() {
    this.#layout.stop();
    this.#watch.disconnect();
    cancelAnimationFrame(this.#frame);
    this.theme.removeEventListener('change', this.#repaint);
    removeEventListener('omnigraph-theme', this.#repaint);
  }

  get nodes() {
    return this.#scene.nodes;
  }

  get size() {
    return this.#nodes.size;
  }

  node(type, id) {
    return this.#nodes.get(keyOf(type, id)) ?? null;
  }

  /** Return nodes and edges as somebody may want to keep them. */
  get data() {
    const edges = this.#scene.edges.map((one) => ({
      type: one.type,
      id: one.id,
      from: one.source.id,
      from_type: one.source.type,
      to: one.target.id,
      to_type: one.target.type,
    }));
    return { nodes: this.#scene.nodes.map(({ type, id, label }) => ({ type, id, label })), edges };
  }

  /** Show other nodes and edges, as the server tells them. */
  show(nodes, edges, note = '') {
    this.#nodes.clear();
    this.#edges.clear();
    this.#steps = [];
    this.#moved = false;
    this.said = note;
    this.select(null);
    this.#put(nodes, edges);
    this.#changed(1);
  }

  /** Add some; what is there stays where it is. Returns how many nodes are new. */
  add(nodes, edges) {
    const fresh = nodes.filter((one) => !this.#nodes.has(keyOf(one.type, one.id)));
    if (this.#nodes.size + fresh.length > MOST_NODES) {
      this.on.announce(`A picture has at most ${MOST_NODES} nodes`);
      this.note.textContent = `at most ${MOST_NODES} nodes fit: take something back first`;
      return 0;
    }
    const before = new Set([...this.#nodes.keys(), ...this.#edges.keys()]);
    this.#put(nodes, edges);
    const step = [...this.#nodes.keys(), ...this.#edges.keys()].filter((key) => !before.has(key));
    if (step.length) {
      this.#steps.push(step);
      this.#changed(0.45);
    }
    this.on.announce(`${count(fresh.length, 'node')} added`);
    return fresh.length;
  }

  /** Take back the last step. */
  undo() {
    const step = this.#steps.pop();
    if (!step) return;
    for (const key of step) {
      this.#nodes.delete(key);
      this.#edges.delete(key);
    }
    if (this.#chosen && !this.#nodes.has(this.#chosen.key)) this.select(null);
    this.#changed(0.12);
    this.on.announce('Taken back');
  }

  #put(nodes, edges) {
    for (const { type, id, label } of nodes) {
      const key = keyOf(type, id);
      if (!this.#nodes.has(key)) this.#nodes.set(key, { key, type, id, label: label ?? id, degree: 0, radius: 9 });
    }
    for (const one of edges) {
      const source = this.#nodes.get(keyOf(one.from_type, one.from));
      const target = this.#nodes.get(keyOf(one.to_type, one.to));
      const key = `>${one.type}:${one.id ?? `${source?.key}>${target?.key}`}`;
      if (source && target && !this.#edges.has(key))
        this.#edges.set(key, { key, type: one.type, id: one.id ?? null, source, target, bend: 0 });
    }
  }

  #changed(warmth) {
    const nodes = [...this.#nodes.values()];
    const edges = [...this.#edges.values()];
    for (const node of nodes) node.degree = 0;
    const between = new Map();
    for (const edge of edges) {
      edge.source.degree++;
      edge.target.degree++;
      const pair = [edge.source.key, edge.target.key].sort().join('\n');
      const nth = between.get(pair) ?? 0;
      between.set(pair, nth + 1);
      edge.bend = nth === 0 ? 0 : (nth % 2 ? 1 : -1) * 22 * Math.ceil(nth / 2);
    }
    for (const node of nodes) node.radius = 8 + Math.min(8, Math.sqrt(node.degree));
    Object.assign(this.#scene, { nodes, edges });
    this.undoButton.disabled = this.#steps.length === 0;
    this.element.dataset.settled = 'false';
    this.element.dataset.nodes = nodes.length;
    this.#legend();
    this.#listed();
    this.note.textContent = [
      `${count(nodes.length, 'node')}, ${count(edges.length, 'edge')}`,
      this.said,
      'double-click or Enter expands',
    ]
      .filter(Boolean)
      .join(' · ');
    this.#layout.run(nodes, edges, warmth);
  }

  #legend() {
    const counts = new Map();
    for (const { type } of this.#scene.nodes) counts.set(type, (counts.get(type) ?? 0) + 1);
    fill(
      this.legend,
      [...counts]
        .sort()
        .map(([type, many]) => h('li', { class: 'tag' }, dot(this.colours.of(type)), `${type} ${many}`)),
    );
  }

  toggleList(open = this.list.hidden) {
    this.list.hidden = !open;
    this.listButton.setAttribute('aria-expanded', String(open));
    this.#listed();
  }

  #listed() {
    if (this.list.hidden) return;
    const rows = [...this.#scene.nodes]
      .sort((a, b) => b.degree - a.degree || (a.label < b.label ? -1 : 1))
      .map((node) =>
        h(
          'tr',
          {},
          h('td', {}, dot(this.colours.of(node.type)), ' ', node.type),
          h('td', {}, h('button', { class: 'link', onclick: () => this.select(node, true) }, node.label)),
          h('td', { class: 'num' }, node.degree),
        ),
      );
    fill(
      this.list,
      h(
        'table',
        { class: 'grid' },
        h('caption', { class: 'sr' }, 'Nodes of the picture'),
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ['Type', 'Node', 'Edges'].map((one) => h('th', { scope: 'col' }, one)),
          ),
        ),
        h('tbody', {}, rows),
      ),
    );
  }

  /** Choose a node or an edge. */
  select(one, tell = true) {
    this.#chosen = one;
    if (one?.x !== undefined && one !== null) {
      this.#intoSight(one);
      this.on.announce(`${one.type} ${one.label}, ${count(one.degree, 'edge')}`);
    }
    if (tell) this.on.select(one);
    this.draw();
  }

  get chosen() {
    return this.#chosen;
  }

  #intoSight(node) {
    const at = this.#onScreen(node);
    const { width, height } = this.#view;
    if (at.x < 20 || at.y < 20 || at.x > width - 20 || at.y > height - 20)
      Object.assign(this.#view, { x: -node.x, y: -node.y });
  }

  #onScreen({ x, y }) {
    const view = this.#view;
    return { x: view.width / 2 + (x + view.x) * view.zoom, y: view.height / 2 + (y + view.y) * view.zoom };
  }

  #inPicture(x, y) {
    const view = this.#view;
    return { x: (x - view.width / 2) / view.zoom - view.x, y: (y - view.height / 2) / view.zoom - view.y };
  }

  #placed() {
    if (!this.#moved) this.#fitted();
    this.draw();
  }

  #settled() {
    this.element.dataset.settled = 'true';
  }

  fit() {
    this.#moved = false;
    this.#fitted();
    this.draw();
  }

  #fitted() {
    const { nodes } = this.#scene;
    if (!nodes.length) return;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { x, y } of nodes) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    const { width, height } = this.#view;
    const zoom = Math.min(1.6, (width - 130) / Math.max(1, right - left), (height - 110) / Math.max(1, bottom - top));
    Object.assign(this.#view, {
      zoom: Math.max(ZOOM[0], zoom),
      x: -(left + right) / 2,
      y: -(top + bottom) / 2,
    });
  }

  zoomBy(factor, x = this.#view.width / 2, y = this.#view.height / 2) {
    const before = this.#inPicture(x, y);
    this.#view.zoom = Math.min(ZOOM[1], Math.max(ZOOM[0], this.#view.zoom * factor));
    const after = this.#inPicture(x, y);
    this.#view.x += after.x - before.x;
    this.#view.y += after.y - before.y;
    this.#moved = true;
    this.draw();
  }

  #resized() {
    const { clientWidth, clientHeight } = this.element;
    if (!clientWidth || !clientHeight) return;
    const pixels = devicePixelRatio || 1;
    Object.assign(this.#view, { width: clientWidth, height: clientHeight });
    Object.assign(this.canvas, { width: clientWidth * pixels, height: clientHeight * pixels });
    if (!this.#moved) this.#fitted();
    this.draw();
  }

  #repaint = () => {
    this.ink = null;
    this.draw();
  };

  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      this.ink ??= inks(this.element);
      paint(this.canvas, this.#scene, this.#view, this.ink, this.#lit(), this.#chosen);
    });
  }

  #lit() {
    const one = this.#chosen;
    if (!one) return null;
    if (one.source) return new Set([one.source, one.target]);
    const found = new Set([one]);
    for (const { source, target } of this.#scene.edges)
      if (source === one || target === one) found.add(source).add(target);
    return found;
  }

  #png() {
    this.canvas.toBlob((blob) => save('picture.png', blob), 'image/png');
  }

  #hit(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const at = this.#inPicture(event.clientX - left, event.clientY - top);
    for (const node of [...this.#scene.nodes].reverse())
      if (Math.hypot(node.x - at.x, node.y - at.y) <= node.radius + 2) return node;
    const reach = REACH / 2 / this.#view.zoom;
    return this.#scene.edges.find((edge) => edge.id !== null && isNear(lineOf(edge), at, reach)) ?? null;
  }

  #listen() {
    const { canvas } = this;
    let held = null;
    canvas.addEventListener('pointerdown', (event) => {
      const hit = this.#hit(event);
      held = { hit, node: hit?.radius ? hit : null, x: event.clientX, y: event.clientY, far: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!held) return;
      const [dx, dy] = [(event.clientX - held.x) / this.#view.zoom, (event.clientY - held.y) / this.#view.zoom];
      held.far ||= Math.hypot(dx, dy) * this.#view.zoom > 3;
      if (!held.far) return;
      const moved = held.node ?? this.#view;
      moved.x += dx;
      moved.y += dy;
      Object.assign(held, { x: event.clientX, y: event.clientY });
      this.#moved = true;
      this.draw();
    });
    canvas.addEventListener('pointerup', () => {
      if (held && !held.far) this.select(held.hit);
      held = null;
    });
    canvas.addEventListener('dblclick', (event) => {
      const hit = this.#hit(event);
      if (hit?.radius) this.on.expand(hit);
    });
    canvas.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        const { left, top } = canvas.getBoundingClientRect();
        this.zoomBy(Math.exp(-event.deltaY * 0.0015), event.clientX - left, event.clientY - top);
      },
      { passive: false },
    );
    canvas.addEventListener('keydown', (event) => this.#pressed(event));
  }

  #pressed(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const work = {
      Enter: () => this.#chosen?.radius && this.on.expand(this.#chosen),
      Backspace: () => this.undo(),
      Escape: () => this.select(null),
      0: () => this.fit(),
      '+': () => this.zoomBy(1.3),
      '=': () => this.zoomBy(1.3),
      '-': () => this.zoomBy(1 / 1.3),
    }[event.key];
    if ((!way && !work) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (way) this.#walk(...way);
    else work();
  }

  // The nearest node that lies mostly in a direction.
  #walk(dx, dy) {
    const from = this.#chosen?.radius ? this.#chosen : null;
    const all = this.#scene.nodes;
    if (!from) {
      const first = [...all].sort((a, b) => b.degree - a.degree)[0];
      if (first) this.select(first);
      return;
    }
    const best = onward(all, from, dx, dy);
    if (best) this.select(best);
  }
}
