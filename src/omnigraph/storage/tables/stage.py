"""Preparing writes: files on disk, nothing moved.

A staged write becomes visible only when `commit` commits its transaction. Updates are built by
hand, because Lance's own update and merge rebuild a row-id map on every new version (50 to 250
ms at a million rows) and because only this form keeps row ids *and* can be staged together
with deletes. Above `MERGE_CROSSOVER` rows Lance's merge is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.blob import BlobType, blob_array, blob_field
from lance.dataset import Transaction
from lance.fragment import RowIdSequence, write_fragments

from omnigraph.base.budget import Budget
from omnigraph.errors import BadRequestError, IntegrityError
from omnigraph.storage.files import layout
from omnigraph.storage.tables.alter import Alter, alter_operation
from omnigraph.storage.tables.compute import Rewrite, rewrite_operation
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.foreign import Adopt, ForeignFragment, accepted
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.scan import ROW_ADDRESS, ROW_ID, Reader, key_column
from omnigraph.storage.tables.watched import Watched

# Staging is faster by hand below this many upserted rows (measured, see docs/storage.md).
MERGE_CROSSOVER = 10_000
_OFFSET = np.uint64(0xFFFF_FFFF)
"""The part of a row's address that says where it is in its fragment."""


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows; the caller has checked that their keys are new."""

    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Change:
    """Replace or insert rows by key, delete rows by key, and take in fragments, in one step."""

    upserts: pa.Table | None = None
    deletes: pa.Array | None = None
    adopted: tuple[ForeignFragment, ...] = ()
    """Fragments written elsewhere; their keys are new or among the deleted ones."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replace all rows; the schema may change."""

    rows: pa.Table


TableWrite = Append | Change | Overwrite | Adopt | Alter | Rewrite


@dataclass(frozen=True, slots=True)
class Staged:
    """One dataset's prepared transaction."""

    base: Handle
    transaction: Any
    rows_added: int
    """Rows after the commit minus rows before it."""
    replaces_all: bool
    files: tuple[str, ...]
    """New files, relative to the graph, that must be on disk before the commit counts."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """What tells damage in them later, where somebody looked at them before the commit."""

    @property
    def uuid(self) -> str:
        """Return the evidence by which recovery knows this transaction."""
        return str(self.transaction.uuid)

    def sign(self, properties: Mapping[str, str]) -> None:
        """Leave a mark in the transaction, by which its dataset can tell whose it was."""
        self.transaction.transaction_properties = dict(properties)

    def row_count_on(self, rows_before: int) -> int:
        """Return the table's row count once this is committed on `rows_before` rows."""
        return self.rows_added if self.replaces_all else rows_before + self.rows_added


def stage(
    tables: Tables, base: Handle, write: TableWrite, budget: Budget | None = None
) -> Staged | None:
    """Prepare a write on top of `base`; None if it would change nothing.

    Raises:
        BudgetExceededError: the call has to stop; files may be left, which count for nothing.
    """
    watched = Watched(f"writing {base}", budget)
    match write:
        case Append(rows):
            staged = _stage_append(tables, base, rows, watched)
        case Change():
            staged = _stage_change(tables, base, write, watched)
        case Overwrite(rows):
            staged = _stage_overwrite(tables, base, rows, watched)
        case Adopt(fragments, replaces_all):
            staged = _stage_adoption(tables, base, fragments, replaces_all=replaces_all)
        case Alter():
            staged = (
                None if write.is_empty else _staged(base, alter_operation(base, write), 0, [], [])
            )
        case Rewrite():
            made = rewrite_operation(base, write)
            staged = Staged(base, Transaction(base.version, made.operation), 0, False, made.files)
        case _:
            assert_never(write)
    if staged is None:
        return None
    files = staged.files + blob_files(tables, base, staged.files)
    return with_digests(tables, replace(staged, files=files), _told_by_tasks(write))


def with_digests(tables: Tables, staged: Staged, known: Mapping[str, str] | None = None) -> Staged:
    """Return a staged write that knows the digests of its files; those not `known` are read.

    Outside the lock, while the system still has them in memory.
    """
    told = {name: (known or {}).get(name) for name in staged.files}
    unknown = [name for name, digest in told.items() if digest is None]
    asked = tables.objects.together(*(partial(tables.objects.digest, name) for name in unknown))
    told |= dict(zip(unknown, asked, strict=True))
    return replace(staged, digests={name: one for name, one in told.items() if one is not None})


