"""A change set becomes one commit, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.compiler.catalog.model import ID, Catalog
from omnigraph.engine.search.spaces import (
    Filled,
    MixedVectorsError,
    check_filled,
    may_be_mixed,
    record_of,
)
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.validate import validate
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import ConflictError
from omnigraph.storage.commit.session import Committed, CommitWindow, Preconditions, WriteSession
from omnigraph.storage.tables.predicate import IsNull, Not


class OvertakenError(ConflictError):
    """Others wrote what this write cannot stand beside; on the branch as it is now it may be fine.

    `violations` says which rules both together would break.
    """

    def __init__(self, window: CommitWindow, broken: ConstraintError) -> None:
        self.violations = broken.violations
        moved, head = ", ".join(window.moved), window.head
        super().__init__(
            f"{broken.message}: others changed {moved} meanwhile, up to commit {head.commit_id}",
            hint="try again",
        )


def commit_changes(
    session: WriteSession,
    changes: ChangeSet,
    catalog: Catalog,
    preconditions: Preconditions,
    result: object,
    *,
    filled: Sequence[Filled] = (),
    is_checked: bool = False,
) -> Committed:
    """Validate against the session's snapshot, stage, and publish.

    Under the lock, when the graph moved since the snapshot, the changes are validated again
    against what it moved to. A rule that is broken only there is nobody's fault: on what the graph
    is now the same request may mean something else.
    `filled` are columns whose vectors were made from text; their model is recorded with the
    commit. `is_checked` says that the caller has validated against the session's snapshot already.

    Raises:
        ConstraintError: a rule of the schema is broken.
        OvertakenError: one is broken by what others wrote meanwhile.
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
        try:
            validate(changes, window.head, catalog)
        except ConstraintError as error:
            raise OvertakenError(window, error) from error

    return session.commit(revalidate, preconditions, result=result)


def check_changes(
    session: WriteSession, changes: ChangeSet, catalog: Catalog, filled: Sequence[Filled]
) -> None:
    """Return only if the changes could be committed to what the session's snapshot is.

    Raises:
        ConstraintError: a rule of the schema is broken.
        SpaceMismatchError: another model made the vectors of a column.
    """
    validate(changes, session.base, catalog)
    record_fills(session, filled)


def record_fills(session: WriteSession, filled: Sequence[Filled]) -> None:
    """Let the commit say which model made the vectors of a column.

    Raises:
        SpaceMismatchError: vectors of another model are there.
        MixedVectorsError: vectors that nobody knows the model of are there.
    """
    for one in filled:
        check_filled(session.base, one)
        _check_not_mixed(session, one)
        record = record_of(session.base, one)
        if record is not None:
            session.replace_file(*record)


def _check_not_mixed(session: WriteSession, filled: Filled) -> None:
    """Refuse to fill beside vectors of unknown origin, in the table or in this very write."""
    if filled.node.embeds[filled.prop].model is not None:
        return
    unknown = may_be_mixed(session.base, filled)
    if filled.beside_given and (unknown or filled.replaces):
        raise MixedVectorsError(filled)
    if unknown and session.base.table(filled.node.table_key).row_count:
        reader = session.base.open(filled.node.table_key)
        if any(len(batch) for batch in reader.batches([ID], Not(IsNull(filled.prop)))):
            raise MixedVectorsError(filled)


def _whole_table(change: TableChange, schema: pa.Schema) -> pa.Table:
    """Return the rows under the stored schema, whose column notes an overwrite must keep."""
    rows = schema.empty_table() if change.upserts is None else change.upserts
    return rows.select(schema.names).cast(schema)
