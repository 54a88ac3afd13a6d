"""The images of one snapshot: what the executor sees of storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import NUMBER_BYTES, checkpoint
from omnigraph.base.table_keys import edge_key, is_node_key, node_key
from omnigraph.compiler.catalog.model import Catalog, EdgeType
from omnigraph.compiler.ir.ops import Expand, Op
from omnigraph.compiler.ir.reads import Reads
from omnigraph.compiler.query.typed import Direction
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.image.postings import Postings
from omnigraph.engine.image.shelf import Shelf
from omnigraph.engine.image.table import BaseTable, TableImage
from omnigraph.engine.image.vectors import Vectors
from omnigraph.engine.topology.adjacency import Adjacency, with_added_edges
from omnigraph.engine.topology.csr import build_csr
from omnigraph.engine.topology.shelved import BaseEdges, are_kept, find_edges, keep_edges
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.manifest.snapshot import Snapshot

_EDGE_VALUES = 4
"""Values that cost as much to read as one edge to look up and sort."""


def ways_of(op: Expand) -> tuple[Direction, ...]:
    """Return the directions a step walks its edges in."""
    both = (Direction.OUT, Direction.IN)
    return both if op.direction is Direction.BOTH else (op.direction,)


class SnapshotImages:
    """Images of the tables of one snapshot, shared through the cache with other queries."""

    def __init__(self, snapshot: Snapshot, catalog: Catalog, cache: ImageCache) -> None:
        self._snapshot = snapshot
        self.catalog = catalog
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
            built = self._build_adjacency(self.catalog.edges[edge], direction)
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

    def missing(self, reads: Reads, ops: Iterable[Op]) -> int:
        """Return about how many values have to be read, or sorted, before a query can run."""
        values = sum(
            self._table(key, in_place=is_node_key(key)).missing(names)
            for key, names in reads.columns.items()
        )
        steps = {(op.edge, way) for op in ops if isinstance(op, Expand) for way in ways_of(op)}
        return values + sum(self._missing_edges(edge, way) for edge, way in steps)

    def bases(self, tables: Iterable[str]) -> tuple[int, ...]:
        """Return what tells the bases of tables from others, as long as this is alive."""
        return tuple(id(self._table(key, in_place=is_node_key(key)).base) for key in tables)

    def _missing_edges(self, edge: str, direction: Direction) -> int:
        bases = self._bases_of(self.catalog.edges[edge], direction)
        place = self._cache.place_of(direction, bases)
        if self._cache.knows(("csr", direction, *bases)) or are_kept(place):
            return 0
        return _EDGE_VALUES * bases[0].rows

    def version_of(self, key: str) -> TableVersion:
        """Return which version of a table this is of."""
        return self._snapshot.table(key)

    def rows_of(self, key: str) -> int:
        """Return how many rows a table has."""
        return self._snapshot.table(key).row_count

    def _table(self, key: str, *, in_place: bool) -> TableImage:
        found = self._tables.get(key)
        if found is None:
            snapshot = self._snapshot
            image = self._cache.table(
                snapshot.table(key),
                lambda: snapshot.open(key),
                snapshot.kernel,
                in_place=in_place,
                commit_id=snapshot.commit_id,
            )
            # The cache may have made another one for another thread meanwhile, which numbers rows
            # differently. Whoever was first has decided: a query must not see both.
            found = self._tables.setdefault(key, image)
        return found

    def _bases_of(self, edge: EdgeType, direction: Direction) -> tuple[BaseTable, ...]:
        """Return what adjacency is made of: the edges, where it begins, where it leads."""
        ends = (edge.from_type, edge.to_type)
        near, far = ends if direction is Direction.OUT else ends[::-1]
        return (self.edge(edge.name).base, self.node(near).base, self.node(far).base)

    def _build_adjacency(self, edge: EdgeType, direction: Direction) -> Adjacency:
        image = self.edge(edge.name)
        near, far, near_end, far_end = (
            (edge.from_type, edge.to_type, "src", "dst")
            if direction is Direction.OUT
            else (edge.to_type, edge.from_type, "dst", "src")
        )
        near_nodes, far_nodes = self.node(near), self.node(far)

        # Base positions of nodes never change, so this part belongs to the three bases alone.
        # Every other position depends on the version and is looked up for it.
        bases = self._bases_of(edge, direction)
        place = self._cache.place_of(direction, bases)

        def build() -> BaseEdges:
            kept = find_edges(place)
            if kept is not None:
                return kept
            starts, ends = image.base.arrays([near_end, far_end])
            checkpoint("reading edges", 2 * len(starts) * NUMBER_BYTES)
            sources = near_nodes.base.ids.find_many(starts)
            targets = far_nodes.base.ids.find_many(ends)
            checkpoint("reading edges")
            loose = np.flatnonzero((sources < 0) | (targets < 0))
            csr = build_csr(sources, targets, near_nodes.base.rows)
            return BaseEdges(csr, loose, starts.take(pa.array(loose)), ends.take(pa.array(loose)))

        found = self._cache.get(
            ("csr", direction, *bases),
            build,
            lambda kept: kept.nbytes,
            lambda _: bases,
            store=lambda kept: keep_edges(place, kept),
        )
        added = np.arange(image.base.rows, image.positions)
        rest = np.concatenate([found.loose, added])
        if not len(rest):
            return Adjacency(found.csr, None, image.live)
        # Of the base nothing is read for it: its ends of edges may not even be in memory.
        ends = [found.near, found.far]
        if len(added):
            names = (near_end, far_end)
            ends = [
                pa.concat_arrays([loose, image.added_values(name, added).cast(loose.type)])
                for loose, name in zip(ends, names, strict=True)
            ]
        return with_added_edges(
            found.csr,
            near_nodes.find_many(ends[0]),
            far_nodes.find_many(ends[1]),
            near_nodes.positions,
            rest,
            image.live,
        )


def build_kept(images: SnapshotImages, shelf: Shelf) -> None:
    """Make what walks and lookups in large tables need, so that it can be put on disk."""
    catalog = images.catalog
    for node in catalog.nodes.values():
        if shelf.fits(images.version_of(node.table_key)):
            assert images.node(node.name).base.ids is not None
    for edge in catalog.edges.values():
        if shelf.fits(images.version_of(edge.table_key)):
            for way in (Direction.OUT, Direction.IN):
                images.adjacency(edge.name, way)
