"""Indexes that a branch has from where it came from.

Their files stay with the older lineage. When Lance compacts rows that such an index covers, it
writes the moved index into the branch and goes on looking for it in the older lineage, where it is
not: after that no row can be looked up or replaced. So what such an index covers is not compacted
until the branch has an index of its own, and one that was lost like that is taken out.
"""

from __future__ import annotations

from omnigraph.errors import FormatError, NotFoundError, StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.tables.failures import StoreSilentError, lance_errors
from omnigraph.storage.tables.handle import Handle, Tables


def fragments_of_inherited_indexes(handle: Handle) -> frozenset[int]:
    """Return the fragments that indexes of an older lineage cover."""
    if handle.branch is None:
        return frozenset()
    with lance_errors(f"looking at the indexes of {handle}"):
        return frozenset(
            number
            for index in handle.dataset.describe_indices()
            for part in index.segments
            if part.base_id is not None
            for number in part.fragment_ids
        )


def lost_indexes(tables: Tables, location: str, branch: str | None, version: int) -> list[str]:
    """Return the indexes that were moved into a branch whose table looks for them elsewhere.

    Costs a listing; a table is opened only if there are files of indexes in its branch.
    """
    if branch is None:
        return []
    home = f"{layout.lineage(location, branch)}/{layout.INDICES_DIR}"
    moved = {name.rpartition("/")[2] for name in tables.objects.folders(home)}
    if not moved:
        return []
    handle = tables.open(location, branch, version)
    with lance_errors(f"looking at the indexes of {handle}"):
        return sorted(
            index.name
            for index in handle.dataset.describe_indices()
            if any(part.base_id is not None and part.uuid in moved for part in index.segments)
        )


def unusable_indexes(handle: Handle) -> dict[str, str]:
    """Return the indexes that cannot be read, and why; reads each of them once, whole."""
    with lance_errors(f"looking at the indexes of {handle}"):
        names = sorted(index.name for index in handle.dataset.describe_indices())
    found = {}
    for name in names:
        try:
            with lance_errors(f"reading index '{name}' of {handle}"):
                handle.dataset.prewarm_index(name)
        except StoreSilentError:
            raise
        except (NotFoundError, StorageError, FormatError) as error:
            found[name] = str(error).splitlines()[0]
    return found
