"""Text to IR. Pure: no Lance, no files, no network.

In control-flow order: `source` (text and spans), `diagnostics` (findings and how they look),
`types` (scalar and property types), `operations` (words of operators and functions), `schema` (.pg
text to AST), `catalog` (AST to the model every other room works with, schema IR, migrations),
`query` (.gq text to typed AST, lint), `ir` (typed AST to operators, rewrites, explain), `compile`
(the one entry, cached).
"""
