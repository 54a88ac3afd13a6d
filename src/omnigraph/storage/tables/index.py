"""Indexes of one dataset, built without moving it.

Knows index kinds and columns, not why a column has one. Reads are right without any index and
with partial ones, so building is maintenance and never part of a write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lance import LanceOperation
from lance.dataset import Transaction

from omnigraph.errors import AlreadyExistsError
from omnigraph.storage import layout
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.spread import IndexTask, Spread, dataset_at, run_index
from omnigraph.storage.tables.stage import Staged

_GROUP = 8
"""Fragments that one task indexes when an index is built in pieces."""
IndexKind = Literal[
    "BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "INVERTED", "IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"
]


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index wanted on one column; `settings` are passed to Lance."""

    column: str
    kind: IndexKind
    name: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """One index that exists, and how much of the table it covers."""

    name: str
    columns: tuple[str, ...]
    kind: str
    unindexed_rows: int


def list_indexes(handle: Handle) -> list[IndexInfo]:
    """Return the indexes of a dataset, by name."""
    with lance_errors(f"listing the indexes of {handle}"):
        return [
            IndexInfo(
                index.name,
                tuple(index.field_names),
                str(index.index_type),
                int(handle.dataset.stats.index_stats(index.name).get("num_unindexed_rows") or 0),
            )
            for index in sorted(handle.dataset.describe_indices(), key=lambda index: index.name)
        ]


def stage_index(
    tables: Tables, base: Handle, spec: IndexSpec, spread: Spread | None = None
) -> Staged | None:
    """Build an index over all current rows, staged; None while the table is empty.

    With `spread` other processes build it, one segment per group of fragments.

    Raises:
        AlreadyExistsError: there is an index of that name; `optimize_indexes` refreshes it.
    """
    own = tables.reopen(base.location, base.branch, base.version)
    fragments = [part.fragment_id for part in own.dataset.get_fragments()]
    if not fragments:
        return None
    if any(index.name == spec.name for index in own.dataset.describe_indices()):
        raise AlreadyExistsError(f"index '{spec.name}' exists on {base}")
    place = dataset_at(tables, base)
    if spread is None or spec.kind.startswith("IVF"):  # the segments of vectors need one training
        segments = [run_index(IndexTask(place, spec, tuple(fragments)))]
    else:
        groups = [fragments[at : at + _GROUP] for at in range(0, len(fragments), _GROUP)]
        tasks = [IndexTask(place, spec, tuple(group)) for group in groups]
        segments = list(spread(run_index, tasks))
    home = f"{base.files_at}/{layout.INDICES_DIR}"
    files = tuple(
        info.name for built in segments for info in tables.objects.list(f"{home}/{built.uuid}")
    )
    operation = LanceOperation.CreateIndex(segments, [])
    return Staged(own, Transaction(own.version, operation), 0, False, files)


def optimize_indexes(tables: Tables, base: Handle) -> Handle:
    """Fold rows written since the last build into the indexes; commits by itself."""
    own = tables.reopen(base.location, base.branch, base.version)
    with lance_errors(f"optimising the indexes of {base}"):
        own.dataset.optimize.optimize_indices()
    return tables.open_latest(base.location, base.branch)


def drop_index(tables: Tables, base: Handle, name: str) -> Handle:
    """Remove an index; commits by itself."""
    own = tables.reopen(base.location, base.branch, base.version)
    with lance_errors(f"dropping index '{name}' of {base}"):
        own.dataset.drop_index(name)
    return tables.open_latest(base.location, base.branch)
