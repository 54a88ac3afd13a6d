"""Lance datasets, one at a time: the only package that imports `lance`.

In control-flow order: `failures` names what went wrong; `handle` opens datasets at exact
versions; `predicate` and `scan` read rows; `foreign` takes fragments written elsewhere; `alter`
changes columns and `compute` fills them (`widen`: as a type that holds more); `stage` prepares
writes without moving anything, with rows that `watched` hands over;
`commit` moves one dataset by exactly one version; `fork` makes and removes branches of a
dataset; `tiers` decides and `compact` and `index` do physical upkeep; `lineage`, `versions` and
`whole` keep what Lance leaves open: short manifests, the newest version, whole files
(`protobuf` reads and writes Lance's own notes, `addresses` where they say that files lie).
Nothing here knows of other tables, of the graph manifest or of a commit that spans tables.
`tasks` are the pieces of what `compact` and `index` do that others can do; `inherited` knows which
indexes a branch has from where it came from; `content` looks at the rows themselves for `verify`.
`differ` finds rows of two versions that may differ, by fragment lists and by what `deletions`
reads; `equal` says which values are the same; `one_row` follows a single row through versions.
`version_files` lists what a version is read from, and `first_reads` compares it with what was
written, before it is read. `words` lists the words of a text index.
"""
