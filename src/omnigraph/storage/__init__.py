"""Tables, versions, branches: many Lance datasets that change together or not at all.

Knows nothing of nodes, edges or queries. In control-flow order, from the top:

- `store`: `GraphStore`, what the engine uses.
- `upgrade`, `relocation`, `verify`, `usage`: what an open checks, and what an operator asks.
- `maintain`, `indexing`, `cleanup`: fewer pieces of the same rows; faster ways to them; what
  nobody needs goes.
- `orphans`, `needed`: what no graph knows any more, and what must stay.
- `create`: making a graph; `write`, `load`: write sessions, long loads.
- `window`, `intent`, `plan`: how they commit; what that publishes; what was asked for.
- `recovery`, `healing`, `evidence`: what an interrupted writer left: decided, carried out, proven.
- `publish`: the commit protocol.
- `branches`, `dependents`: branches made and deleted; which rest on which.
- `history`, `projections`: lines of commits and views of them.
- `snapshot`: one immutable view; `manifest`, `legacy`: the rows of `__manifest`, now and before.
- `kernel`: the parts bundled; `sidecar`, `pins`, `records`: a writer's intent, long readers,
  plain values.
- `locks` (over `flocks` and `leases`), `holders`: one writer at a time, and who it is.
- `tables`: one Lance dataset at a time.
- `objects` (over `backends`), `layout`, `options`, `counters`: small objects, names on disk,
  settings, counts.
"""