def _told_by_tasks(write: TableWrite) -> dict[str, str]:
    """Return the digests of files that were written elsewhere, as whoever wrote them took them."""
    match write:
        case Adopt(fragments) | Change(adopted=fragments):
            return {
                f"{part.home}/{name}": told for part in fragments for name, told in part.digests
            }
        case _:
            return {}


def blob_files(tables: Tables, base: Handle, files: Sequence[str]) -> tuple[str, ...]:
    """Return the files that hold large blobs of new data files, in a folder beside each."""
    if not any(isinstance(field.type, BlobType) for field in base.dataset.schema):
        return ()
    return tuple(
        info.name
        for name in files
        if name.endswith(".lance")
        for info in tables.objects.list(name.removesuffix(".lance"))
    )


def rebased(staged: Staged, newer: Handle) -> Staged | None:
    """Return an append moved onto a newer version of its lineage; None for other writes.

    The new fragments do not depend on the rows that were there, only on the columns.
    """
    operation = staged.transaction.operation
    if not isinstance(operation, LanceOperation.Append) or staged.base.files_at != newer.files_at:
        return None
    if not staged.base.dataset.schema.equals(newer.dataset.schema, check_metadata=True):
        return None
    return replace(staged, base=newer, transaction=Transaction(newer.version, operation))


def stage_swap(tables: Tables, base: Handle, row_address: int, rows: pa.Table) -> Staged:
    """Prepare: delete exactly the row at `row_address` and append `rows`, in one transaction.

    Two such transactions that delete the same row exclude each other, which makes the row a
    compare-and-swap.
    """
    asks: tuple[Callable[[], Any], ...] = (
        partial(_delete_addresses, base, [row_address]),
        partial(_write, tables, base, rows),
    )
    with lance_errors(f"staging a swap on {base}"):
        (updated, gone), fresh = tables.objects.together(*asks)
    operation = _update(base, gone, updated, fresh)
    return _staged(base, operation, len(rows) - 1, fresh, updated)


def stage_removal(base: Handle, row_addresses: Sequence[int]) -> Staged:
    """Prepare: delete exactly the rows at some addresses, whatever their keys."""
    with lance_errors(f"staging a removal from {base}"):
        updated, gone = _delete_addresses(base, row_addresses)
    operation = LanceOperation.Delete(updated, gone, "rows chosen by address")
    return _staged(base, operation, -len(row_addresses), [], updated)


def stage_refold(
    tables: Tables, base: Handle, fragment_ids: Sequence[int], rows: pa.Table
) -> Staged:
    """Prepare: replace whole fragments by one with fresh, contiguous row ids.

    Unlike compaction this forgets row lineage, and with it the per-row sequences that Lance
    repeats in every version's manifest. For tables whose lineage nobody reads.
    """
    with lance_errors(f"staging a refold of {base}"):
        fresh = _write(tables, base, rows)
    operation = _update(base, list(fragment_ids), [], fresh)
    return _staged(base, operation, 0, fresh, [])


def _stage_append(tables: Tables, base: Handle, rows: pa.Table, watched: Watched) -> Staged | None:
    if len(rows) == 0:
        return None
    fitted = conform(rows, base.dataset.schema)
    with watched.passed_on(f"staging an append to {base}"):
        fresh = _write(tables, base, watched.rows(fitted))
    return _staged(base, LanceOperation.Append(fresh), len(rows), fresh, [])


def _stage_overwrite(tables: Tables, base: Handle, rows: pa.Table, watched: Watched) -> Staged:
    with watched.passed_on(f"staging an overwrite of {base}"):
        transaction = write_fragments(
            watched.rows(rows),
            base.dataset,
            mode="overwrite",
            max_rows_per_file=tables.max_rows_per_file,
            return_transaction=True,
        )
    operation = transaction.operation
    assert isinstance(operation, LanceOperation.Overwrite)
    fresh = list(operation.fragments)
    return Staged(base, transaction, len(rows), True, _new_files(base, fresh, []))


