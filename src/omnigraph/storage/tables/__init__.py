"""Lance datasets, one at a time: the only package that imports `lance`.

In control-flow order: `failures` names what went wrong; `handle` opens datasets at exact
versions; `predicate` and `scan` read rows; `foreign` takes fragments written elsewhere; `stage`
prepares writes without moving anything;
`commit` moves one dataset by exactly one version; `fork` makes and removes branches of a
dataset; `compact` and `index` do physical upkeep.
Nothing here knows of other tables, of the graph manifest or of a commit that spans tables.
"""
