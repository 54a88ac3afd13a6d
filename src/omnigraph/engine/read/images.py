"""The images of one snapshot: what the executor sees of storage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import NUMBER_BYTES, checkpoint
from omnigraph.base.table_keys import edge_key, is_node_key, node_key
from omnigraph.compiler.catalog.model import Catalog, EdgeType
from omnigraph.compiler.query.typed import Direction
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.image.postings import Postings
from omnigraph.engine.image.table import TableImage
from omnigraph.engine.image.vectors import Vectors
from omnigraph.engine.topology.adjacency import Adjacency, with_added_edges
from omnigraph.engine.topology.csr import Csr, build_csr
from omnigraph.storage.manifest.snapshot import Snapshot


class SnapshotImages:
    """Images of the tables of one snapshot, shared through the cache with other queries."""

    def __init__(self, snapshot: Snapshot, catalog: Catalog, cache: ImageCache) -> None:
        self._snapshot = snapshot
        self._catalog = catalog
        self._cache = cache
        self._tables: dict[str, TableImage] = {}
        self._adjacency: dict[tuple[str, Direction], Adjacency] = {}

    def node(self, type_name: str) -> TableImage:
        """Return the image of a node type."""
        return self._table(node_key(type_name), in_place=True)

    def edge(self, edge: str) -> TableImage:
        """Return the image of an edge type."""
        return self._table(edge_key(edge), in_place=False)

    def adjacency(self, edge: str, direction: Direction) -> Adjacency:
        """Return one direction of an edge type; the part that did not change is shared."""
        found = self._adjacency.get((edge, direction))
        if found is None:
            built = self._build_adjacency(self._catalog.edges[edge], direction)
            found = self._adjacency.setdefault((edge, direction), built)
        return found

    def postings(self, type_name: str, prop: str) -> Postings:
        """Return the postings of a text property."""
        return self._cache.postings(self.node(type_name), prop)

    def vectors(self, type_name: str, prop: str) -> Vectors:
        """Return the vectors of a property."""
        return self._cache.vectors(self.node(type_name), prop)

    def values_of(self, key: str, prop: str, count: Callable[[pa.Array], int]) -> int:
        """Return how many different values a column has, as counted once for its base."""
        image = self._table(key, in_place=is_node_key(key))
        return self._cache.get(
            ("values", image.base, image.base_key(prop)),
            lambda: count(image.base_array(prop)),
            lambda _: 0,
            lambda _: (image.base,),
        )

    def rows_of(self, key: str) -> int:
        """Return how many rows a table has."""
        return self._snapshot.table(key).row_count

    def _table(self, key: str, *, in_place: bool) -> TableImage:
        found = self._tables.get(key)
        if found is None:
            table = self._snapshot.table(key)
            snapshot = self._snapshot
            image = self._cache.table(table, snapshot.open(key), snapshot.kernel, in_place=in_place)
            # The cache may have made another one for another thread meanwhile, which numbers rows
            # differently. Whoever was first has decided: a query must not see both.
            found = self._tables.setdefault(key, image)
        return found

    def _build_adjacency(self, edge: EdgeType, direction: Direction) -> Adjacency:
        image = self.edge(edge.name)
        near, far, near_end, far_end = (
            (edge.from_type, edge.to_type, "src", "dst")
            if direction is Direction.OUT
            else (edge.to_type, edge.from_type, "dst", "src")
        )
        near_nodes, far_nodes = self.node(near), self.node(far)

        def build() -> tuple[Csr, Ints]:
            starts, ends = image.base.arrays([near_end, far_end])
            checkpoint("reading edges", 2 * len(starts) * NUMBER_BYTES)
            sources = near_nodes.base.ids.find_many(starts)
            targets = far_nodes.base.ids.find_many(ends)
            checkpoint("reading edges")
            loose = np.flatnonzero((sources < 0) | (targets < 0))
            return build_csr(sources, targets, near_nodes.base.rows), loose

        # Base positions of nodes never change, so this part belongs to the three bases alone.
        # Every other position depends on the version and is looked up for it.
        bases = (image.base, near_nodes.base, far_nodes.base)
        base, loose = self._cache.get(
            ("csr", direction, *bases),
            build,
            lambda kept: kept[0].nbytes + kept[1].nbytes,
            lambda _: bases,
        )
        rest = np.concatenate([loose, np.arange(image.base.rows, image.positions)])
        if not len(rest):
            return Adjacency(base, None, image.live)
        return with_added_edges(
            base,
            near_nodes.find_many(image.column(near_end).take(rest)),
            far_nodes.find_many(image.column(far_end).take(rest)),
            near_nodes.positions,
            rest,
            image.live,
        )
