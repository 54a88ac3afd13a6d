"""A load: files in, one commit out, or nothing.

- `job` drives it; `request` says when two loads are one request.
- `fill` makes vectors from text, and `embedding_cache` none of them twice.
- `commit`: fragments are written and committed once.
"""
