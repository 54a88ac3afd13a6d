"""Resident state: immutable arrays of one table at one version.

`arrays` (names for array types), `ids` (id to position), `analyzer` and `postings` (text).
"""