def _stage_adoption(
    tables: Tables, base: Handle, fragments: Sequence[ForeignFragment], *, replaces_all: bool
) -> Staged | None:
    if not fragments and not replaces_all:
        return None
    taken = accepted(tables, base, fragments)
    count = sum(part.rows for part in fragments)
    if not replaces_all:
        return _staged(base, LanceOperation.Append(taken), count, taken, [])
    operation = LanceOperation.Overwrite(base.dataset.lance_schema, taken)
    transaction = Transaction(base.version, operation)
    return Staged(base, transaction, count, True, _new_files(base, taken, []))


def _stage_change(tables: Tables, base: Handle, change: Change, watched: Watched) -> Staged | None:
    watched.check()
    schema = base.dataset.schema
    key = key_column(schema)
    upserts, taken = change.upserts, accepted(tables, base, change.adopted)
    taken_rows = sum(part.rows for part in change.adopted)
    fitted = conform(upserts, schema) if upserts is not None else schema.empty_table()
    _refuse_repeats(fitted[key], base)
    if change.deletes is None and not taken and len(fitted) >= MERGE_CROSSOVER:
        return _stage_merge(base, key, fitted, watched)
    gone = _keys(change.deletes, fitted[key].type)
    _refuse_both(fitted[key], gone, base)
    wanted = pa.concat_arrays([fitted[key].combine_chunks(), gone])
    hits = Reader(base).locate(wanted)
    if len(hits) == 0 and len(fitted) == 0 and not taken:
        return None
    with watched.passed_on(f"staging a change of {base}"):
        updated, emptied = _delete_addresses(base, hits[ROW_ADDRESS].to_numpy())
        if len(fitted) == 0 and not taken:
            deletion = LanceOperation.Delete(updated, emptied, "rows chosen by address")
            return _staged(base, deletion, -len(hits), [], updated)
        fresh: list[Any] = []
        if len(fitted):
            kept_ids, ordered = _matched_first(hits, key, fitted)
            fresh = _write(tables, base, watched.rows(ordered))
            _keep_row_ids(fresh, kept_ids)
    operation = _update(base, emptied, updated, [*fresh, *taken])
    added = len(fitted) + taken_rows - len(hits)
    return _staged(base, operation, added, [*fresh, *taken], updated)


