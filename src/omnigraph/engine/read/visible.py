"""Images of a snapshot with only the rows that somebody may see: a hidden row is a dead row.

Everything an image says follows from which of its rows live: scans, lookups, negations, counts,
term and vector statistics. Columns, codes, term lists and matrices stay shared with everybody. The
one thing that would tell of hidden rows is an adjacency over live edges, since it counts the dead;
so adjacencies are made anew, of visible edges only.

A rule is compiled by the compiler of queries, as what a query over one variable `$n` may ask of it.
A rule that does not compile hides its type: nobody is to see more because a schema changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.api.visibility import RowRules
from omnigraph.base.budget import NUMBER_BYTES, Budget, checkpoint
from omnigraph.base.ids import TableKey
from omnigraph.base.table_keys import edge_key, is_edge_key, is_node_key, node_key, type_of
from omnigraph.compiler.catalog.model import ID, Catalog
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir.ops import (
    Bm25,
    Expand,
    Filter,
    Nearest,
    NodeScan,
    Op,
    Param,
    Predicate,
    ReadIr,
    Rrf,
    iter_exprs,
    predicate_vars,
)
from omnigraph.compiler.query.condition import condition
from omnigraph.compiler.query.typed import Direction
from omnigraph.compiler.source import Source
from omnigraph.engine.image.arrays import Ints, Mask, one_array
from omnigraph.engine.image.layers import layers_of
from omnigraph.engine.image.postings import Postings
from omnigraph.engine.image.table import TableImage
from omnigraph.engine.image.vectors import Vectors
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.engine.read.operators import matching
from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.engine.topology.csr import Csr, build_csr
from omnigraph.errors import BadRequestError, BudgetExceededError, OmniGraphError

log = logging.getLogger("omnigraph.policy")
K = TypeVar("K")
V = TypeVar("V")
_VAR = "n"

Conditions = tuple[tuple[Predicate, ...], ...]
"""Alternatives, each of predicates that all have to hold; none is every row."""


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """Rules under one schema, by table key; a table that is missing is hidden."""

    shown: Mapping[str, Conditions]

    def hides_in(self, key: str) -> bool:
        """Whether some rows of a table may be hidden by its own rule."""
        return key not in self.shown or bool(self.shown[key])

    def covers(self, key: str, catalog: Catalog) -> bool:
        """Whether some rows of a table may be hidden: by its own rule, or by an end's."""
        if self.hides_in(key):
            return True
        if not is_edge_key(key):
            return False
        edge = catalog.edges[type_of(TableKey(key))]
        return self.hides_in(node_key(edge.from_type)) or self.hides_in(node_key(edge.to_type))


def compile_rules(rules: RowRules, catalog: Catalog) -> CompiledRules:
    """Return rules as they mean under a schema; what does not compile is hidden, and logged."""
    found: dict[str, Conditions] = {}
    for name, texts in rules.shown:
        for kind in catalog.types_named(name):
            try:
                found[kind.table_key] = tuple(
                    compile_condition(catalog, kind.table_key, text) for text in texts
                )
            except OmniGraphError as error:
                log.error("policy: all rows of %s are hidden: %s", kind.table_key, error.message)
    return CompiledRules(found)


def compile_condition(catalog: Catalog, key: str, text: str) -> tuple[Predicate, ...]:
    """Return what a condition on the rows of one table asks.

    Raises:
        CompileError: it is no condition under this schema.
        BadRequestError: it asks for more than the row itself.
    """
    written = condition(text)
    name = type_of(TableKey(key))
    if is_edge_key(key):
        edge = catalog.edges[name]
        matched = f"$from: {edge.from_type}\n$from ${_VAR}:{name[0].lower() + name[1:]} $to"
    else:
        matched = f"${_VAR}: {name}"
    source = Source(
        f"query rule() {{ match {{\n{matched}\n{written}\n}} return {{ ${_VAR}.{ID} }} }}"
    )
    ir = compile_query(catalog, source, None).ir
    predicates = _predicates(ir) if isinstance(ir, ReadIr) else None
    if predicates is None or any(predicate_vars(one) - {_VAR} for one in predicates):
        raise BadRequestError(
            f"a rule asks for properties of ${_VAR} alone", hint=f'${_VAR}.visibility = "public"'
        )
    assert isinstance(ir, ReadIr), "what writes has no predicates"
    if any(isinstance(one, Nearest | Bm25 | Rrf | Param) for one in iter_exprs(ir)):
        raise BadRequestError("a rule has no scores, parameters or times: it depends on rows alone")
    return predicates


