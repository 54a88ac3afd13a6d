"""Which model filled the vectors of a column, after both sides may have filled it."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.search.spaces import record_name, record_text, spaces_of
from omnigraph.storage.manifest.snapshot import Snapshot


def merged_records(
    base: Snapshot, theirs: Snapshot, ours: Snapshot, catalog: Catalog
) -> Iterator[tuple[str, bytes]]:
    """Yield the records a merge adds to the target, by name and content.

    If one side alone was filled anew, its model counts. If both were, by different models, both
    do: distances in such a column mean nothing until it is filled again, and searches say so.
    """
    for node in catalog.nodes.values():
        for prop in node.embeds:
            was = set(spaces_of(base, node, prop))
            now, here = set(spaces_of(theirs, node, prop)), set(spaces_of(ours, node, prop))
            after = here if now == was else now if here == was else here | now
            if after != here:
                for space in sorted(after):
                    name = record_name(node, prop, ours.sequence + 1, space)
                    yield name, record_text(node, prop, space)
