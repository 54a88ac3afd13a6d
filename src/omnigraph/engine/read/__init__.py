"""Operators and the executor: a read IR over images to Arrow.

`plan` (the order of operators for the data at hand), `pushdown` (filters storage can answer),
`images` (resident tables of a snapshot) and `selective` (just the rows of a cold query), `access`
(how rows are reached, for people), `prepare` (a plan made ready to run), `context` (what a run may
use) and `trace` (what it did), `rows` (positions by variable), `compare` and `evaluate` (predicates
and values, whole columns at a time), `operators` (scan, expand, filter, anti-join), `order`, `rank`
and `fuse` (best first), `top_k` (ranked matches from the top), `aggregate` and `grouped` (a row per
group), `window` (limit and offset), `answer`, `point` (one node by its id), `run` (the executor),
`picture` (nodes and edges behind rows), `reader` (from a text and a snapshot to rows);
`blob_bytes` beside it.
"""
