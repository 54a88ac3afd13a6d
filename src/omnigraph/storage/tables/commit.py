"""Moving one dataset by exactly one version.

Never `commit_lock`: it replaces the create-only write by a check and loses acknowledged
commits. A plain commit may silently land on a moved dataset, and an overwrite below the newest
version, so the result is checked; and an error may hide a success, so the history is asked
before anything is decided.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction

from omnigraph.storage.tables.failures import (
    LANCE_ERRORS,
    CommitRaceError,
    SnapshotExpiredError,
    lance_errors,
)
from omnigraph.storage.tables.handle import UNKNOWN_OPERATION, Handle, Tables, operation_name
from omnigraph.storage.tables.stage import Staged


def commit_staged(tables: Tables, staged: Staged, *, remember: bool = True) -> Handle:
    """Commit on top of the version it was staged on; return the handle one version later.

    Raises:
        CommitRaceError: the dataset had moved; whatever was committed must not be published.
    """
    base = staged.base
    pin = base.version
    try:
        dataset = LanceDataset.commit(base.dataset, staged.transaction, max_retries=0)
    except LANCE_ERRORS:
        landed = find_transaction(tables, base, pin + 1, staged.uuid)
        if landed is None:
            with lance_errors(f"committing to {base}"):
                raise
        handle = landed  # the store did it; only its answer got lost
    else:
        handle = Handle(base.location, base.branch, int(dataset.version), dataset)
    if handle.version != pin + 1 or (
        staged.replaces_all and tables.next_exists(base.location, base.branch, handle.version)
    ):
        raise CommitRaceError(
            f"{base.location} moved while it was being committed: "
            f"landed at {handle.version}, expected {pin + 1}",
            hint="run the write again",
        )
    base.places.clear()  # nobody writes on top of that version any more
    return tables.remember(handle) if remember else handle


def find_transaction(tables: Tables, base: Handle, version: int, uuid: str) -> Handle | None:
    """Return the handle at `version` if exactly that transaction made it."""
    try:
        handle = tables.reopen(base.location, base.branch, version)
    except SnapshotExpiredError:
        return None
    return handle if transaction_uuid(handle) == uuid else None


def transaction_uuid(handle: Handle) -> str | None:
    """Return the uuid of the transaction that made a version, if it is still recorded."""
    with lance_errors(f"reading the transaction of {handle}"):
        transaction = handle.apart.read_transaction(handle.version)
    return None if transaction is None else str(transaction.uuid)


def transaction_facts(handle: Handle) -> tuple[str, dict[str, str]]:
    """Return the kind of operation and the properties of the transaction of a version."""
    with lance_errors(f"reading the transaction of {handle}"):
        transaction = handle.apart.read_transaction(handle.version)
    if transaction is None:
        return UNKNOWN_OPERATION, {}
    return operation_name(transaction), dict(transaction.transaction_properties or {})


def restore(
    tables: Tables, location: str, branch: str | None, version: int, mark: Mapping[str, str]
) -> Handle:
    """Make the rows of `version` the newest version again, signed like every commit of ours.

    This also fences: appends and updates staged before it are refused afterwards.
    """
    old = tables.reopen(location, branch, version)
    transaction = Transaction(old.version, LanceOperation.Restore(version))
    transaction.transaction_properties = dict(mark)
    with lance_errors(f"restoring {old}"):
        dataset = LanceDataset.commit(old.dataset, transaction)
    return Handle(location, branch, int(dataset.version), dataset)
