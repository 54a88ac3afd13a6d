"""Resident state: immutable arrays of one table at one version.

`arrays` (array types, sets of integers), `hashes` and `ids` (id to position), `columns` and
`table` (values by position, with an overlay of changes), `layers` (what a version keeps of its
base), `blobs` (described, not held), `analyzer` and `postings` (text), `blocks`, `prefix` and
`vectors`, `folders`, `mapped`, `shelf_upkeep`, `shelf` and `shelved_search` (images in files),
`cache` (all of it within a memory budget).
"""
