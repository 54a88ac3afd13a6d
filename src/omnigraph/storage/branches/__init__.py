"""Branches of the graph.

- `lifecycle`: created, listed, deleted; `dependents`: which branch rests on which;
  `tags`: commits by name; `runs`: hidden branches with a record of what became of them.
"""
