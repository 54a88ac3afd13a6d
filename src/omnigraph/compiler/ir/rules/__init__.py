"""Rewrites, one per file, each one function from IR and facts to IR.

In the order of `optimize.LOGICAL` and `COST`: `push_filters` (a filter moves to where its variable
appears),
`reach_negated` (inside `not`, walk to a node instead of scanning for it), `key_lookup` (equality
with a key is equality with an id), `join_order` (start where there is least), `join_parts` (parts
that share only values are joined on them; `part_joins` takes that back). `key_is_id` says which
keys are ids.
"""
