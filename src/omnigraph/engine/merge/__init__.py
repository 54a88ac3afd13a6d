"""Three-way merges: what one line changed since a base, put on another line.

In control-flow order: `images` (rows of one state by id, and whether two are the same), `base`
(what both sides began from, one commit or several), `rows` (the truth table: what is taken over,
and what conflicts), `conflicts` (how that is told), `resolve` (conflicts settled by rule or by
hand), `check` (rules that only both sides together break), `spaces` (which model filled a column),
`align` (a state seen under another schema), `schemas` (one schema for both sides),
`run` (from two branches to one commit), `replay` (single commits undone or repeated).
"""
