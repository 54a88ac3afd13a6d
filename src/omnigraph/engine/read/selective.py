"""A query's own small images: only the rows it can touch, fetched by key.

For tables that are not resident. The operators are walked once on ids: what a scan selects, which
edges leave those nodes, which nodes they reach. The rows found that way are a superset of what
the query needs; the executor then runs on them as on any images and decides exactly. A walk that
grows too large, or a query that needs whole columns, gives up, and the tables are read whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint
from omnigraph.base.ids import TableKey
from omnigraph.base.table_keys import edge_key, node_key
from omnigraph.compiler.catalog.model import DST, ID, SRC, Catalog
from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Bm25,
    Direction,
    Expand,
    Filter,
    Join,
    NodeScan,
    Op,
    ReadIr,
    Rrf,
    iter_exprs,
)
from omnigraph.compiler.ir.reads import Reads
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.image.blobs import described
from omnigraph.engine.image.postings import Postings, build_postings
from omnigraph.engine.image.table import TableImage, fresh_image
from omnigraph.engine.image.vectors import Vectors, build_vectors
from omnigraph.engine.read.access import is_covered
from omnigraph.engine.read.evaluate import value_of
from omnigraph.engine.read.led import Led, led_by_index, led_rows
from omnigraph.engine.read.membership import looked_up, matching_rows
from omnigraph.engine.read.pushdown import ValueOf, pushdown
from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.engine.topology.csr import build_csr
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.predicate import AnyOf, IsIn, is_in

MAX_FRONTIER = 512
MAX_ROWS = 20_000
SMALL_TABLE = 2_000
"""A table of at most this many rows is read whole without asking."""
LARGE_TABLE = 200_000
"""From so many rows on it matters whether steps go through an index or scan the table."""
SCANS = 3
"""How often a large table is scanned before reading it whole would have cost less."""


class _TooLargeError(Exception):
    """The query touches more rows than fetching them by key is good for."""


def selective_images(
    ir: ReadIr,
    reads: Reads,
    snapshot: Snapshot,
    catalog: Catalog,
    bound: BoundQuery,
) -> NarrowImages | None:
    """Return images of just the rows a query can touch, or None when it needs whole tables."""
    if any(isinstance(expr, Bm25 | Rrf) for expr in iter_exprs(ir)):
        return None  # relevance counts every text of the column
    params = bound.params
    led = led_by_index(ir, bound)
    fetch = _Fetch(snapshot, catalog, lambda expr: value_of(expr, params), reads.columns, led)
    try:
        fetch.run(ir.ops, {})
    except _TooLargeError:
        return None
    return NarrowImages(catalog, snapshot, fetch.tables())


@dataclass(slots=True)
class _Fetch:
    """Walks operators on ids and collects the rows on the way."""

    snapshot: Snapshot
    catalog: Catalog
    value_of: ValueOf
    columns: Mapping[TableKey, frozenset[str]]
    led: Led | None = None
    """What an index of vectors chooses the rows of the only scan for."""
    _parts: dict[str, list[pa.Table]] = field(default_factory=dict)
    _rows: int = 0
    _scans: dict[tuple[str, str], int] = field(default_factory=dict)

    def run(self, ops: Sequence[Op], ids: dict[str, pa.Array]) -> None:
        """Fetch what the operators touch, given the ids that bound variables may have."""
        for op in ops:
            match op:
                case NodeScan():
                    ids[op.var] = self._scan(op)
                case Expand():
                    ids[op.dst] = self._expand(op, ids[op.src])
                case AntiJoin():
                    self.run(op.inner, dict(ids))
                case Join():
                    self.run(op.inner, ids)
                case Filter():
                    pass
                case _:
                    assert_never(op)

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows found, each once, per table key."""
        return {key: _distinct(pa.concat_tables(parts)) for key, parts in self._parts.items()}

    def _scan(self, op: NodeScan) -> pa.Array:
        key = node_key(op.type_name)
        where = pushdown(op.filters, self.value_of)
        if self.led is not None and self.snapshot.table(key).row_count > SMALL_TABLE:
            near = led_rows(self.snapshot, key, op, self.led, where, self._wanted(key))
            if near is None:
                raise _TooLargeError
            return one_array(self._keep(key, near)[ID])
        match = looked_up(op)
        if match is not None and self.snapshot.table(key).row_count > SMALL_TABLE:
            wanted = self._wanted(key, match.target.name)
            found = matching_rows(self.snapshot, key, match, self.value_of, where, wanted, MAX_ROWS)
            if found is not None:
                return one_array(self._keep(key, found)[ID])
        if where is None and self.snapshot.table(key).row_count > SMALL_TABLE:
            raise _TooLargeError
        rows = self.snapshot.open(key).scan(self._wanted(key), where, limit=MAX_ROWS)
        return one_array(self._keep(key, rows)[ID])

    def _expand(self, op: Expand, starts: pa.Array) -> pa.Array:
        reached = frontier = one_array(starts)
        found = pa.array([], pa.string())
        for _ in range(op.max_hops):
            checkpoint("Expand")
            if len(frontier) > MAX_FRONTIER:
                raise _TooLargeError
            ends = self._edges(op, frontier)
            fresh = ends.filter(pc.invert(pc.is_in(ends, value_set=reached)))
            found = pc.unique(pa.concat_arrays([found, ends]))
            reached = pa.concat_arrays([reached, fresh])
            frontier = fresh
            if not len(frontier):
                break
        key = node_key(op.dst_type)
        if len(found) > MAX_ROWS:
            raise _TooLargeError
        rows = self.snapshot.open(key).by_ids(found, self._wanted(key))
        self._keep(key, rows)
        return found

    def _edges(self, op: Expand, frontier: pa.Array) -> pa.Array:
        """Fetch the edges that leave the frontier; return the distinct far ends."""
        key = edge_key(op.edge)
        listed = frontier.to_pylist()
        near: list[IsIn] = []
        if op.direction in (Direction.OUT, Direction.BOTH):
            near.append(is_in(SRC, listed))
        if op.direction in (Direction.IN, Direction.BOTH):
            near.append(is_in(DST, listed))
        for column in (part.column for part in near):
            self._check_scans(key, column)
        wanted = self._wanted(key, SRC, DST)
        rows = self.snapshot.open(key).scan(wanted, AnyOf(tuple(near)), limit=MAX_ROWS)
        self._keep(key, rows)
        ends = {
            Direction.OUT: [rows[DST]],
            Direction.IN: [rows[SRC]],
            Direction.BOTH: [rows[DST], rows[SRC]],
        }[op.direction]
        return pc.unique(pa.concat_arrays([one_array(part) for part in ends]))

    def _check_scans(self, key: str, column: str) -> None:
        """Give up when a large table is asked again and again by a column without an index."""
        if self.snapshot.table(key).row_count < LARGE_TABLE:
            return
        known = self._scans.get((key, column))
        if known is None:
            known = -1 if is_covered(self.snapshot, key, column) else 0
        self._scans[key, column] = known if known < 0 else known + 1
        if known >= SCANS:
            raise _TooLargeError

    def _wanted(self, key: str, *also: str) -> list[str]:
        known = set(self.snapshot.open(key).schema.names)
        return sorted((self.columns.get(TableKey(key), frozenset()) & known) | {ID, *also})

    def _keep(self, key: str, rows: pa.Table) -> pa.Table:
        self._rows += rows.num_rows
        if self._rows >= MAX_ROWS:
            raise _TooLargeError
        self._parts.setdefault(key, []).append(described(rows))
        return rows


