"""The intermediate representation: a typed query to operators, rewritten and explained.

In control-flow order: `ops` (the vocabulary), `pattern` (a match as a graph, and how it becomes
a sequence of operators), `lower` (typed query to operators), `facts` (what rewrites may know),
`reads` (what a query touches), `estimate` (how many rows to expect), `key_id` (the id a key gives),
`rules/` (one rewrite per file), `optimize` (the visible tuples `LOGICAL` and `COST`),
`mutation_mix` (the check before a mutation runs), `explain` (canonical text).
"""
