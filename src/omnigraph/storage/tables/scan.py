"""Reading rows of one dataset at one version.

A reader never moves to a newer version. Row ids are stable across updates and compaction;
row addresses are not, so they are only for work on the very version they came from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint, current
from omnigraph.base.uri import is_on_s3
from omnigraph.base.waiting import answered
from omnigraph.errors import BadRequestError
from omnigraph.storage.tables.failures import LostIndexError, SnapshotExpiredError, lance_errors
from omnigraph.storage.tables.handle import PRIMARY_KEY, RESERVE, Handle, operation_name
from omnigraph.storage.tables.lineage import HORIZON
from omnigraph.storage.tables.predicate import Predicate, is_in, to_sql

if TYPE_CHECKING:
    import lance
    from lance.query import FullTextQuery

log = logging.getLogger(__name__)

T = TypeVar("T")
FullText: TypeAlias = "str | dict[str, Any] | FullTextQuery"
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
# Beyond this many keys one pass over the key column beats an IN list, indexed or not.
IN_LIST_LIMIT = 2_000
_PLACES_KEPT = 2 * IN_LIST_LIMIT
COMPACTION = "Rewrite"
_ROW_OPERATIONS = ("Append", "Update", "Delete", COMPACTION, "CreateIndex", RESERVE)


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed between two versions of one lineage; deleted rows by stable row id."""

    inserted: pa.Table
    updated: pa.Table
    deleted_row_ids: pa.Array


