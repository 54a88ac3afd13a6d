"""A change set becomes one commit, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.search.spaces import Filled, check_filled, record_of
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.validate import validate
from omnigraph.storage.records import Commit
from omnigraph.storage.write import CommitWindow, Outcome, WriteSession


@dataclass(frozen=True, slots=True)
class Terms:
    """What a caller demands of a commit and attaches to it."""

    if_head: str | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None


def commit_changes(
    session: WriteSession,
    changes: ChangeSet,
    catalog: Catalog,
    terms: Terms,
    result: object,
    *,
    filled: Sequence[Filled] = (),
    is_checked: bool = False,
) -> tuple[Commit, Outcome]:
    """Validate against the session's snapshot, stage, and publish.

    Under the lock, when the graph moved since the snapshot, the changes are validated again
    against what it moved to; a broken rule then stops the commit like it would have before.
    `filled` are columns whose vectors were made from text; their model is recorded with the
    commit. `is_checked` says that the caller has validated against the session's snapshot already.

    Raises:
        ConstraintError: a rule of the schema is broken.
        SpaceMismatchError: another model made the vectors of a column.
        ExpectedVersionMismatch: a table with updates or deletes was changed by someone else.
    """
    if not is_checked:
        validate(changes, session.base, catalog)
    record_fills(session, filled)
    for key, change in changes.tables.items():
        if change.is_empty:
            continue
        if change.replaces:
            session.overwrite(key, _whole_table(change, session.base.open(key).schema))
            continue
        if change.upserts is not None and len(change.upserts):
            if change.inserts_new or change.must_be_new:
                session.append(key, change.upserts)
            else:
                session.upsert(key, change.upserts, strict=change.updates)
        if change.deletes is not None and len(change.deletes):
            session.delete(key, change.deletes)

    def revalidate(window: CommitWindow) -> None:
        for one in filled:
            check_filled(window.head, one)
        validate(changes, window.head, catalog)

    commit = session.commit(
        revalidate,
        if_head=terms.if_head,
        idempotency_key=terms.idempotency_key,
        request_hash=terms.request_hash,
        result=result,
    )
    assert session.outcome is not None
    return commit, session.outcome


def record_fills(session: WriteSession, filled: Sequence[Filled]) -> None:
    """Let the commit say which model made the vectors of a column.

    Raises:
        SpaceMismatchError: vectors of another model are there.
    """
    for one in filled:
        check_filled(session.base, one)
        record = record_of(session.base, one)
        if record is not None:
            session.replace_file(*record)


def _whole_table(change: TableChange, schema: pa.Schema) -> pa.Table:
    """Return the rows under the stored schema, whose column notes an overwrite must keep."""
    rows = schema.empty_table() if change.upserts is None else change.upserts
    return rows.select(schema.names).cast(schema)
