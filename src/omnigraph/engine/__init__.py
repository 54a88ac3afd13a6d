"""IR and a snapshot to Arrow; rows to staged writes. Binds `compiler` and `storage`.

In control-flow order: `contract` (the accepted schema on disk), `image` (resident, versioned arrays
of a table), `topology` (adjacency of an edge type), `search` (vectors, text, fusion), `read`
(operators and the executor), `write` (mutations become commits), `schema` (from one
schema to the next), `changes` (what differs between states, commit by commit, for one row), `merge`
(what two lines did, put together), `maintain` (indexes on request).
"""