def _stage_merge(base: Handle, key: str, rows: pa.Table, watched: Watched) -> Staged:
    with watched.passed_on(f"staging a merge into {base}"):
        transaction, stats = (
            base.dataset.merge_insert(key)
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute_uncommitted(watched.rows(rows))
        )
    operation = transaction.operation
    assert isinstance(operation, LanceOperation.Update)
    files = _new_files(base, operation.new_fragments, operation.updated_fragments)
    added = int(stats["num_inserted_rows"])
    return Staged(base, transaction, added, False, files)


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with exactly the table's columns, in its order and types."""
    if rows.schema.equals(schema, check_metadata=False):
        return rows
    missing = [name for name in schema.names if name not in rows.column_names]
    unknown = [name for name in rows.column_names if name not in schema.names]
    if missing or unknown:
        raise BadRequestError(
            f"rows do not fit the table: missing {missing}, unknown {unknown}",
            hint=f"the table has the columns {schema.names}",
        )
    blobs = [field.name for field in schema if isinstance(field.type, BlobType)]
    plain = pa.schema([field for field in schema if field.name not in blobs])
    try:
        fitted = rows.select(plain.names).cast(plain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise IntegrityError(f"rows do not fit the table: {error}") from error
    for name in blobs:  # Lance keeps them apart and wants plain bytes wrapped
        wrapped = blob_array(rows[name].to_pylist())
        fitted = fitted.add_column(schema.get_field_index(name), blob_field(name), wrapped)
    return fitted


def _refuse_repeats(keys: pa.ChunkedArray, base: Handle) -> None:
    """Two source rows with one new key would both be inserted."""
    if len(keys) > 1 and pc.count_distinct(keys).as_py() != len(keys):
        counted = pc.value_counts(keys)
        repeated = next(item for item in counted.to_pylist() if item["counts"] > 1)
        raise IntegrityError(f"key '{repeated['values']}' is written twice to {base.location}")


def _refuse_both(upserted: pa.ChunkedArray, deleted: pa.Array, base: Handle) -> None:
    """One transaction has no order, so a key cannot be both written and deleted in it."""
    if len(upserted) and len(deleted):
        both = upserted.filter(pc.is_in(upserted, value_set=deleted))
        if len(both):
            raise IntegrityError(
                f"key '{both[0].as_py()}' is both written to and deleted from {base.location}",
                hint="use two commits",
            )


def _keys(ids: pa.Array | None, key_type: pa.DataType) -> pa.Array:
    return pa.array([], key_type) if ids is None else ids.cast(key_type)


def _matched_first(hits: pa.Table, key: str, rows: pa.Table) -> tuple[list[int], pa.Table]:
    """Order rows so that those replacing a hit come first, beside their old row ids."""
    found = pc.index_in(hits[key], value_set=rows[key].combine_chunks())
    replaced = pc.is_valid(found)
    matched = found.filter(replaced)
    row_ids = hits[ROW_ID].filter(replaced).to_pylist()
    fresh = pc.invert(pc.is_in(rows[key], value_set=hits[key].combine_chunks()))
    return row_ids, pa.concat_tables([rows.take(matched), rows.filter(fresh)])


def _keep_row_ids(fragments: Sequence[Any], row_ids: list[int]) -> None:
    """Bind old row ids to the leading rows of the new fragments; the rest get fresh ones."""
    start = 0
    for fragment in fragments:
        bound = row_ids[start : start + fragment.physical_rows]
        if not bound:
            return
        fragment.row_id_meta = RowIdSequence(bound).to_inline_metadata()
        start += fragment.physical_rows


def _delete_addresses(
    base: Handle, addresses: Sequence[int] | np.ndarray
) -> tuple[list[Any], list[int]]:
    """Return the fragments that lose rows, and the ids of those that lose all of them."""
    listed = np.sort(np.asarray(addresses, np.uint64))
    owners = listed >> np.uint64(32)
    updated: list[Any] = []
    gone: list[int] = []
    for fragment_id in map(int, np.unique(owners)):
        fragment = base.dataset.get_fragment(fragment_id)
        assert fragment is not None, f"fragment {fragment_id} of {base}"
        start, end = np.searchsorted(owners, np.asarray([fragment_id, fragment_id + 1], np.uint64))
        left = fragment.delete_rows((listed[start:end] & _OFFSET).tolist())
        if left is None:
            gone.append(fragment_id)
        else:
            updated.append(left)
    return updated, gone


def _update(
    base: Handle, gone: list[int], updated: Sequence[Any], fresh: Sequence[Any]
) -> LanceOperation.Update:
    """Build an update that declares every column as changed.

    With an empty declaration Lance counts the new fragments as covered by bitmap, text and
    vector indexes, and filters then silently miss the new rows and find the old ones.
    """
    return LanceOperation.Update(
        removed_fragment_ids=gone,
        updated_fragments=list(updated),
        new_fragments=list(fresh),
        fields_for_preserving_frag_bitmap=_field_ids(base.dataset.lance_schema.fields()),
        update_mode="rewrite_rows",
    )


def _field_ids(fields: Sequence[Any]) -> list[int]:
    return [number for field in fields for number in (field.id(), *_field_ids(field.children()))]


def _write(tables: Tables, base: Handle, rows: pa.Table | pa.RecordBatchReader) -> list[Any]:
    return list(
        write_fragments(
            rows, base.dataset, mode="append", max_rows_per_file=tables.max_rows_per_file
        )
    )


def _staged(
    base: Handle,
    operation: LanceOperation.BaseOperation,
    rows_added: int,
    fresh: Sequence[Any],
    updated: Sequence[Any],
) -> Staged:
    files = _new_files(base, fresh, updated)
    return Staged(base, Transaction(base.version, operation), rows_added, False, files)


def _new_files(base: Handle, fresh: Sequence[Any], updated: Sequence[Any]) -> tuple[str, ...]:
    """Return the data and deletion files a transaction adds, relative to the graph."""
    home = base.files_at
    data = [f"{home}/{layout.DATA_DIR}/{file.path}" for part in fresh for file in part.files]
    deletions = [
        f"{home}/{part.deletion_file.path(part.id)}"
        for part in updated
        if part.deletion_file is not None and part.deletion_file.read_version == base.version
    ]
    return tuple(data + deletions)
