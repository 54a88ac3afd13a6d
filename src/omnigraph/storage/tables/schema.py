"""Metadata of a dataset's columns and of its schema as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables


def stamp_schema(tables: Tables, handle: Handle, entries: Mapping[bytes, bytes]) -> Handle:
    """Add schema-level metadata; one new version without new rows."""
    own = tables.reopen(handle.location, handle.branch, handle.version)
    with lance_errors(f"stamping {handle}"):
        own.dataset.update_schema_metadata(_as_text(entries))
    return tables.open_latest(handle.location, handle.branch)


def annotate_field(
    tables: Tables, handle: Handle, column: str, entries: Mapping[bytes, bytes]
) -> Handle:
    """Add metadata to one column; one new version without new rows."""
    own = tables.reopen(handle.location, handle.branch, handle.version)
    with lance_errors(f"annotating {column} of {handle}"):
        own.dataset.update_field_metadata({column: _as_text(entries)})
    return tables.open_latest(handle.location, handle.branch)


def _as_text(entries: Mapping[bytes, bytes]) -> dict[str, str | None]:
    return {key.decode(): value.decode() for key, value in entries.items()}
