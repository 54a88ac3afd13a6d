"""Indexes of one dataset, built without moving it.

Knows index kinds and columns, not why a column has one. Reads are right without any index and
with partial ones, so building is maintenance and never part of a write. An index is built whole,
or, if it is sorted, gets one more segment over what none covers yet, at
the cost of those rows alone.
Lance's own way of adding rows commits by itself, reads all of the index as well, and would have to
run inside the lock; and segments of texts, added one by one, find texts that were since changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from lance import LanceOperation
from lance.dataset import Index, Transaction

from omnigraph.base.runner import Runner
from omnigraph.errors import BadRequestError
from omnigraph.storage.files import layout
from omnigraph.storage.tables.deletions import base_home
from omnigraph.storage.tables.failures import LostIndexError, lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.stage import Staged
from omnigraph.storage.tables.tasks import IndexTask, dataset_at, run_index

_GROUP = 8
"""Fragments that one task indexes when an index is built in pieces."""
_ROWS_OF_A_PART = 2_048
"""Vectors in one part of an index of vectors: a lookup reads whole parts."""
MOST_SEGMENTS = 8
MOST_DEAD = 0.25
"""The share of entries that may be of rows which are no more."""
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
    told: Mapping[str, Any] = field(default_factory=dict)
    """What Lance tells of how it was built; not all of what it was asked for."""
    is_worn: bool = False
    """Whether it is better built anew than continued: lookups ask every segment, dead or alive."""

    @property
    def is_sorted(self) -> bool:
        """Whether it may grow by segments."""
        return self.kind.upper() == "BTREE"


def list_indexes(handle: Handle) -> list[IndexInfo]:
    """Return the indexes of a dataset, by name; from what its manifest says, no index is read."""
    with lance_errors(f"listing the indexes of {handle}"):
        described = sorted(handle.dataset.describe_indices(), key=lambda index: index.name)
        if not described:
            return []
        parts = [part.metadata for part in handle.dataset.get_fragments()]
    physical = {part.id: int(part.physical_rows) for part in parts}
    live = {part.id: int(part.num_rows) for part in parts}
    return [_described(index, physical, live) for index in described]


def usable_indexes(tables: Tables, handle: Handle) -> dict[str, IndexInfo]:
    """Return the indexes of a dataset by name, having looked whether their files are there.

    Costs a listing per lineage the indexes are in.

    Raises:
        LostIndexError: files of one are not where they should be.
    """
    with lance_errors(f"looking at the indexes of {handle}"):
        found = [
            (one.name, part) for one in handle.dataset.describe_indices() for part in one.segments
        ]
    present: dict[str, set[str]] = {}
    for name, part in found:
        home = f"{base_home(handle, part.base_id)}/{layout.INDICES_DIR}"
        if home not in present:
            present[home] = {one.rpartition("/")[2] for one in tables.objects.folders(home)}
        if str(part.uuid) not in present[home]:
            raise LostIndexError(
                f"files of index '{name}' of {handle} are gone",
                hint="`omnigraph index build` builds it again",
            )
    return {index.name: index for index in list_indexes(handle)}


def vector_partitions(handle: Handle, column: str) -> int | None:
    """Return in about how many parts an index of vectors lies; None if the column has none."""
    for index in list_indexes(handle):
        if index.columns == (column,) and index.kind.upper().startswith("IVF"):
            return max(handle.row_count // _ROWS_OF_A_PART, 1)
    return None


def _described(index: Any, physical: dict[int, int], live: dict[int, int]) -> IndexInfo:  # noqa: ANN401 - Lance's description
    covered = {number for part in index.segments for number in part.fragment_ids}
    there = [number for number in covered if number in live]
    rows, entries = sum(live[number] for number in there), sum(physical[number] for number in there)
    typical = entries / len(there) if there else 1.0  # nobody knows how many rows the others had
    entries += round(typical * (len(covered) - len(there)))
    dead = 1 - rows / entries if entries else 0.0
    # Whole groups of fragments share a segment, so a large index has several from the start.
    most = MOST_SEGMENTS + len(there) // _GROUP
    return IndexInfo(
        index.name,
        tuple(index.field_names),
        str(index.index_type),
        sum(live.values()) - rows,
        dict(index.details or {}),
        len(index.segments) > most or dead > MOST_DEAD,
    )


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
    adds: bool = False
    """Whether it comes beside the segments there are, not in their place."""


def write_index(
    tables: Tables,
    base: Handle,
    spec: IndexSpec,
    runner: Runner | None = None,
    *,
    adds: bool = False,
    most_rows: int | None = None,
) -> BuiltIndex | None:
    """Write an index over all current rows; None while the table is empty.

    With `runner` other processes build it, one segment per group of fragments. What `adds` is over
    the fragments that no segment of that name covers, about `most_rows` of them; None if there is
    none.

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
    if adds:
        known = _covered(own, spec.name)
        covered = {number: files for number, files in covered.items() if number not in known}
        covered = _first(own, covered, most_rows)
    if not covered:
        return None
    if spec.kind.startswith("IVF") and "num_partitions" not in spec.settings:
        parts_of = max(own.row_count // _ROWS_OF_A_PART, 1)
        spec = replace(spec, settings={**spec.settings, "num_partitions": parts_of})
    place, fragments = dataset_at(tables, base), [*covered]
    if runner is None or spec.kind.startswith("IVF"):  # the segments of vectors need one training
        parts = [run_index(IndexTask(place, spec, tuple(fragments)))]
    else:
        groups = [fragments[at : at + _GROUP] for at in range(0, len(fragments), _GROUP)]
        tasks = [IndexTask(place, spec, tuple(group)) for group in groups]
        parts = list(runner.map(run_index, tasks))
    digests = {f"{base.files_at}/{name}": told for part in parts for name, told in part.digests}
    return BuiltIndex(spec.name, tuple(part.segment for part in parts), covered, digests, adds)


def stage_index(tables: Tables, base: Handle, built: BuiltIndex) -> Staged | None:
    """Put an index in the place of what has its name, or beside it; None if it is of others.

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
    if built.adds and not _covered(own, built.name).isdisjoint(same):
        return None  # somebody else has added them; a row that two segments know is found twice
    return _swap(own, built.segments, () if built.adds else (built.name,), built.digests)


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


def _covered(handle: Handle, name: str) -> set[int]:
    """Return the fragments that segments of an index cover."""
    with lance_errors(f"looking at the index {name} of {handle}"):
        return {
            number
            for index in handle.dataset.describe_indices()
            if index.name == name
            for part in index.segments
            for number in part.fragment_ids
        }


def _first(
    handle: Handle, covered: dict[int, frozenset[str]], most_rows: int | None
) -> dict[int, frozenset[str]]:
    """Return the first fragments, at least one, that have not more than so many rows."""
    if most_rows is None:
        return covered
    taken: dict[int, frozenset[str]] = {}
    left = most_rows
    for part in handle.dataset.get_fragments():
        number = part.fragment_id
        if number not in covered:
            continue
        left -= int(part.metadata.num_rows)
        if taken and left < 0:
            break
        taken[number] = covered[number]
    return taken


def _data_files(handle: Handle) -> dict[int, frozenset[str]]:
    with lance_errors(f"looking at the fragments of {handle}"):
        return {
            part.fragment_id: frozenset(file.path for file in part.data_files())
            for part in handle.dataset.get_fragments()
        }
