"""Adjacency per edge type: `csr` (flat arrays), `adjacency` (with added and dead edges)."""
