"""Schema text (.pg) to a checked syntax tree, and back to text in one style.

In control-flow order: `parser` (text to trees, all errors of a file at once; `grammar.lark`),
`tree` (one parse tree to one declaration), `items` (`@` items), `ast` (the result), `shape`
(interfaces applied to nodes), `fills` (what `@default` and `@backfill` say), `check` (the rules),
`format` (the one layout).
"""
