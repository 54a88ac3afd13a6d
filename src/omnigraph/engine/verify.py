"""What holds of the rows of a state by its schema, but is asked of no write by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.upkeep import Finding
from omnigraph.base.table_keys import node_key
from omnigraph.compiler.catalog.model import ID, SRC, Catalog
from omnigraph.engine.image.arrays import one_array
from omnigraph.storage.manifest.snapshot import Snapshot

_SHOWN = 5


def lonely_sources(snapshot: Snapshot, catalog: Catalog) -> Iterator[Finding]:
    """Yield the edge types with a minimum of which some node has no edge at all.

    Nodes come before their edges, often by another write, so a write asks for the minimum only of
    sources whose edges it touches; nodes that wait for their first edge are told here.
    """
    for edge in catalog.edges.values():
        if not edge.cardinality.min:
            continue
        nodes = snapshot.open(node_key(edge.from_type)).scan([ID])
        sources = pc.unique(snapshot.open(edge.table_key).scan([SRC])[SRC])
        alone = nodes.filter(pc.invert(pc.is_in(nodes[ID], value_set=sources)))
        if len(alone):
            yield Finding(
                "missing_edges",
                f"{edge.table_key} on '{snapshot.branch}'",
                f"{len(alone)} {edge.from_type} without any, {edge.cardinality.min} needed: "
                + _first(alone),
                harmless=True,
            )


def _first(rows: pa.Table) -> str:
    ids = one_array(pc.select_k_unstable(rows, _SHOWN, [(ID, "ascending")]))
    listed = ", ".join(f"'{one}'" for one in rows[ID].take(ids).to_pylist())
    return listed + (", …" if len(rows) > _SHOWN else "")
