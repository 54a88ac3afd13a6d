"""Indexes of one dataset, built without moving it.

Knows index kinds and columns, not why a column has one. Reads are right without any index and
with partial ones, so building is maintenance and never part of a write. An index is always built
whole: Lance's way of adding rows commits by itself, reads all of the index as well, and would have
to run inside the lock; and segments added one by one find texts that were since changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lance import LanceOperation
from lance.dataset import Index, Transaction

from omnigraph.base.runner import Runner
from omnigraph.errors import BadRequestError
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.stage import Staged
from omnigraph.storage.tables.tasks import IndexTask, dataset_at, run_index

_GROUP = 8
"""Fragments that one task indexes when an index is built in pieces."""
IndexKind = Literal[
    "BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "INVERTED", "IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"
]


class NoColumnError(BadRequestError):
    """An index is wanted on a column that the table does not have, or no longer has."""


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


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index that is written but not committed, and the rows it was built from."""

    name: str
    segments: tuple[Any, ...]
    """Lance's descriptions."""
    covered: Mapping[int, frozenset[str]]
    """The data files of every fragment that was read."""
    digests: Mapping[str, str]
    """Its files, relative to the graph."""


def write_index(
    tables: Tables, base: Handle, spec: IndexSpec, runner: Runner | None = None
) -> BuiltIndex | None:
    """Write an index over all current rows; None while the table is empty.

    With `runner` other processes build it, one segment per group of fragments.

    Raises:
        NoColumnError: there is no such column.
        BadRequestError: there is no such kind of index.
    """
    own = tables.reopen(base.location, base.branch, base.version)
    if spec.column not in own.dataset.schema.names:
        raise NoColumnError(f"{base} has no column '{spec.column}' to index")
    if spec.kind not in get_args(IndexKind):
        raise BadRequestError(f"there is no {spec.kind} index for '{spec.column}' of {base}")
    covered = _data_files(own)
    if not covered:
        return None
    place, fragments = dataset_at(tables, base), [*covered]
    if runner is None or spec.kind.startswith("IVF"):  # the segments of vectors need one training
        parts = [run_index(IndexTask(place, spec, tuple(fragments)))]
    else:
        groups = [fragments[at : at + _GROUP] for at in range(0, len(fragments), _GROUP)]
        tasks = [IndexTask(place, spec, tuple(group)) for group in groups]
        parts = list(runner.map(run_index, tasks))
    digests = {f"{base.files_at}/{name}": told for part in parts for name, told in part.digests}
    return BuiltIndex(spec.name, tuple(part.segment for part in parts), covered, digests)


def stage_index(tables: Tables, base: Handle, built: BuiltIndex) -> Staged | None:
    """Put an index in the place of what has its name; None if it is of other rows or columns.

    Rows deleted or written since it was built do no harm: Lance asks an index only for rows of
    the fragments it covers, and an update moves a row into a new fragment. A fragment that has
    the number of a covered one but other files would be answered for wrongly. An index on a column
    that was dropped meanwhile could not even be listed.
    """
    own = tables.reopen(base.location, base.branch, base.version)
    columns = {field.id() for field in own.dataset.lance_schema.fields()}
    if not columns.issuperset(at for part in built.segments for at in part.fields):
        return None
    present = _data_files(own)
    same = [number for number in built.covered if number in present]
    if not same or any(present[number] != built.covered[number] for number in same):
        return None
    return _swap(own, built.segments, (built.name,), built.digests)


def stage_drop(tables: Tables, base: Handle, names: Sequence[str]) -> Staged | None:
    """Remove indexes; None if there is none of these names."""
    own = tables.reopen(base.location, base.branch, base.version)
    return _swap(own, (), names, {}) if _segments(own, names) else None


def _swap(
    own: Handle, segments: tuple[Any, ...], names: Sequence[str], digests: Mapping[str, str]
) -> Staged:
    operation = LanceOperation.CreateIndex([*segments], _segments(own, names))
    transaction = Transaction(own.version, operation)
    return Staged(own, transaction, 0, False, tuple(digests), digests)


def _segments(handle: Handle, names: Sequence[str]) -> list[Index]:
    """Return the parts of indexes as a transaction names them."""
    with lance_errors(f"looking at the indexes {', '.join(names)} of {handle}"):
        return [
            Index(
                uuid=part.uuid,
                name=index.name,
                fields=list(index.fields),
                dataset_version=part.dataset_version_at_last_update,
                fragment_ids=part.fragment_ids,
                index_version=part.index_version,
            )
            for index in handle.dataset.describe_indices()
            if index.name in names
            for part in index.segments
        ]


def _data_files(handle: Handle) -> dict[int, frozenset[str]]:
    with lance_errors(f"looking at the fragments of {handle}"):
        return {
            part.fragment_id: frozenset(file.path for file in part.data_files())
            for part in handle.dataset.get_fragments()
        }
