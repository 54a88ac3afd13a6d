"""Adjacency per edge type: `csr`."""
