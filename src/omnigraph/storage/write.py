"""Write sessions: collect what to change, then commit it all at once.

A session only remembers; nothing is written before `commit`. Knows rows and keys, not what
they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import BadRequestError, InternalError
from omnigraph.storage.create import TableSpec
from omnigraph.storage.load import LOAD_TTL_S, Load, start_load
from omnigraph.storage.plan import CommitWindow, Plan, PlannedWrite, Revalidate, Terms
from omnigraph.storage.records import Commit
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.foreign import Adopt, ForeignFragment
from omnigraph.storage.tables.stage import (
    Append,
    Change,
    Overwrite,
    TableWrite,
)
from omnigraph.storage.window import (
    ExpectedVersionMismatch,
    HeadMovedError,
    Outcome,
    check_head,
    commit_plan,
)

__all__ = [
    "CommitWindow",
    "ExpectedVersionMismatch",
    "HeadMovedError",
    "Outcome",
    "Revalidate",
    "WriteSession",
]


@dataclass(slots=True)
class WriteSession:
    """Changes that become one commit; use once, from one thread."""

    plan: Plan
    outcome: Outcome | None = None

    @property
    def base(self) -> Snapshot:
        """Return the snapshot the session started from."""
        return self.plan.base

    @property
    def branch(self) -> BranchName:
        """Return the branch being written."""
        return self.plan.branch

    def done_before(self, idempotency_key: str, request_hash: str) -> Commit | None:
        """Return the commit a request has already made under its key, if it is known by now.

        Asked before the work: the same rows could break a rule because they are there already.
        A write that is still to be healed is found by `commit`, under the lock.

        Raises:
            IdempotencyConflictError: the key came with a different request.
        """
        head = self.plan.heads.current(self.branch)
        return self.plan.recent.find(head, idempotency_key, request_hash)

    def require_head(self, commit_id: str) -> None:
        """Refuse early what `commit` would refuse: the branch is not where the caller saw it.

        Raises:
            HeadMovedError: it is at another commit.
        """
        check_head(self.plan.heads.current(self.branch), commit_id)

    def append(self, key: str, rows: pa.Table) -> None:
        """Add rows whose keys the caller knows to be new; survives concurrent writes."""
        self._plan(TableKey(key), Append(rows), strict=False)

    def upsert(self, key: str, rows: pa.Table, *, strict: bool = False) -> None:
        """Replace rows by key, insert the others; `strict` refuses a table that moved."""
        self._plan(TableKey(key), Change(upserts=rows), strict=strict)

    def delete(self, key: str, ids: Sequence[str] | pa.Array, *, strict: bool = True) -> None:
        """Delete rows by key; refuses a table that moved unless told otherwise."""
        listed = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())
        self._plan(TableKey(key), Change(deletes=listed), strict=strict)

    def overwrite(self, key: str, rows: pa.Table) -> None:
        """Replace all rows, and the columns if they differ; refuses a table that moved."""
        self._plan(TableKey(key), Overwrite(rows), strict=True)

    def load(self, keys: Iterable[str], *, ttl_s: float = LOAD_TTL_S) -> Load:
        """Register a long load into some tables; its tasks learn there where to write."""
        return start_load(self.plan, keys, ttl_s)

    def append_fragments(self, key: str, fragments: Iterable[ForeignFragment]) -> None:
        """Add rows that tasks have written; the caller knows their keys to be new.

        Beside a `delete` of the same session their keys may also be among the deleted ones;
        such rows get new row ids.
        """
        self._plan(TableKey(key), Adopt(tuple(fragments)), strict=False)

    def overwrite_fragments(self, key: str, fragments: Iterable[ForeignFragment]) -> None:
        """Replace all rows by ones that tasks have written; refuses a table that moved."""
        self._plan(TableKey(key), Adopt(tuple(fragments), replaces_all=True), strict=True)

    def create_table(self, spec: TableSpec, rows: pa.Table | None = None) -> None:
        """Add a table to the graph, with rows if given."""
        if spec.key in self.plan.base.tables and spec.key not in self.plan.dropped:
            raise BadRequestError(f"table '{spec.key}' exists")
        self.plan.created[spec.key] = spec
        if rows is not None:
            self._plan(spec.key, Append(rows), strict=False)

    def drop_table(self, key: str) -> None:
        """Take a table out of the graph; old snapshots still read it."""
        self.plan.dropped.append(self.plan.base.table(key).key)

    def rename_table(self, old: str, new: str) -> None:
        """Give a table another key; its rows and its dataset stay where they are."""
        source = self.plan.base.table(old).key
        if TableKey(new) in self.plan.base.tables or TableKey(new) in self.plan.created:
            raise BadRequestError(f"table '{new}' exists")
        self.plan.renamed[TableKey(new)] = source

    def replace_file(self, name: str, content: bytes) -> None:
        """Replace a contract file together with the commit."""
        if "/" in name or not name:
            raise BadRequestError(f"'{name}' is not the name of a contract file")
        self.plan.files[name] = content

    def commit(
        self,
        revalidate: Revalidate | None = None,
        *,
        if_head: str | None = None,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
        result: object = None,
        merged_parent: CommitId | None = None,
        merged_from: BranchName | None = None,
    ) -> Commit:
        """Make everything visible at once; `outcome` then says whether anything was written.

        Args:
            revalidate: called in the window if the graph moved since the snapshot; may raise.
            if_head: commit id the branch must (logically) still be at.
            idempotency_key: a second commit with this key returns the first one.
            request_hash: fingerprint of the request behind the key.
            result: JSON kept on the commit and returned with it on a replay.
            merged_parent: head of the branch that was merged in, for a merge commit.
            merged_from: that branch, whose commit rows are copied.

        Raises:
            ExpectedVersionMismatch: a strict write lost to another logical write.
            HeadMovedError: `if_head` does not hold.
            LockTimeoutError: another writer kept the branch busy.
            OutcomePendingError: the store failed in the middle; the write is yet to be settled.
        """
        if self.outcome is not None:
            raise InternalError("this write session is already finished")
        terms = Terms(
            revalidate, if_head, idempotency_key, request_hash, result, merged_parent, merged_from
        )
        commit, self.outcome = commit_plan(self.plan, terms)
        return commit

    def _plan(self, key: TableKey, write: TableWrite, *, strict: bool) -> None:
        if key not in self.plan.created:
            self.plan.base.table(key)
        known = self.plan.writes.get(key)
        if known is None:
            self.plan.writes[key] = PlannedWrite(write, strict)
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
            raise BadRequestError(f"an overwrite of '{key}' cannot be mixed with other writes")