@dataclass(frozen=True, slots=True)
class Reader:
    """The rows of one table at one version."""

    handle: Handle

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the table."""
        return self.handle.dataset.schema

    @property
    def version(self) -> int:
        """Return the version being read."""
        return self.handle.version

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        *,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        nearest: dict[str, Any] | None = None,
        full_text: FullText | None = None,
        prefilter: bool = True,
        fast_search: bool = False,
        blobs: bool = False,
    ) -> pa.Table:
        """Return rows as one Arrow table; `nearest` and `full_text` are Lance's own queries.

        A blob column holds descriptions of its values unless `blobs` asks for their bytes.
        """

        def read(use_indexes: bool | None) -> pa.Table:
            scanner = self.handle.dataset.scanner(
                columns=list(columns) if columns is not None else None,
                filter=None if where is None else to_sql(where),
                limit=limit,
                offset=offset,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                nearest=nearest,
                full_text_query=full_text,
                prefilter=prefilter if nearest is not None or full_text is not None else None,
                fast_search=fast_search or None,
                blob_handling="all_binary" if blobs else None,
                scan_in_order=True,
                use_scalar_index=use_indexes,
            )
            step = f"reading {self.handle}"
            return _whole(scanner, step, is_remote=is_on_s3(self.handle.dataset.uri))

        return self._even_without_indexes(read)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        *,
        batch_size: int | None = None,
        with_row_id: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows batch by batch, in storage order."""
        with lance_errors(f"reading {self.handle}"):
            scanner = self.handle.dataset.scanner(
                columns=list(columns) if columns is not None else None,
                filter=None if where is None else to_sql(where),
                batch_size=batch_size,
                with_row_id=with_row_id,
                scan_in_order=True,
            )
            for batch in scanner.to_batches():
                checkpoint(f"reading {self.handle}", batch.nbytes)
                yield batch

    def count(self, where: Predicate | None = None) -> int:
        """Return the number of rows; without a filter from metadata alone."""
        if where is None:
            return self.handle.row_count
        text = to_sql(where)
        return self._even_without_indexes(
            lambda use_indexes: self.handle.dataset.scanner(
                columns=[], filter=text, with_row_id=True, use_scalar_index=use_indexes
            ).count_rows()
        )

    def _even_without_indexes(self, read: Callable[[bool | None], T]) -> T:
        """Read as planned; if an index is gone, without any: they change cost, not answers."""
        try:
            with lance_errors(f"reading {self.handle}"):
                return read(None)
        except LostIndexError as error:
            log.warning("read without indexes, which takes longer: %s", error)
        with lance_errors(f"reading {self.handle}"):
            return read(False)

    def by_ids(
        self,
        ids: Sequence[str] | pa.Array,
        columns: Sequence[str] | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Return the rows whose key is in `ids`, in storage order."""
        key = key_column(self.schema)
        wanted = pa.array(ids, pa.string()) if not isinstance(ids, pa.Array) else ids
        if len(wanted) <= IN_LIST_LIMIT:
            return self.scan(
                columns,
                is_in(key, wanted.to_pylist()),
                with_row_id=with_row_id,
                with_row_address=with_row_address,
            )
        listed = list(columns) if columns is not None else self.schema.names
        extra = [] if key in listed else [key]
        rows = self.scan(listed + extra, with_row_id=with_row_id, with_row_address=with_row_address)
        rows = rows.filter(pc.is_in(rows[key], value_set=wanted))
        return rows.drop_columns(extra) if extra else rows

    def locate(self, ids: Sequence[str] | pa.Array) -> pa.Table:
        """Return key, row id and row address of the rows whose key is in `ids`.

        What was asked or scanned for a write lately is not asked again: one small write looks for
        the same rows to find, to check and to replace them, and each search costs a query plan.
        """
        key = key_column(self.schema)
        if len(ids) > IN_LIST_LIMIT:
            return self.by_ids(ids, [key], with_row_id=True, with_row_address=True)
        wanted = ids.to_pylist() if isinstance(ids, pa.Array) else list(ids)
        known = dict(self.handle.places)  # other threads empty it
        found = {one: known[one] for one in wanted if one in known}
        unknown = [one for one in wanted if one not in found]
        if unknown:
            rows = self.by_ids(unknown, [key], with_row_id=True, with_row_address=True)
            fresh: dict[str, tuple[int, int] | None] = dict.fromkeys(unknown)
            fresh |= _places_in(rows, key)
            found |= fresh
            self._keep(fresh)
        there = sorted((at[1], at[0], one) for one, at in found.items() if at is not None)
        return pa.table(
            {
                key: pa.array([one for _, _, one in there], self.schema.field(key).type),
                ROW_ID: pa.array([row_id for _, row_id, _ in there], pa.uint64()),
                ROW_ADDRESS: pa.array([address for address, _, _ in there], pa.uint64()),
            }
        )

    def scan_to_write(self, columns: Sequence[str] | None, where: Predicate | None) -> pa.Table:
        """Return rows that are about to be replaced or deleted, remembering where they are."""
        rows = self.scan(columns, where, with_row_id=True, with_row_address=True)
        if len(rows) <= IN_LIST_LIMIT:
            self._keep(_places_in(rows, key_column(self.schema)))
        return rows.drop_columns([ROW_ID, ROW_ADDRESS])

    def _keep(self, places: Mapping[str, tuple[int, int] | None]) -> None:
        kept = self.handle.places
        if len(kept) + len(places) > _PLACES_KEPT:
            kept.clear()
        kept.update(places)

    def delta(self, since: int) -> Delta:
        """Return what changed after version `since` of the same lineage, up to this version.

        Lance answers for the version of the handle it is asked on, so this handle is the end.
        It is wrong across restores, overwrites and far back: ask `has_rewrites_since` first.
        """
        if since > self.version:
            raise BadRequestError(f"version {since} is newer than {self.handle}")
        with lance_errors(f"comparing {self.handle} with version {since}"):
            change = self.handle.dataset.delta(begin_version=since, end_version=self.version)
            return Delta(
                change.get_inserted_rows().read_all(),
                change.get_updated_rows().read_all(),
                change.get_deleted_row_ids().read_all().column(0).combine_chunks(),
            )

    def has_rewrites_since(self, since: int) -> bool:
        """Whether something lies between after which `delta` cannot be trusted.

        That is a restore or overwrite, a compaction that has forgotten versions as old, or a
        version that cleanup removed: it may have been any of these.
        """
        own = self.handle.apart
        for version in range(since + 1, self.version + 1):
            try:
                with lance_errors(f"reading transactions of {self.handle}"):
                    name = operation_name(own.read_transaction(version))
            except SnapshotExpiredError:
                return True
            forgot = name == COMPACTION and version - HORIZON > since
            if forgot or name not in _ROW_OPERATIONS:
                return True
        return False


def _whole(scanner: lance.LanceScanner, step: str, *, is_remote: bool) -> pa.Table:
    """Return all rows; a call with a budget pays for them as they come, and can be stopped."""
    budget = current()
    if budget is None:
        return scanner.to_table()
    ask: Callable[[Callable[[], Any], str], Any] = answered if is_remote else _at_once
    batches = []
    reader = ask(scanner.to_reader, step)
    while (batch := ask(lambda: next(reader, None), step)) is not None:
        budget.keep(step, batch.nbytes)
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _at_once(ask: Callable[[], T], _: str) -> T:
    """Return an answer that is on this machine."""
    return ask()


def _places_in(rows: pa.Table, key: str) -> dict[str, tuple[int, int] | None]:
    places = zip(rows[ROW_ID].to_pylist(), rows[ROW_ADDRESS].to_pylist(), strict=True)
    return dict(zip(rows[key].to_pylist(), places, strict=True))


def key_column(schema: pa.Schema) -> str:
    """Return the name of the key column: the annotated primary key, or `id`."""
    for field in schema:
        if (field.metadata or {}).get(PRIMARY_KEY) in (b"true", b"1"):
            return str(field.name)
    if "id" in schema.names:
        return "id"
    raise BadRequestError("the table has no key column", hint="annotate one or name it 'id'")
