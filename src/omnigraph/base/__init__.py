"""Leaves that every room may use: `hashing`, `ids`, `clock`, `uri`, `failpoints`."""
