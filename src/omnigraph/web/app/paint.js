// Nodes and edges on a canvas: arrows, letters, labels that never lie on one another.

const LABEL = 26;
const NAMED_EDGES = 48;
const FEW_EDGES = 10;
const CELL = 5;

/** Draw a scene. `view` is {x, y, zoom, width, height}; `lit` is what stays bright, or null. */
export function paint(canvas, scene, view, ink, lit, chosen) {
  const pixels = devicePixelRatio || 1;
  const pen = canvas.getContext('2d');
  pen.setTransform(pixels, 0, 0, pixels, 0, 0);
  pen.fillStyle = ink.bg;
  pen.fillRect(0, 0, view.width, view.height);
  pen.setTransform(
    pixels * view.zoom,
    0,
    0,
    pixels * view.zoom,
    pixels * (view.width / 2 + view.x * view.zoom),
    pixels * (view.height / 2 + view.y * view.zoom),
  );
  const taken = new Places(view);
  edges(pen, scene, ink, lit, chosen, view);
  nodes(pen, scene, ink, lit, chosen, taken);
  labels(pen, scene, ink, lit, chosen, view, taken);
}

function edges(pen, scene, ink, lit, chosen, view) {
  const isNear = (edge) => edge === chosen || edge.source === chosen || edge.target === chosen;
  const named = chosen
    ? (chosen.degree ?? 1) <= FEW_EDGES && isNear
    : scene.edges.length <= NAMED_EDGES && (() => true);
  for (const edge of scene.edges) {
    const bright = !lit || isNear(edge);
    pen.globalAlpha = bright ? (lit ? 0.95 : 0.6) : 0.14;
    pen.strokeStyle = pen.fillStyle = bright && lit ? scene.colours.of(edge.source.type) : ink.dim;
    pen.lineWidth = (edge === chosen ? 2.6 : 1.3) / Math.sqrt(view.zoom);
    pen.setLineDash(edge.id === null ? [5, 4] : []);
    const line = lineOf(edge);
    pen.beginPath();
    pen.moveTo(line.x0, line.y0);
    if (line.loop) pen.bezierCurveTo(line.x0 - 34, line.y0 - 44, line.x1 + 34, line.y1 - 44, line.x1, line.y1);
    else pen.quadraticCurveTo(line.cx, line.cy, line.x1, line.y1);
    pen.stroke();
    pen.setLineDash([]);
    arrow(pen, line);
    if (named && named(edge) && view.zoom > 0.55) edgeName(pen, edge, line, ink);
  }
  pen.globalAlpha = 1;
}

function edgeName(pen, edge, line, ink) {
  pen.font = `10.5px ${ink.font}`;
  pen.textBaseline = 'middle';
  pen.textAlign = 'center';
  pen.lineWidth = 3;
  pen.strokeStyle = ink.bg;
  pen.strokeText(edge.type, line.mx, line.my);
  pen.fillStyle = ink.dim;
  pen.fillText(edge.type, line.mx, line.my);
}

/** Where an edge runs: from rim to rim, bent if there are several between the same two nodes. */
export function lineOf(edge) {
  const { source: a, target: b } = edge;
  if (a === b) {
    const x = a.x;
    const y = a.y - a.radius * 0.8;
    return { loop: true, x0: x - 5, y0: y, x1: x + 5, y1: y, angle: Math.PI / 1.7, mx: x, my: y - 36 };
  }
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const nx = -(b.y - a.y) / length;
  const ny = (b.x - a.x) / length;
  const bend = edge.bend * (a.key < b.key ? 1 : -1);
  const cx = (a.x + b.x) / 2 + nx * bend;
  const cy = (a.y + b.y) / 2 + ny * bend;
  const out = Math.atan2(cy - a.y, cx - a.x);
  const into = Math.atan2(b.y - cy, b.x - cx);
  return {
    loop: false,
    cx,
    cy,
    angle: into,
    x0: a.x + Math.cos(out) * a.radius,
    y0: a.y + Math.sin(out) * a.radius,
    x1: b.x - Math.cos(into) * (b.radius + 3),
    y1: b.y - Math.sin(into) * (b.radius + 3),
    mx: (a.x + b.x) / 2 + (nx * bend) / 2,
    my: (a.y + b.y) / 2 + (ny * bend) / 2 - 3,
  };
}

