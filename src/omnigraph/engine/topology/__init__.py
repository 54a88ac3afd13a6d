"""Adjacency per edge type.

`csr` (flat arrays), `shelved` (those on disk), `adjacency` (with added and dead edges).
"""
