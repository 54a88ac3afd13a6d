"""Resident state: immutable arrays of one table at one version.

`arrays` (array types, sets of integers), `ids` (id to position), `columns` and `table` (values by
position, with an overlay of changes), `analyzer` and `postings` (text), `vectors`.
"""
