"""Derived state on purpose: building the indexes a schema asks for.

Never part of a write. Answers are the same with no, some or all of them; only cost differs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from omnigraph.api.history import TableNotFoundError
from omnigraph.api.upkeep import CompactionStats, IndexReport, IndexStatus
from omnigraph.base.ids import TableKey
from omnigraph.base.runner import Runner
from omnigraph.compiler.catalog.model import DST, ID, SRC, Catalog, EdgeType, NodeType
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.storage.files.layout import fork_owner
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables.failures import LostIndexError
from omnigraph.storage.tables.index import (
    IndexInfo,
    IndexKind,
    IndexSpec,
    NoColumnError,
    usable_indexes,
)
from omnigraph.storage.tables.predicate import IsNull, Not
from omnigraph.storage.tables.words import ONLY_CUT

log = logging.getLogger(__name__)

TRAINING_ROWS = 256
"""Below this many vectors a flat scan is as fast as any index."""

WORTH_ROWS = 50_000
"""So many rows looked for without an index are worth one, unasked; a scan takes milliseconds."""
STEP_ROWS = 1_000_000
"""Upkeep sorts about so many rows at a time: a second's work, after which it can be stopped."""

_ATTEMPTS = 3
_SETTINGS: dict[str, dict[str, Any]] = {"IVF_FLAT": {"metric": "cosine"}, "INVERTED": ONLY_CUT}


def wanted_indexes(catalog: Catalog) -> Iterator[tuple[str, IndexSpec]]:
    """Yield the indexes the schema declares or implies, with their table."""
    for node in catalog.nodes.values():
        yield from _unique_specs(node, _node_specs(node))
    for edge in catalog.edges.values():
        yield from _unique_specs(edge, _edge_specs(edge))


def ensure_indexes(
    store: GraphStore,
    catalog: Catalog,
    branch: str,
    runner: Runner | None = None,
    *,
    actor: str | None = None,
) -> list[IndexReport]:
    """Build what is missing, and what existing ones do not cover; safe to repeat.

    A sorted index gets a segment over the rows it lacks; the others are built anew.
    With `runner` other processes build them, a group of fragments each; `actor` is who asked.
    """
    reports = []
    store.mend(branch)
    for key, spec in wanted_indexes(catalog):
        snapshot = store.snapshot(branch)
        if key not in snapshot.tables:
            continue  # the schema was changed meanwhile and the type is gone
        try:
            known = usable_indexes(store.kernel.tables, snapshot.handle(key))
        except LostIndexError:
            if not store.drop_unusable_indexes(key, branch, actor=actor):
                raise
            snapshot = store.snapshot(branch)
            known = usable_indexes(store.kernel.tables, snapshot.handle(key))
        spec = _named(spec, known)
        found = known.get(spec.name)
        status, reason = IndexStatus.CURRENT, None
        if found is None or found.unindexed_rows or _is_other(found, spec):
            done = IndexStatus.BUILT if found is None else IndexStatus.REFRESHED
            adds = found is not None and found.is_sorted and not found.is_worn
            reason = _build(store, snapshot, key, spec, runner, actor, adds=adds)
            status = done if reason is None else IndexStatus.PENDING
        rows = snapshot.table(key).row_count
        covered = status is not IndexStatus.PENDING
        left = 0 if covered else rows if found is None else found.unindexed_rows
        reports.append(IndexReport(key, spec.column, spec.kind, status, reason, rows, left))
    return reports