def _predicates(ir: ReadIr) -> tuple[Predicate, ...] | None:
    """Return what a query asks of its only table; None if it asks for anything else."""
    found: list[Predicate] = []
    more = (ir.distinct, ir.ranking, ir.order, ir.limit, ir.offset)
    if more != (False, None, (), None, None) or len(ir.columns) != 1 or ir.is_aggregate:
        return None
    expands = 0
    for op in ir.ops:
        asked = _asked_by(op)
        if asked is None:
            return None
        expands += isinstance(op, Expand)
        found += asked
    return tuple(found) if expands <= 1 and len(ir.ops) else None


def _asked_by(op: Op) -> tuple[Predicate, ...] | None:
    match op:
        case NodeScan(filters=filters):
            return filters
        case Expand(edge_var="n", min_hops=1, max_hops=1):
            return (*op.edge_filters, *op.dst_filters)
        case Filter(predicate=predicate):
            return (predicate,)
        case _:
            return None


class VisibleImages:
    """What rules show of a snapshot. Thread-safe: what two threads make at once is the same."""

    def __init__(
        self,
        inner: SnapshotImages,
        catalog: Catalog,
        rules: CompiledRules,
        heads: tuple[VisibleImages, ...] = (),
    ) -> None:
        """Make a view.

        Args:
            inner: all rows.
            catalog: the schema of the snapshot.
            rules: what is shown of them.
            heads: the newest states, if this is of the past: what they hide was never there.
        """
        self._inner, self._catalog, self._rules, self._heads = inner, catalog, rules, heads
        self._tables: dict[str, TableImage] = {}
        self._adjacency: dict[tuple[str, Direction], Adjacency] = {}
        self._postings: dict[tuple[str, str], Postings] = {}
        self._vectors: dict[tuple[str, str], Vectors] = {}
        self._lock = threading.RLock()

    def node(self, type_name: str) -> TableImage:
        """Return the visible nodes of a type."""
        return self._table(node_key(type_name))

    def edge(self, edge: str) -> TableImage:
        """Return the visible edges of a type: those between visible nodes."""
        return self._table(edge_key(edge))

    def table(self, key: str) -> TableImage:
        """Return the visible rows of a table."""
        return self._table(key)

    def adjacency(self, edge: str, direction: Direction) -> Adjacency:
        """Return one direction of the visible edges."""
        return _kept(
            self._adjacency,
            (edge, direction),
            self._lock,
            lambda: self._visible_adjacency(edge, direction),
        )

    def postings(self, type_name: str, prop: str) -> Postings:
        """Return the postings of the visible texts."""

        def build() -> Postings:
            whole, image = self._inner.postings(type_name, prop), self.node(type_name)
            if image is self._inner.node(type_name):
                return whole
            return Postings(whole.base, layers_of(image), whole.changed)

        return _kept(self._postings, (type_name, prop), self._lock, build)

    def vectors(self, type_name: str, prop: str) -> Vectors:
        """Return the visible vectors."""

        def build() -> Vectors:
            whole, image = self._inner.vectors(type_name, prop), self.node(type_name)
            if image is self._inner.node(type_name):
                return whole
            return Vectors(whole.base, layers_of(image), whole.changed)

        return _kept(self._vectors, (type_name, prop), self._lock, build)

    def values_of(self, key: str, prop: str, count: Callable[[pa.Array], int]) -> int:
        """Return how many different values the visible rows have."""
        image = self._table(key)
        return count(one_array(image.column(prop).take(image.live_positions)))

    def rows_of(self, key: str) -> int:
        """Return how many rows of a table are visible."""
        return self._table(key).rows

    def hides_in(self, key: str) -> bool:
        """Whether some rows of a table may be hidden, now or because of what is hidden now."""
        return self._rules.covers(key, self._catalog) or bool(self._heads)

    def has(self, key: str, row_id: str) -> bool:
        """Whether a visible row has an id."""
        return self._table(key).find(row_id) >= 0

    def ids_of(self, key: str) -> pa.Array:
        """Return the ids of the visible rows of a table."""
        image = self._table(key)
        return one_array(image.column(ID).take(image.live_positions))

    def hidden_ids_of(self, key: str) -> pa.Array:
        """Return the ids of rows of a table that are there and not visible."""
        whole = self._whole(key)
        hidden = np.setdiff1d(whole.live_positions, self._table(key).live_positions)
        return one_array(whole.column(ID).take(hidden))

    def _whole(self, key: str) -> TableImage:
        name = type_of(TableKey(key))
        return self._inner.edge(name) if is_edge_key(key) else self._inner.node(name)

    def _table(self, key: str) -> TableImage:
        return _kept(self._tables, key, self._lock, lambda: self._visible(key))

    def _visible(self, key: str) -> TableImage:
        whole = self._whole(key)
        keep = self._by_rule(key, whole)
        if is_edge_key(key):
            ends = self._by_ends(type_of(TableKey(key)), whole)
            keep = ends if keep is None else keep if ends is None else keep & ends
        for head in self._heads:
            keep = _without(keep, head.hidden_ids_of(key), whole) if head.knows(key) else keep
        if keep is None:
            return whole
        if whole.live is not None:
            keep &= whole.live
        return TableImage(
            whole.base,
            whole.patch,
            whole.overlay,
            np.flatnonzero(~keep),
            whole._added,
            whole.renamed,
            # Values are those of the rows, whoever sees them.
            whole._columns,
            whole._codes,
        )

    def knows(self, key: str) -> bool:
        """Whether the schema of this state has a table."""
        known = self._catalog.nodes if is_node_key(key) else self._catalog.edges
        return type_of(TableKey(key)) in known

    def _by_rule(self, key: str, whole: TableImage) -> Mask | None:
        """Return the positions that a table's own rule shows; None is all."""
        if not self._rules.hides_in(key):
            return None
        keep = np.zeros(whole.positions, dtype=bool)
        checkpoint("row rules", whole.positions * NUMBER_BYTES)
        name = (type_of(TableKey(key)), is_edge_key(key))
        ctx = ReadContext(self._inner, {}, {_VAR: name}, Budget())
        for predicates in self._rules.shown.get(key, ()):
            keep[matching(whole, _VAR, predicates, ctx)] = True
        return keep

    def _by_ends(self, edge: str, whole: TableImage) -> Mask | None:
        """Return the edges between visible nodes; None is all."""
        kind = self._catalog.edges[edge]
        near, far = self.node(kind.from_type), self.node(kind.to_type)
        if near is self._inner.node(kind.from_type) and far is self._inner.node(kind.to_type):
            return None
        keep = np.zeros(whole.positions, dtype=bool)
        for sources, targets, edges in _pairs(self._inner.adjacency(edge, Direction.OUT)):
            seen = _alive(near, sources) & _alive(far, targets)
            keep[edges[seen]] = True
        return keep

    def _visible_adjacency(self, edge: str, direction: Direction) -> Adjacency:
        whole, image = self._inner.adjacency(edge, direction), self.edge(edge)
        if image is self._inner.edge(edge):
            return whole
        kind, live = self._catalog.edges[edge], image.live
        near = self.node(kind.from_type if direction is Direction.OUT else kind.to_type)
        parts = []
        for sources, targets, edges in _pairs(whole):
            keep = slice(None) if live is None else live[edges]
            parts.append((sources[keep], targets[keep], edges[keep]))
        sources, targets, edges = (np.concatenate(part) for part in zip(*parts, strict=True))
        made = build_csr(sources, targets, near.positions)
        return Adjacency(Csr(made.offsets, made.targets, edges[made.edges], made.parallel))


