"""What changed, in terms of the schema: types, nodes and edges, their properties.

In control-flow order: `pairs` finds which type and property of one state is which of another, by
stable ids; `diff` compares two states (`seen`: of which somebody sees some rows only); `feed` goes
from commit to commit; `entity` follows one node or edge back. Rows are compared by `storage.delta`
alone.
"""
