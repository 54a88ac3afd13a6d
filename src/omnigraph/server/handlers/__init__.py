"""What the routes do, by what they are about.

`reads` (queries, exports, single nodes and edges), `writes` (mutations and loads), `branches`
(made, merged, deleted, set back; tags; single commits undone or repeated), `history` (commits,
diffs, the feed), `schema`, `upkeep` (runs, compaction, cleanup, checks), `explore` (types,
neighbours, what a text means, who asks), `pages` (the page for people), `about`
(health, the documents).
"""
