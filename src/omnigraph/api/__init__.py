"""What crosses a surface: values with their JSON both ways, and what a graph can be asked.

`wire` (how a value becomes JSON and comes back), `words` (the words a call may choose from),
`rows` (answers as JSON has them), `query` (answers as Arrow has them, profiles), `violations`
(broken rules), `writes` (mutations, loads, exports, embedding), `history` (commits, branches,
snapshots), `changes` (what differs between two states, commit by commit, and for one node or
edge), `merges` (what became of one, conflicts), `runs`, `upkeep` (findings, indexes, compaction,
locks, disk), `stored` (queries called by name), `texts` (plans, schemas, files of text),
`progress` (who hears about long jobs), `keywords` (of several calls), `protocols` (reads, writes,
bulk jobs, stored queries, branches and history, administration).

A local graph, a client of a server and a guard fulfil the same protocols and return these values;
command line, server and tools speak nothing else. Names on the wire are stated once, here. Knows no
table, no compiler and no surface.
"""
