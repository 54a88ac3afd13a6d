"""Tables, versions, branches: many Lance datasets that change together or not at all.

Knows nothing of nodes, edges or queries. The rooms, from the top:

- `store`: `GraphStore`, what the engine uses; `create`: making a graph, all of it or nothing.
- `upkeep`: what operators ask for and what runs behind writers; no row changes its meaning there.
- `commit`: write sessions and long loads, up to the one window in which they become visible.
- `recovery`: what an interrupted writer or another tool left behind.
- `branches`: made and deleted; which rest on which.
- `manifest`: the catalog table, the snapshots and the history it states, the swap that publishes.
- `kernel`: the parts of one open graph, bundled; `identity`: which graph this is.
- `locks`: one writer at a time; `tables`: one Lance dataset at a time; `files`: small objects.
- `options`, `counters`: settings and counts.
"""
