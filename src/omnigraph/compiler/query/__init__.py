"""The query language: `.gq` text to a typed query.

In control-flow order: `grammar.lark`, `lexer` and `build` (text to AST, driven by `parser`),
`ast` (what was written), `scope` (what names mean), `literals` (written values to typed ones),
`check_expr`, `check_filter`, `check_value`, `check_match`, `check_return`, `check_mutation` (one
part of the language each), `typecheck` (the entry), `typed` (what a query means), `params`
(values a caller passes), `condition` (what a rule asks of one row), `lint` (a whole file at once),
`stored` (queries that are called by name) and `format` (the one layout).
"""