@contextmanager
def without_sizes() -> Iterator[None]:
    """Let no refusal say how large tables are with what is hidden of them.

    Rows are counted as far as they are seen; memory is that of whole columns.
    """
    try:
        yield
    except BudgetExceededError as error:
        if "memory" not in error.message:
            raise
        text = f"this needs more memory than the memory budget allows, which is {error.limit} bytes"
        raise BudgetExceededError(text, hint=error.hint, limit=error.limit) from None


def _pairs(adjacency: Adjacency) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield sources, targets and edges of the parts of an adjacency, dead ones included."""
    for csr in (adjacency.base, adjacency.extra):
        if csr is not None:
            checkpoint("row rules", 3 * len(csr.targets) * NUMBER_BYTES)
            yield np.repeat(np.arange(csr.size), np.diff(csr.offsets)), csr.targets, csr.edges


def _alive(image: TableImage, positions: Ints) -> Mask:
    if image.live is None:
        return np.ones(len(positions), dtype=bool)
    return image.live[positions]


def _without(keep: Mask | None, ids: pa.Array, whole: TableImage) -> Mask | None:
    """Return a mask without the rows of some ids."""
    if not len(ids):
        return keep
    found = np.ones(whole.positions, dtype=bool) if keep is None else keep
    at = whole.find_many(ids)
    found[at[at >= 0]] = False
    return found


def _kept(known: dict[K, V], key: K, lock: threading.RLock, build: Callable[[], V]) -> V:
    """Return what is known, making it once: all of a query has to see the same images."""
    found = known.get(key)
    if found is None:
        with lock:
            found = known.get(key)
            if found is None:
                found = known[key] = build()
    return found
