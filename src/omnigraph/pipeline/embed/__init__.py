"""Vectors from text, in bulk.

- `spec`: what a job on files is told; `file`: lines in, lines with vectors out.
- `graph`: the `@embed` columns of a graph, in one commit.
"""
