"""A first schema from files.

- `draft`: what rows look like, as a schema to go on from; `guess`: types from values.
"""
