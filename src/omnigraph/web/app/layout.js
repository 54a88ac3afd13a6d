// Where nodes go: forces with an end. Work is done in slices, so that the page never freezes, and
// what is placed already stays near its place when more is added.

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from '../vendor/force.js';

const COLD = 0.015;
const FIRST_MS = 300;
const SLICE_MS = 12;

export const keyOf = (type, id) => `${type}:${id}`;
export const reducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

export class Layout {
  #forces = null;
  #frame = 0;

  constructor(drawn, settled) {
    this.drawn = drawn;
    this.settled = settled;
  }

  /** Place nodes and edges; those with a place keep it at first. */
  run(nodes, edges, warmth = 1) {
    this.stop();
    for (const [at, node] of nodes.entries()) begin(node, at, edges, nodes.length);
    this.#forces = forceSimulation(nodes)
      .force(
        'link',
        forceLink(edges)
          .distance(70)
          .strength((edge) => 1 / Math.min(edge.source.degree, edge.target.degree, 8)),
      )
      .force('charge', forceManyBody().strength(-170).distanceMax(520).theta(1))
      .force('x', forceX(0).strength(0.045))
      .force('y', forceY(0).strength(0.06))
      .force('apart', forceCollide((node) => node.radius + 6).iterations(1))
      .alpha(warmth)
      .alphaDecay(nodes.length > 600 ? 0.05 : 0.025)
      .stop();
    this.#steps(reducedMotion() ? Infinity : FIRST_MS);
    this.drawn();
    this.#next();
  }

  #steps(milliseconds) {
    const end = performance.now() + milliseconds;
    while (this.#forces.alpha() > COLD && performance.now() < end) this.#forces.tick();
  }

  #next() {
    if (this.#forces.alpha() <= COLD) {
      this.settled();
      return;
    }
    this.#frame = requestAnimationFrame(() => {
      this.#steps(SLICE_MS);
      this.drawn();
      this.#next();
    });
  }

  stop() {
    cancelAnimationFrame(this.#frame);
  }
}

// New nodes begin beside a neighbour that has a place, else on a sunflower's spiral.
function begin(node, at, edges, total) {
  if (node.x !== undefined) return;
  const edge = edges.find(
    (one) => (one.source === node && one.target.x !== undefined) || (one.target === node && one.source.x !== undefined),
  );
  const near = total > 600 || !edge ? null : edge.source === node ? edge.target : edge.source;
  const angle = at * 2.399963;
  const reach = near ? 40 : 16 * Math.sqrt(at + 0.5);
  node.x = (near?.x ?? 0) + reach * Math.cos(angle);
  node.y = (near?.y ?? 0) + reach * Math.sin(angle);
}
