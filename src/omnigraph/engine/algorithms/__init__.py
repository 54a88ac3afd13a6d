"""Algorithms over whole graphs: from images of a snapshot to one value per node.

- `chosen`: which types make up the graph, by their names; `weights`: what an edge costs.
- `network` (nodes by number, edges as pairs) under `degrees`, `components` and `pagerank`; `steps`
  (the adjacencies as they are) under `paths`, which may touch little of a graph.
- `results`: columns of what was found; `write_back`: the same as a property, in one commit.

What is found is a function of the data alone: nodes are numbered by type and id, and sums are made
in that order, whatever files and versions the rows lie in.
"""