class NarrowImages:
    """Images over a few fetched rows."""

    def __init__(self, catalog: Catalog, snapshot: Snapshot, tables: dict[str, pa.Table]) -> None:
        self._catalog = catalog
        self._snapshot = snapshot
        self._tables = tables
        self._images: dict[str, TableImage] = {}

    def node(self, type_name: str) -> TableImage:
        """Return the fetched nodes of a type."""
        return self._image(node_key(type_name))

    def edge(self, edge: str) -> TableImage:
        """Return the fetched edges of a type."""
        return self._image(edge_key(edge))

    def adjacency(self, edge: str, direction: Direction) -> Adjacency:
        """Return one direction of the fetched edges."""
        kind, image = self._catalog.edges[edge], self.edge(edge)
        sources = self.node(kind.from_type).find_many(image.column(SRC).full)
        targets = self.node(kind.to_type).find_many(image.column(DST).full)
        if direction is Direction.OUT:
            return Adjacency(build_csr(sources, targets, self.node(kind.from_type).positions))
        return Adjacency(build_csr(targets, sources, self.node(kind.to_type).positions))

    def postings(self, type_name: str, prop: str) -> Postings:
        """Return postings of the fetched texts: enough to tell which of them match."""
        return build_postings(self.node(type_name).column(prop).full)

    def vectors(self, type_name: str, prop: str) -> Vectors:
        """Return the fetched vectors."""
        return build_vectors(self.node(type_name).column(prop).full)

    def _image(self, key: str) -> TableImage:
        found = self._images.get(key)
        if found is None:
            rows = self._tables.get(key)
            if rows is None:  # nothing the query does reaches this type
                rows = described(self._snapshot.open(key).schema.empty_table())
            found = _image_of(rows)
            self._images[key] = found
        return found


def _image_of(rows: pa.Table) -> TableImage:
    return fresh_image(rows.num_rows, lambda names: rows.select(list(names)))


def _distinct(rows: pa.Table) -> pa.Table:
    """Return each id once; the same row may have been fetched on two ways."""
    _, first = np.unique(np.asarray(rows[ID].to_pylist(), dtype=object), return_index=True)
    return rows.take(pa.array(np.sort(first))) if len(first) < rows.num_rows else rows
