"""Single changes put elsewhere: undone, repeated on another branch, or a branch set back.

Each is a three-way merge of states that somebody names, and one ordinary commit: history stays as
it was, and what both changed conflicts as in a merge.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from omnigraph.api.merges import Operation
from omnigraph.base.ids import CommitId
from omnigraph.engine.merge.base import Bases, MergeBaseExpiredError
from omnigraph.engine.merge.large import BY_ITSELF, Means, large_tables
from omnigraph.engine.merge.resolve import Resolutions
from omnigraph.engine.merge.run import (
    CatalogAt,
    Combined,
    again_if_moved,
    combine,
    commit_combined,
    pin,
)
from omnigraph.engine.merge.schemas import have_one_schema
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.storage.files.records import Commit
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables.failures import SnapshotExpiredError

States = Callable[[Snapshot], tuple[Snapshot, Snapshot]]


@dataclass(frozen=True, slots=True)
class Replay:
    """What is asked for."""

    operation: Operation
    commit_id: str
    branch: str
    parent: int | None = None
    """Which parent of a merge its change is measured against, from 1."""
    said: Resolutions = field(default_factory=Resolutions)
    actor: str | None = None
    message: str | None = None
    preview: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of it; without a commit there was nothing to do, or it was only tried."""

    operation: Operation
    of: CommitId
    branch: str
    found: Combined
    commit: Commit | None


def replay(
    store: GraphStore, catalog_at: CatalogAt, wanted: Replay, means: Means = BY_ITSELF
) -> Replayed:
    """Undo a commit, repeat it on a branch, or set a branch back to it, as one new commit.

    Raises:
        MergeConflictError: rows it is about were changed otherwise since; nothing was written.
        NotFoundError: no branch knows the commit.
        SnapshotExpiredError: the rows before or after it were cleaned up.
        SchemasDifferError: the schema was another one then.
    """
    commit = store.commit(wanted.commit_id)
    states: States
    if wanted.operation == "reset":
        then = store.snapshot_at(commit_id=commit.id, branch=wanted.branch)
        states = lambda ours: (ours, then)  # noqa: E731 - what the two others are, too
    else:
        before = store.snapshot_at(commit_id=_parent(commit, wanted))
        after = store.snapshot_at(commit_id=commit.id)
        pair = (after, before) if wanted.operation == "revert" else (before, after)
        states = lambda _: pair  # noqa: E731
    return again_if_moved(
        partial(_replay_once, store, catalog_at, wanted, commit.id, states, means)
    )


class SchemasDifferError(ConflictError):
    """The schema was another one before or after a commit, or is another one now."""


def _require_one_schema(*states: Snapshot) -> None:
    if not have_one_schema(*states):
        first, *others = states
        other = next(one for one in others if not have_one_schema(first, one))
        raise SchemasDifferError(
            f"'{first.branch}' at commit {first.commit_id} and '{other.branch}' at commit "
            f"{other.commit_id} have different schemas",
            hint="give the branch the schema of that time first, or merge instead",
        )


def _parent(commit: Commit, wanted: Replay) -> CommitId:
    """Return the commit that a change is measured against."""
    parents = commit.parents
    if not parents:
        raise BadRequestError(
            f"commit {commit.id} is the first one: there is nothing before it",
            hint="choose a later commit",
        )
    if len(parents) > 1 and wanted.parent is None:
        raise BadRequestError(
            f"commit {commit.id} is a merge of {parents[0]} (1) and {parents[1]} (2)",
            hint="say against which parent its change is meant: 1 is the branch it is on",
        )
    number: object = 1 if wanted.parent is None else wanted.parent
    if not isinstance(number, int) or not 1 <= number <= len(parents):
        raise BadRequestError(
            f"commit {commit.id} has no parent {number!r}: it has {len(parents)}",
            hint="1 is the branch it is on",
        )
    return parents[number - 1]


def _replay_once(
    store: GraphStore,
    catalog_at: CatalogAt,
    wanted: Replay,
    of: CommitId,
    states: States,
    means: Means,
) -> Replayed:
    session = None
    if not wanted.preview:
        begin = partial(store.begin, writer_kind="BranchMerge", message=wanted.message)
        session = begin(wanted.branch, wanted.actor)
    ours = store.snapshot(wanted.branch) if session is None else session.base
    base, theirs = states(ours)
    catalog = catalog_at(ours)
    _require_one_schema(ours, theirs, base)
    bases = Bases([base.commit_id], {}, lambda _: base)
    with ExitStack() as held:
        try:
            if session is not None:
                pin(held, bases, theirs, ours)
            how = held.enter_context(large_tables(store, session, means, wanted.said))
            found = combine(bases, theirs, ours, catalog, wanted.said, how)
        except MergeBaseExpiredError as error:  # here the base is a commit somebody named
            raise SnapshotExpiredError(
                f"the rows of commit {base.commit_id} were cleaned up",
                hint="choose a newer commit",
            ) from error
        done = partial(Replayed, wanted.operation, of, str(ours.branch), found)
        if session is None:
            return done(None)
        if found.conflicts.total:
            raise found.conflicts.error()
        if not found.counts:
            return done(None)
        told = {wanted.operation: of, "resolved": wanted.said.as_json()}
        alone = wanted.operation == "reset"  # what others wrote meanwhile has to go, too
        made = commit_combined(session, found, bases, theirs, catalog, told, alone=alone)
        return done(made.commit if made.outcome == "committed" else None)
