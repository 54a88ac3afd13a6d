"""Derived state on purpose: building the indexes a schema asks for.

Never part of a write. Answers are the same with no, some or all of them; only cost differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.compiler.catalog.model import DST, ID, SRC, Catalog, EdgeType, NodeType
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables.index import IndexKind, IndexSpec, list_indexes
from omnigraph.storage.tables.predicate import IsNull, Not

_TRAINING_ROWS = 256
"""Below this many vectors a flat scan is as fast as any index."""


_ATTEMPTS = 3


class IndexStatus(StrEnum):
    """What happened to one wanted index."""

    BUILT = "built"
    REFRESHED = "refreshed"
    CURRENT = "current"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One wanted index; `reason` says why a pending one is not there yet."""

    table_key: str
    column: str
    kind: str
    status: IndexStatus
    reason: str | None = None


def wanted_indexes(catalog: Catalog) -> Iterator[tuple[str, IndexSpec]]:
    """Yield the indexes the schema declares or implies, with their table."""
    for node in catalog.nodes.values():
        yield from _unique_specs(node, _node_specs(node))
    for edge in catalog.edges.values():
        yield from _unique_specs(edge, _edge_specs(edge))


def ensure_indexes(store: GraphStore, catalog: Catalog, branch: str) -> list[IndexReport]:
    """Build what is missing and fold new rows into what exists; safe to repeat."""
    reports = []
    stale: set[str] = set()
    for key, spec in wanted_indexes(catalog):
        snapshot = store.snapshot(branch)
        existing = {index.name: index for index in list_indexes(snapshot.handle(key))}
        known = existing.get(spec.name)
        status, reason = IndexStatus.CURRENT, None
        if known is not None:
            if known.unindexed_rows:
                stale.add(key)
                status = IndexStatus.REFRESHED
        elif reason := _not_yet(store, branch, key, spec):
            status = IndexStatus.PENDING
        elif any(store.build_index(key, spec, branch=branch) for _ in range(_ATTEMPTS)):
            status = IndexStatus.BUILT
        else:
            status, reason = IndexStatus.PENDING, "writers kept moving the table; try again"
        reports.append(IndexReport(key, spec.column, spec.kind, status, reason))
    for key in sorted(stale):
        store.refresh_indexes(key, branch=branch)
    return reports


def _not_yet(store: GraphStore, branch: str, key: str, spec: IndexSpec) -> str | None:
    snapshot = store.snapshot(branch)
    if not snapshot.table(key).row_count:
        return "the table is empty"
    if spec.kind.startswith("IVF"):
        vectors = snapshot.open(key).count(Not(IsNull(spec.column)))
        if vectors < _TRAINING_ROWS:
            return f"{vectors} vectors are searched faster without an index"
    return None


def _unique_specs(
    kind: NodeType | EdgeType, specs: Iterator[IndexSpec]
) -> Iterator[tuple[str, IndexSpec]]:
    seen: set[str] = set()
    for spec in specs:
        if spec.name not in seen:
            seen.add(spec.name)
            yield kind.table_key, spec


def _node_specs(node: NodeType) -> Iterator[IndexSpec]:
    yield _spec(ID, "BTREE")
    yield from _declared(node, (*node.unique, node.key))


def _edge_specs(edge: EdgeType) -> Iterator[IndexSpec]:
    for column in (ID, SRC, DST):
        yield _spec(column, "BTREE")
    yield from _declared(edge, edge.unique)


def _declared(kind: NodeType | EdgeType, exact: tuple[tuple[str, ...], ...]) -> Iterator[IndexSpec]:
    """Yield indexes of columns looked up exactly, then of those declared to be searched."""
    for columns in exact:
        for name in columns:
            prop = kind.properties.get(name)
            if prop is not None and _is_sortable(prop.type) and name != ID:
                yield _spec(name, "BTREE")
    for columns in kind.indices:
        prop = kind.properties.get(columns[0])
        if len(columns) > 1 or prop is None or columns[0] == ID:
            continue  # an index over several columns has no physical form
        chosen = _index_kind(prop.type)
        if chosen is not None:
            yield _spec(prop.name, chosen)


def _is_sortable(kind: PropType) -> bool:
    return not kind.is_list and kind.scalar not in (Scalar.VECTOR, Scalar.BLOB)


def _index_kind(kind: PropType) -> IndexKind | None:
    if kind.scalar is Scalar.VECTOR:
        return "IVF_FLAT"
    if not _is_sortable(kind):
        return None
    return "INVERTED" if kind.scalar is Scalar.STRING and kind.enum_values is None else "BTREE"


def _spec(column: str, kind: IndexKind) -> IndexSpec:
    settings = {"metric": "cosine", "num_partitions": 1} if kind == "IVF_FLAT" else {}
    return IndexSpec(column, kind, f"{column}_{kind.lower()}", settings)
