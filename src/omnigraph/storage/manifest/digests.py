"""What the catalog knows of the bytes of files: digests, stated by the commits that added them.

A data, deletion or index file never changes once it is written, so its digest tells damage for as
long as the file lives. The row of the table version that added a file states it, in the same
swap of the head that makes the file count; there is no second place that could say otherwise.
Files of other tools, and of older programs, have none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from omnigraph.base.ids import TableKey
from omnigraph.storage.files import layout
from omnigraph.storage.manifest.rows import TABLE_VERSION, read_rows, stated_in
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.predicate import AllOf, Predicate, equals, is_in


@dataclass(frozen=True, slots=True)
class StatedDigest:
    """One file, as the commit that added it describes it."""

    name: str
    """Relative to the graph."""
    digest: str
    key: TableKey
    location: str
    sequence: int
    """Of the commit, on the line it was read from."""


def stated_digests(
    handle: Handle, keys: Collection[TableKey] | None = None
) -> Iterator[StatedDigest]:
    """Yield every digest that a manifest states, or that it states of some tables, in any order.

    A table that was renamed had another key: of its files from before nothing comes under the new.
    """
    where: Predicate = equals("object_type", TABLE_VERSION)
    if keys is not None:
        where = AllOf((where, is_in("table_key", sorted(keys))))
    rows = read_rows(handle, where)
    columns = (rows[name].to_pylist() for name in ("metadata", "table_key", "table_branch"))
    for text, key, branch in zip(*columns, strict=True):
        if '"digests"' not in text:
            continue  # most versions of older programs; parsing all of them takes longer
        stated = stated_in(handle, text)
        home = layout.lineage(stated["location"], branch)
        for name, digest in stated.get("digests", {}).items():
            yield StatedDigest(
                f"{home}/{name}", digest, TableKey(key), stated["location"], stated["sequence"]
            )