def reconcile_indexes(
    store: GraphStore,
    catalog: Catalog,
    branch: str,
    *,
    runner: Runner | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Build what is worth it and missing, one index at a time; return how many were built.

    For upkeep: nothing waits for it, small tables are left alone, and what is lost to a writer is
    left to the next time.
    """
    built = 0
    for key, spec in wanted_indexes(catalog):
        if stopped():
            break
        snapshot = store.snapshot(branch)
        table = snapshot.tables.get(TableKey(key))
        if table is None or table.row_count < WORTH_ROWS or fork_owner(table.branch) != branch:
            continue
        try:
            known = usable_indexes(store.kernel.tables, snapshot.handle(key))
            spec = _named(spec, known)
            found = known.get(spec.name)
            due = _is_due(found, table.row_count) or (found is not None and _is_other(found, spec))
            if not due or store.being_loaded(key, branch):
                continue
            if _not_yet(snapshot, key, spec) is not None:
                continue
            if spec.kind != "BTREE" or (found is not None and found.is_worn):
                built += store.build_index(key, spec, branch, runner)
                continue
            step = STEP_ROWS if runner is None else None
            add = partial(store.build_index, key, spec, branch, runner, adds=True, most_rows=step)
            while add():
                built += 1
                if stopped():
                    break
        except (LostIndexError, NoColumnError, TableNotFoundError) as error:
            log.info("upkeep leaves %s of %s on '%s' alone: %s", spec.name, key, branch, error)
    return built


def _is_other(found: IndexInfo, spec: IndexSpec) -> bool:
    """Whether a text index was built otherwise than it is now: nobody would ask it."""
    wanted = spec.settings.items() if spec.kind == "INVERTED" else ()
    return any(found.told.get(word) != value for word, value in wanted)


def _is_due(found: IndexInfo | None, rows: int) -> bool:
    """Whether so much is looked for without an index that building it pays."""
    if found is None:
        return True
    if found.is_sorted:
        return found.unindexed_rows >= WORTH_ROWS or found.is_worn
    return found.unindexed_rows >= max(WORTH_ROWS, rows // 4)  # all of it is built again


def index_coverage(store: GraphStore, catalog: Catalog, branch: str) -> list[IndexReport]:
    """Return every index the schema asks for and how far it covers the rows; builds nothing."""
    snapshot = store.snapshot(branch)
    known: dict[str, dict[str, IndexInfo] | LostIndexError] = {}
    reports = []
    for key, spec in wanted_indexes(catalog):
        if key not in snapshot.tables:
            continue  # the schema was changed meanwhile and the type is gone
        if key not in known:
            try:
                known[key] = usable_indexes(store.kernel.tables, snapshot.handle(key))
            except LostIndexError as error:
                known[key] = error
        found, rows = known[key], snapshot.table(key).row_count
        report = IndexReport(key, spec.column, spec.kind, IndexStatus.CURRENT, None, rows)
        if isinstance(found, LostIndexError):
            reports.append(
                replace(report, status=IndexStatus.LOST, reason=found.message, unindexed_rows=rows)
            )
        else:
            reports.append(_covered(report, snapshot, spec, found))
    return reports


def _covered(
    report: IndexReport, snapshot: Snapshot, spec: IndexSpec, known: Mapping[str, IndexInfo]
) -> IndexReport:
    """Return what is to be said of one index of a table whose indexes can be read."""
    found = known.get(_named(spec, known).name)
    if found is not None:
        left = found.unindexed_rows
        status = IndexStatus.PARTIAL if left else IndexStatus.CURRENT
        return replace(report, status=status, unindexed_rows=left)
    key = report.table_key
    reason = _not_yet(snapshot, key, spec) or _kept_from(snapshot, str(snapshot.branch), key)
    status = IndexStatus.MISSING if reason is None else IndexStatus.PENDING
    return replace(report, status=status, reason=reason, unindexed_rows=report.rows)


def with_pending_indexes(
    store: GraphStore, catalog: Catalog, branch: str, tables: list[CompactionStats]
) -> list[CompactionStats]:
    """Return what a compaction did, with the columns whose index was left behind."""
    due = (IndexStatus.PARTIAL, IndexStatus.MISSING, IndexStatus.LOST)
    behind: dict[str, list[str]] = {}
    for one in index_coverage(store, catalog, branch):
        if one.status in due:
            behind.setdefault(one.table_key, []).append(one.column)
    return [
        replace(one, pending_indexes=tuple(dict.fromkeys(behind.get(one.table_key, ()))))
        for one in tables
    ]


def _named(spec: IndexSpec, known: Mapping[str, IndexInfo]) -> IndexSpec:
    """Return an index under the name it has, or can have, in a table.

    An index is called after its column when it is built; a column that is called otherwise since
    keeps it under that name, which another column may have by now.
    """
    taken = {name: index.columns for name, index in known.items()}
    suffix = spec.name.removeprefix(spec.column)
    own = [name for name, on in taken.items() if on == (spec.column,) and name.endswith(suffix)]
    if own:
        return replace(spec, name=own[0])
    name, number = spec.name, 1
    while name in taken:
        number += 1
        name = f"{spec.column}_{number}{suffix}"
    return replace(spec, name=name)


def _build(
    store: GraphStore,
    snapshot: Snapshot,
    key: str,
    spec: IndexSpec,
    runner: Runner | None,
    actor: str | None,
    *,
    adds: bool,
) -> str | None:
    """Build an index, or what it lacks; say why not, if so."""
    branch = str(snapshot.branch)
    reason = _not_yet(snapshot, key, spec) or _kept_from(snapshot, branch, key)
    if reason is not None:
        return reason
    build = partial(store.build_index, key, spec, branch, runner, actor=actor, adds=adds)
    try:
        if any(build() for _ in range(_ATTEMPTS)):
            return None
    except (NoColumnError, TableNotFoundError):
        return "the schema was changed meanwhile and the column is gone"
    return "the table was compacted or replaced every time; try again"


def _kept_from(snapshot: Snapshot, branch: str, key: str) -> str | None:
    """Say why a branch must not touch the files of a table, if so: they are another's."""
    owner = fork_owner(snapshot.table(key).branch)
    if owner == branch:
        return None
    return f"the rows are those of {owner}: build it there, or write to the table here first"


def _not_yet(snapshot: Snapshot, key: str, spec: IndexSpec) -> str | None:
    """Say why an index would be of no use yet, if so."""
    if not snapshot.table(key).row_count:
        return "the table is empty"
    if spec.kind.startswith("IVF"):
        vectors = snapshot.open(key).count(Not(IsNull(spec.column)))
        if vectors < TRAINING_ROWS:
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
        for name in columns:  # one over several columns has no physical form
            prop = kind.properties.get(name)
            if prop is None or name == ID:
                continue
            if _is_sortable(prop.type):
                yield _spec(name, "BTREE")
            chosen = _search_kind(prop.type)
            if chosen is not None and len(columns) == 1:
                yield _spec(name, chosen)


def _is_sortable(kind: PropType) -> bool:
    return not kind.is_list and kind.scalar not in (Scalar.VECTOR, Scalar.BLOB)


def _search_kind(kind: PropType) -> IndexKind | None:
    """Return the index by which a column is searched, beside being compared."""
    if kind.scalar is Scalar.VECTOR:
        return "IVF_FLAT"
    is_text = kind.scalar is Scalar.STRING and kind.enum_values is None and not kind.is_list
    return "INVERTED" if is_text else None


def _spec(column: str, kind: IndexKind) -> IndexSpec:
    return IndexSpec(column, kind, f"{column}_{kind.lower()}", _SETTINGS.get(kind, {}))
