"""Metadata of a dataset's columns and of its schema as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables


def stamp_schema(tables: Tables, handle: Handle, entries: Mapping[bytes, bytes]) -> Handle:
    """Add schema-level metadata; one new version without new rows."""
    own = tables.reopen(handle.location, handle.branch, handle.version)
    merged = {**(own.dataset.schema.metadata or {}), **entries}
    with lance_errors(f"stamping {handle}"):
        own.dataset.replace_schema_metadata(
            {key.decode(): value.decode() for key, value in merged.items()}
        )
    return tables.open_latest(handle.location, handle.branch)


def annotate_field(
    tables: Tables, handle: Handle, column: str, entries: Mapping[bytes, bytes]
) -> Handle:
    """Add metadata to one column; one new version without new rows."""
    own = tables.reopen(handle.location, handle.branch, handle.version)
    field = own.dataset.schema.field(column)
    merged = {**(field.metadata or {}), **entries}
    with lance_errors(f"annotating {column} of {handle}"):
        own.dataset.replace_field_metadata(
            column, {key.decode(): value.decode() for key, value in merged.items()}
        )
    return tables.open_latest(handle.location, handle.branch)
