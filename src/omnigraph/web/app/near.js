// What is near a place in a picture.

/** Whether a place lies on a line, as far as a hand can tell. */
export function isNear({ loop, x0, y0, x1, y1, mx, my }, at, reach) {
  if (loop) return Math.hypot(mx - at.x, my - at.y) < 2 * reach;
  const [ax, ay, bx, by] = [
    [x0, y0, mx, my + 3],
    [mx, my + 3, x1, y1],
  ].reduce((best, part) => (toLine(part, at) < toLine(best, at) ? part : best), [x0, y0, mx, my + 3]);
  return toLine([ax, ay, bx, by], at) < reach;
}

function toLine([ax, ay, bx, by], { x, y }) {
  const length = (bx - ax) ** 2 + (by - ay) ** 2 || 1;
  const share = Math.min(1, Math.max(0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length));
  return Math.hypot(ax + share * (bx - ax) - x, ay + share * (by - ay) - y);
}

/** The nearest node that lies mostly in a direction, or null. */
export function onward(nodes, from, dx, dy) {
  const cost = (node) => {
    const along = (node.x - from.x) * dx + (node.y - from.y) * dy;
    const across = Math.abs((node.x - from.x) * dy) + Math.abs((node.y - from.y) * dx);
    return along > 1 ? along + 2.2 * across : Infinity;
  };
  const best = nodes.reduce((found, node) => (cost(node) < cost(found) ? node : found), from);
  return cost(best) < Infinity ? best : null;
}
