"""IR and a snapshot to Arrow; rows to staged writes. Binds `compiler` and `storage`.

In control-flow order: `image` (resident, versioned arrays of a table), `topology` (adjacency of an
edge type), `search` (vectors, text, fusion), `read` (operators and the executor).
"""
