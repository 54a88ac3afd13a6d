"""Operators and the executor: a read IR over images to Arrow.

`context` (what a run may use), `trace` (what a profiled run did), `rows` (positions by
variable), `compare` and `evaluate` (predicates and values, whole columns at a time), `operators`
(scan, expand, filter, anti-join), `order`, `rank`, `aggregate`, `run` (the executor).
"""
