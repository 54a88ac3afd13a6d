// Which lane of a drawing a commit is in. Pure: newest first in, rows and lines out.

/**
 * Return {rows, lines, width}: every commit with its row and lane, and lines between them.
 *
 * A branch keeps its lane from its newest commit down; main is the first. A line whose end is not
 * among the commits runs out at the bottom.
 */
export function lanesOf(commits, heads) {
  const rowOf = new Map(commits.map((one, row) => [one.graph_commit_id, row]));
  const laneOf = lanes(commits, heads, rowOf);
  const rows = commits.map((commit, row) => ({
    commit,
    row,
    lane: laneOf.get(commit.manifest_branch ?? 'main'),
  }));
  const lines = [];
  for (const from of rows) {
    const { parent_commit_id: parent, merged_parent_commit_id: merged } = from.commit;
    for (const id of [parent, merged]) {
      if (!id) continue;
      const to = rows[rowOf.get(id)] ?? { row: commits.length, lane: from.lane };
      // A merge bends away at once and comes down in the lane it took in; a fork bends at its end.
      lines.push({ from, to, lane: id === merged ? to.lane : from.lane });
    }
  }
  return { rows, lines, width: Math.max(1, ...laneOf.values()) + 1 };
}

// Lanes are used again once the branch that had one has begun.
function lanes(commits, heads, rowOf) {
  const spans = new Map();
  commits.forEach((one, row) => {
    const name = one.manifest_branch ?? 'main';
    const span = spans.get(name) ?? { first: row, last: row };
    const begin = rowOf.get(one.parent_commit_id) ?? row;
    spans.set(name, { first: Math.min(span.first, row), last: Math.max(span.last, row, begin) });
  });
  const taken = [];
  const found = new Map([['main', 0]]);
  taken[0] = Infinity;
  for (const [name, { first, last }] of [...spans].sort((a, b) => a[1].first - b[1].first)) {
    if (found.has(name)) continue;
    let lane = taken.findIndex((until) => until < first);
    if (lane < 0) lane = taken.length;
    taken[lane] = last;
    found.set(name, lane);
  }
  for (const name of Object.keys(heads)) if (!found.has(name)) found.set(name, 0);
  return found;
}
