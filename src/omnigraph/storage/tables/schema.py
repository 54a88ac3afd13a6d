"""Metadata of a dataset's columns and of its schema as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables


def stamp_schema(tables: Tables, handle: Handle, entries: Mapping[str, str]) -> Handle:
    """Add schema-level metadata; one new version without new rows."""
    own = tables.reopen(handle.location, handle.branch, handle.version)
    with lance_errors(f"stamping {handle}"):
        own.dataset.update_schema_metadata(dict(entries))
    return tables.open_latest(handle.location, handle.branch)


def annotate_field(
    tables: Tables, handle: Handle, column: str, entries: Mapping[str, str]
) -> Handle:
    """Add metadata to one column; one new version without new rows."""
    own = tables.reopen(handle.location, handle.branch, handle.version)
    with lance_errors(f"annotating {column} of {handle}"):
        own.dataset.update_field_metadata({column: dict(entries)})
    return tables.open_latest(handle.location, handle.branch)
