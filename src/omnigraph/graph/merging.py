"""What puts one line's changes on another: merges, single commits undone or repeated, tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace

from omnigraph.api.merges import ChangeApplied, MergeResult, TableMerged, Tag
from omnigraph.base.runner import Runner
from omnigraph.engine.merge.conflicts import MAX_TOLD, Conflicts
from omnigraph.engine.merge.large import Means
from omnigraph.engine.merge.replay import Replay, replay
from omnigraph.engine.merge.run import Merge, Request, merge
from omnigraph.errors import OmniGraphError
from omnigraph.graph.requests import check_labels, who_writes
from omnigraph.graph.state import GraphState
from omnigraph.graph.turns import TURNS
from omnigraph.storage.branches import tags as stored


def merge_branch(
    state: GraphState, request: Request, *, delete_source: bool, spark: object = None
) -> MergeResult:
    """Merge a branch into another and return what became of it; see `Branches.merge`."""
    check_labels(branch=request.source)
    check_labels(branch=request.target, actor=request.actor, message=request.message)
    with TURNS.writing(), state.job_budget(None), _means(state, spark) as means:
        done = merge(state.store, state.catalog, request, means)
    result = _merge_result(done, request)
    if not delete_source or request.preview:
        return result
    try:
        state.store.branches.delete(request.source)
        state.let_go(request.source)
    except OmniGraphError as error:  # the merge stands, whatever becomes of the branch
        return replace(result, branch_deleted=False, branch_delete_error=str(error))
    return replace(result, branch_deleted=True)


@contextmanager
def _means(state: GraphState, spark: object = None) -> Iterator[Means]:
    """Return who goes through large tables: this process, unless a Spark is given for such work."""
    options = state.options.pipeline
    given = options.spark if spark is None else spark
    if given is None and options.engine != "spark":
        yield Means(staging=options.staging)
        return
    # Only now: most merges never need it.
    from omnigraph.pipeline.run.engines import Engines, on_spark, require_shared_folder

    def runner(_: int) -> Runner:
        chosen = engines.choose(0).runner
        require_shared_folder(chosen, state.store.kernel.root, options.staging)
        return chosen

    with closing(Engines(on_spark(), given, options.own_spark())) as engines:
        yield Means(runner, options.staging)


def _merge_result(done: Merge, request: Request) -> MergeResult:
    found = done.conflicts or Conflicts({})
    return MergeResult(
        done.source,
        done.target,
        done.outcome,
        request.actor,
        None if done.commit is None else done.commit.id,
        _tables(done.counts),
        tuple(map(str, done.bases)),
        request.preview,
        tuple(found.first(MAX_TOLD)),
        found.total,
    )


def _tables(counts: Mapping[str, Mapping[str, int]]) -> tuple[TableMerged, ...]:
    return tuple(TableMerged(key, **counts[key]) for key in sorted(counts))


def apply_change(state: GraphState, wanted: Replay) -> ChangeApplied:
    """Undo a commit, repeat it, or set a branch back to it, as one new commit."""
    check_labels(branch=wanted.branch, actor=wanted.actor, message=wanted.message)
    with TURNS.writing(), state.job_budget(None), _means(state) as means:
        done = replay(state.store, state.catalog, wanted, means)
    return ChangeApplied(
        wanted.operation,
        str(done.of),
        done.branch,
        wanted.actor,
        None if done.commit is None else done.commit.id,
        _tables(done.found.counts),
        wanted.preview,
        tuple(done.found.conflicts.first(MAX_TOLD)),
        done.found.conflicts.total,
    )


class Tags:
    """Commits by names for people; usable wherever a commit id is, and kept from cleanup."""

    def __init__(self, state: GraphState, actor: str | None = None) -> None:
        self._state = state
        self._actor = actor

    def __repr__(self) -> str:
        return f"Tags({self._state.described()})"

    def list(self) -> list[Tag]:
        """Return all tags by their names."""
        return [_told(tag) for tag in self._state.store.tags()]

    def create(
        self,
        name: str,
        *,
        at: str | int | None = None,
        branch: str = "main",
        actor: str | None = None,
        message: str | None = None,
    ) -> Tag:
        """Name a commit: the newest of a branch, or one of the past.

        Args:
            name: what it is to be called; not the name of a branch, nor like a commit id.
            at: a commit id, or a version of the branch.
            branch: whose newest commit is meant.
            actor: who does it.
            message: why.

        Raises:
            AlreadyExistsError: there is a tag or a branch of that name.
            NotFoundError: there is no such commit.
            SnapshotExpiredError: its rows were cleaned up.
        """
        by = who_writes(self._actor, actor)
        check_labels(branch=branch, actor=by, message=message)
        snapshot = self._state.snapshot(branch, at)
        return _told(self._state.store.tag(name, snapshot, by, message))

    def delete(self, name: str) -> None:
        """Let go of a tag; what it alone kept goes with the next cleanup.

        Raises:
            NotFoundError: there is no such tag.
        """
        self._state.store.delete_tag(name)


def _told(tag: stored.Tag) -> Tag:
    return Tag(
        tag.name, str(tag.commit_id), str(tag.branch), tag.created_at_us, tag.actor, tag.message
    )
