"""A first schema from files, and the mapping under which they load into it.

- `read`: files into what is seen of their types (`kinds`); `guess`: types from values.
- `draft`: the schema and the mapping to go on from; `names`: properties from columns.
"""
