"""Leaves that every room may use.

`hashing`, `ids`, `table_keys`, `clock`, `uri`, `failpoints`; `runner` (who does pieces of a job),
`closing` (what ends with its block); `arguments` (what callers pass,
checked), `durations` (`7d` and its like), `budget` (what a call may use), `waiting` (no longer
than it may) and `memory` (what there is); `recent` (a bounded memory of what was made), `metrics`
(what a process counts) and `calls` (what it tells of queries and jobs).
"""
