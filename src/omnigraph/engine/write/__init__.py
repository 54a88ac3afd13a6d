"""Rows to staged writes: what a mutation changes, and whether it may.

In control-flow order: `violations` (what a rule break looks like), `ledger` (which statement did
what), `cells` (values into typed columns), `change_set` (rows to put and ids to delete, per
table), `find` (rows a predicate means), `mutate` (statements to a change set), `embed` (vectors
made from text), `values` (rules a row can break by itself), `columns` (columns as the validator
compares them), `cardinality` (how many edges a source has), `validate` (every rule of the schema
against a change set and a snapshot), `commit` (stage, re-validate what moved, publish), `request`
(what a caller asks for, and when two requests are one), `writer` (from a text to a commit, again
where the branch moved).
"""
