"""Write sessions: collect what to change, then commit it all at once.

A session only remembers; nothing is written before `commit`. Knows rows and keys, not what
they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.base.ids import BranchName, TableKey
from omnigraph.errors import BadRequestError, InternalError
from omnigraph.storage.commit.bulk_load import LOAD_TTL_S, BulkLoad, start_load
from omnigraph.storage.commit.window import (
    Committed,
    ExpectedVersionMismatch,
    HeadMovedError,
    Outcome,
    SchemaChangedError,
    check_head,
    commit_write_set,
    done_before,
)
from omnigraph.storage.commit.write_set import (
    UNCONDITIONAL,
    CommitOptions,
    CommitWindow,
    PlannedWrite,
    Preconditions,
    Revalidate,
    WriteSet,
)
from omnigraph.storage.files.records import Commit, TableSpec, TableVersion
from omnigraph.storage.manifest.merging import MergeSource
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.alter import Alter
from omnigraph.storage.tables.compute import Rewrite
from omnigraph.storage.tables.foreign import Adopt, ForeignFragment
from omnigraph.storage.tables.stage import (
    Append,
    Change,
    Overwrite,
    TableWrite,
)

__all__ = [
    "UNCONDITIONAL",
    "CommitWindow",
    "Committed",
    "ExpectedVersionMismatch",
    "HeadMovedError",
    "Outcome",
    "Preconditions",
    "Revalidate",
    "SchemaChangedError",
    "WriteSession",
]


@dataclass(slots=True)
class WriteSession:
    """Changes that become one commit; use once, from one thread."""

    write_set: WriteSet
    is_finished: bool = False

    @property
    def base(self) -> Snapshot:
        """Return the snapshot the session started from."""
        return self.write_set.base

    @property
    def branch(self) -> BranchName:
        """Return the branch being written."""
        return self.write_set.branch

    @property
    def max_rows_per_file(self) -> int:
        """Return how many rows a file of a table holds at most."""
        return self.write_set.kernel.options.max_rows_per_file

    def require(self, asked: Preconditions) -> Commit | None:
        """Return the commit a request has already made; refuse early what `commit` would refuse.

        Asked before the work: the same rows could break a rule because they are there already, and
        who saw another state is told so before any broken rule. A write that is still to be healed
        is found by `commit`, under the lock.

        Raises:
            IdempotencyConflictError: the key came with a different request.
            HeadMovedError: the branch is not where the caller saw it.
        """
        if asked == UNCONDITIONAL:
            return None
        head = self.write_set.heads.current(self.branch)
        done = done_before(self.write_set, asked, head)
        if done is None:
            check_head(head, asked)
        return done

    def append(self, key: str, rows: pa.Table) -> None:
        """Add rows whose keys the caller knows to be new; survives concurrent writes."""
        self._add(TableKey(key), Append(rows), strict=False)

    def upsert(self, key: str, rows: pa.Table, *, strict: bool = False) -> None:
        """Replace rows by key, insert the others; `strict` refuses a table that moved."""
        self._add(TableKey(key), Change(upserts=rows), strict=strict)

    def delete(self, key: str, ids: Sequence[str] | pa.Array, *, strict: bool = True) -> None:
        """Delete rows by key; refuses a table that moved unless told otherwise."""
        listed = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())
        self._add(TableKey(key), Change(deletes=listed), strict=strict)

    def overwrite(self, key: str, rows: pa.Table) -> None:
        """Replace all rows, and the columns if they differ; refuses a table that moved."""
        self._add(TableKey(key), Overwrite(rows), strict=True)

    def load(self, keys: Iterable[str], *, ttl_s: float = LOAD_TTL_S) -> BulkLoad:
        """Register a long load into some tables; its tasks learn there where to write."""
        return start_load(self.write_set, keys, ttl_s)

    def append_fragments(self, key: str, fragments: Iterable[ForeignFragment]) -> None:
        """Add rows that tasks have written; the caller knows their keys to be new.

        Beside a `delete` of the same session their keys may also be among the deleted ones;
        such rows get new row ids.
        """
        self._add(TableKey(key), Adopt(tuple(fragments)), strict=False)

    def overwrite_fragments(self, key: str, fragments: Iterable[ForeignFragment]) -> None:
        """Replace all rows by ones that tasks have written; refuses a table that moved."""
        self._add(TableKey(key), Adopt(tuple(fragments), replaces_all=True), strict=True)

    def alter(self, key: str, change: Alter | Rewrite) -> None:
        """Change the columns of a table, whatever rows it has by then; fill those that say how."""
        self._add(TableKey(key), change, strict=False)

    def create_table(self, spec: TableSpec, rows: pa.Table | None = None) -> None:
        """Add a table to the graph, with rows if given."""
        self._require_free(spec.key)
        self.write_set.created[spec.key] = spec
        if rows is not None:
            self._add(spec.key, Append(rows), strict=False)

    def drop_table(self, key: str) -> None:
        """Take a table out of the graph; old snapshots still read it."""
        self.write_set.dropped.append(self.write_set.base.table(key).key)

    def rename_table(self, old: str, new: str) -> None:
        """Give a table another key; its rows and its dataset stay where they are."""
        source = self.write_set.base.table(old).key
        self._require_free(TableKey(new))
        self.write_set.renamed[TableKey(new)] = source

    def point(self, key: str, table: TableVersion) -> None:
        """Read a table from where the main lineage has it; refuses a table that moved.

        Only main's versions: a branch may be deleted, and what others read goes with it.
        """
        if table.branch is not None:
            raise InternalError(f"{table.key} lies on a branch, where nobody may rest on it")
        self.write_set.points[self.write_set.base.table(key).key] = table

    def replace_file(self, name: str, content: bytes) -> None:
        """Replace a contract file together with the commit."""
        if "/" in name or not name:
            raise BadRequestError(f"'{name}' is not the name of a contract file")
        self.write_set.files[name] = content

    def commit(
        self,
        revalidate: Revalidate | None = None,
        preconditions: Preconditions = UNCONDITIONAL,
        *,
        result: object = None,
        merged: MergeSource | None = None,
    ) -> Committed:
        """Make everything visible at once; return whether anything was written, and what is there.

        Args:
            revalidate: called in the window if the graph moved since the snapshot; may raise.
            preconditions: on what terms the caller wants it.
            result: JSON kept on the commit and returned with it on a replay.
            merged: for a merge commit, what is merged in; the commits it brings are copied.

        Raises:
            ExpectedVersionMismatch: a strict write lost to another logical write.
            HeadMovedError: `if_head` does not hold.
            LockTimeoutError: another writer kept the branch busy.
            OutcomePendingError: the store failed in the middle; the write is yet to be settled.
        """
        if self.is_finished:
            raise InternalError("this write session is already finished")
        options = CommitOptions(preconditions, revalidate, result, merged)
        made = commit_write_set(self.write_set, options)
        self.is_finished = True
        return made

    def _require_free(self, key: TableKey) -> None:
        """Refuse a key that a table of the graph has and keeps, or that a new one has."""
        planned = self.write_set
        leaves = key in planned.dropped or key in planned.renamed.values()
        if (key in planned.base.tables and not leaves) or key in (
            *planned.created,
            *planned.renamed,
        ):
            raise BadRequestError(f"table '{key}' exists")

    def _add(self, key: TableKey, write: TableWrite, *, strict: bool) -> None:
        if key not in self.write_set.created and key not in self.write_set.renamed:
            self.write_set.base.table(key)
        known = self.write_set.writes.get(key)
        if known is None:
            self.write_set.writes[key] = PlannedWrite(write, strict)
        else:
            known.write = _combine(key, known.write, write)
            known.strict = known.strict or strict


def _combine(key: TableKey, first: TableWrite, then: TableWrite) -> TableWrite:
    """Fold two writes of one session to one table into one transaction."""
    match first, then:
        case Append(a), Append(b):
            return Append(pa.concat_tables([a, b]))
        case Adopt(a, replaces_all=all_of_it), Adopt(b, replaces_all=also) if all_of_it == also:
            return Adopt((*a, *b), all_of_it)
        case _:
            one, other = _as_change(key, first), _as_change(key, then)
    upserts = [part for part in (one.upserts, other.upserts) if part is not None]
    deletes = [part for part in (one.deletes, other.deletes) if part is not None]
    return Change(
        pa.concat_tables(upserts) if upserts else None,
        pa.concat_arrays(deletes) if deletes else None,
        (*one.adopted, *other.adopted),
    )


def _as_change(key: TableKey, write: TableWrite) -> Change:
    match write:
        case Append(rows):
            return Change(upserts=rows)
        case Change():
            return write
        case Adopt(fragments, replaces_all=False):
            return Change(adopted=fragments)
        case _:
            what = (
                "a change of the columns" if isinstance(write, Alter | Rewrite) else "an overwrite"
            )
            raise BadRequestError(f"{what} of '{key}' cannot be mixed with other writes")