function arrow(pen, { x1, y1, angle }) {
  pen.beginPath();
  pen.moveTo(x1 + Math.cos(angle) * 3, y1 + Math.sin(angle) * 3);
  for (const turn of [2.6, -2.6]) pen.lineTo(x1 + Math.cos(angle + turn) * 6, y1 + Math.sin(angle + turn) * 6);
  pen.fill();
}

function nodes(pen, scene, ink, lit, chosen, taken) {
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  for (const node of scene.nodes) {
    pen.globalAlpha = !lit || lit.has(node) ? 1 : 0.22;
    pen.fillStyle = scene.colours.of(node.type);
    pen.beginPath();
    pen.arc(node.x, node.y, node.radius, 0, 7);
    pen.fill();
    if (node === chosen) {
      pen.strokeStyle = ink.text;
      pen.lineWidth = 2.5;
      pen.stroke();
    }
    pen.fillStyle = '#fff';
    pen.font = `700 ${Math.round(node.radius)}px ${ink.font}`;
    pen.fillText(node.type[0], node.x, node.y + 0.5);
    taken.take(node.x, node.y, node.radius * 0.8, node.radius * 0.7);
  }
  pen.globalAlpha = 1;
}

// The chosen node first, then whoever has most edges; below its node, else above, else not at all.
function labels(pen, scene, ink, lit, chosen, view, taken) {
  const size = Math.min(12, Math.max(9, 12 / Math.sqrt(view.zoom)));
  pen.font = `${size}px ${ink.font}`;
  pen.lineWidth = 3.5;
  pen.lineJoin = 'round';
  const rank = (node) => (node === chosen ? 1e9 : 0) + (lit?.has(node) ? 1e6 : 0) + node.degree;
  for (const node of [...scene.nodes].sort((a, b) => rank(b) - rank(a))) {
    if (!taken.sees(node)) continue;
    const text = node.label.length > LABEL ? `${node.label.slice(0, LABEL - 1)}…` : node.label;
    const half = pen.measureText(text).width / 2 + 2;
    const away = node.radius + 3 + size / 2;
    const middle = [node.y + away, node.y - away].find((y) => taken.free(node.x, y, half, size / 2));
    if (middle === undefined) continue;
    taken.take(node.x, middle, half, size / 2);
    pen.globalAlpha = !lit || lit.has(node) ? 1 : 0.3;
    pen.strokeStyle = ink.bg;
    pen.strokeText(text, node.x, middle);
    pen.fillStyle = ink.text;
    pen.fillText(text, node.x, middle);
  }
  pen.globalAlpha = 1;
}

/** Which parts of the picture are covered, in small squares. */
class Places {
  #taken = new Set();

  constructor(view) {
    this.cell = CELL / Math.max(view.zoom, 0.4);
    this.left = -view.x - view.width / 2 / view.zoom;
    this.right = this.left + view.width / view.zoom;
    this.top = -view.y - view.height / 2 / view.zoom;
    this.bottom = this.top + view.height / view.zoom;
  }

  sees(node) {
    return node.x > this.left && node.x < this.right && node.y > this.top && node.y < this.bottom;
  }

  *#squares(x, y, halfWidth, halfHeight) {
    const at = (place) => Math.floor(place / this.cell);
    for (let row = at(y - halfHeight); row <= at(y + halfHeight); row++)
      for (let column = at(x - halfWidth); column <= at(x + halfWidth); column++) yield row * 65_537 + column;
  }

  free(...box) {
    for (const square of this.#squares(...box)) if (this.#taken.has(square)) return false;
    return true;
  }

  take(...box) {
    for (const square of this.#squares(...box)) this.#taken.add(square);
  }
}
