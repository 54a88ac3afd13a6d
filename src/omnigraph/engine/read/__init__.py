"""Operators and the executor: a read IR over images to Arrow.

`plan` (the order of operators for the sizes at hand), `pushdown` (filters storage can answer),
`images` (resident tables of a snapshot) and `narrow` (just the rows of a cold query), `context`
(what a run may use) and `trace` (what it did), `rows` (positions by variable), `compare` and
`evaluate` (predicates and values, whole columns at a time), `operators` (scan, expand, filter,
anti-join), `order`, `rank`, `aggregate`, `run` (the executor).
"""
