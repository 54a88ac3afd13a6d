"""Runs: writes on a hidden branch, merged into their target together when the work is done."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from omnigraph.api.runs import Run
from omnigraph.engine.merge.run import Request
from omnigraph.errors import ConflictError, OmniGraphError, StorageError
from omnigraph.graph.branch import GraphBranch
from omnigraph.graph.merging import merge_branch
from omnigraph.graph.requests import check_labels, who_writes
from omnigraph.graph.state import GraphState
from omnigraph.storage.branches.runs import RunEndedError, RunUnrecordedError
from omnigraph.storage.files import layout
from omnigraph.storage.manifest.snapshot import BranchNotFoundError


class GraphRun(GraphBranch):
    """A run that was begun: a branch to read and write, which nobody else sees.

    As a context it is published at the end of the block, and aborted if the block raises.
    """

    __slots__ = ("record",)

    def __init__(self, state: GraphState, record: Run) -> None:
        super().__init__(state, layout.run_branch(record.run_id), record.actor_id)
        self.record = record

    @property
    def run_id(self) -> str:
        """What it is called, here and elsewhere."""
        return self.record.run_id

    def publish(self, *, message: str | None = None) -> Run:
        """Merge what was written into the target; see `Runs.publish`."""
        self.record = publish(self._state, self.run_id, self.actor, message)
        return self.record

    def abort(self) -> Run:
        """Give up what was written."""
        self.record = self._state.store.abort_run(self.run_id)
        return self.record

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.record.status != "running":
            return  # the block ended it
        if error is None:
            self.publish()
            return
        try:
            self.abort()
        except OmniGraphError as failure:  # what went wrong first is what counts
            error.add_note(f"run '{self.run_id}' could not be aborted: {failure}")


class Runs:
    """The runs of a graph, those of other processes and of the past included."""

    def __init__(self, state: GraphState, actor: str | None = None) -> None:
        self._state = state
        self._actor = actor

    def __repr__(self) -> str:
        return f"Runs({self._state.described()})"

    def begin(
        self, target: str, *, operation_hash: str | None = None, actor: str | None = None
    ) -> GraphRun:
        """Begin a run from what a branch is now; see `Graph.run`."""
        by = who_writes(self._actor, actor)
        check_labels(branch=target, actor=by, operation_hash=operation_hash)
        return GraphRun(self._state, self._state.store.begin_run(target, operation_hash, by))

    def list(self) -> list[Run]:
        """Return all runs, oldest first."""
        return self._state.store.runs()

    def get(self, run_id: str) -> Run:
        """Return one run.

        Raises:
            NotFoundError: there is no such run.
        """
        return self._state.store.run(run_id)

    def publish(self, run_id: str, *, actor: str | None = None, message: str | None = None) -> Run:
        """Merge what a run wrote into its target; one that is published is returned as it is.

        Raises:
            MergeConflictError: the target changed the same rows since; the run goes on as it was.
            ConflictError: the run is aborted or failed.
            NotFoundError: there is no such run.
        """
        return publish(self._state, run_id, who_writes(self._actor, actor), message)

    def abort(self, run_id: str) -> Run:
        """Give up what a run wrote; one that is aborted is returned as it is.

        Raises:
            ConflictError: the run is published.
            NotFoundError: there is no such run.
        """
        return self._state.store.abort_run(run_id)


def publish(state: GraphState, run_id: str, actor: str | None, message: str | None) -> Run:
    """Merge the branch of a run into its target and record it; see `Runs.publish`.

    Whoever dies between the two publishes again: what is merged already is not merged twice.

    Raises:
        RunUnrecordedError: it is merged, and only has to be recorded.
    """
    store = state.store
    with store.ending_run(run_id) as (run, lock):
        if run.status == "published":
            return run
        if run.status != "running":
            raise RunEndedError(f"run '{run_id}' is not publishable from status '{run.status}'")
        by = run.actor_id if actor is None else actor
        branch = layout.run_branch(run_id)
        request = Request(branch, run.target_branch, actor=by, message=message)
        try:
            made = merge_branch(state, request, delete_source=False).commit_id
        except BranchNotFoundError as error:
            if error.branch == branch:  # whoever began it died before it had one
                store.end_run(run, lock, "failed")
            raise
        merged = made or store.merged_by(branch, run)
        try:
            return store.end_run(run, lock, "published", merged)
        except (ConflictError, StorageError) as error:  # the merge counts, whatever comes of this
            raise RunUnrecordedError(run_id, merged, error) from error
