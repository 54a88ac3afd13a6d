"""Runs: hidden branches with a record of what they are for and what became of them.

The record is there before the branch and says what is meant to happen to it before it happens, so
whatever dies in between leaves a run that can be listed and ended. A branch outlives the end of its
run only by accident, and goes when the next run begins.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import replace

import orjson

from omnigraph.api.runs import Run, RunStatus
from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, CommitId
from omnigraph.errors import (
    BadRequestError,
    ConflictError,
    ErrorKind,
    FormatError,
    NotFoundError,
    StorageError,
)
from omnigraph.storage.branches.lifecycle import create_branch, live_branches, remove_branch
from omnigraph.storage.files import layout
from omnigraph.storage.files.sidecar import OutcomePendingError
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.snapshot import BranchNotFoundError, Heads

log = logging.getLogger(__name__)

AFTER_RECORD = register("run.after_record", "a run is recorded; it has no branch yet")
AFTER_END = register("run.after_end", "a run is recorded as ended; its branch is still there")
_RUN_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


_AGAIN = "publish the run again, which only records it; do not repeat what it wrote"


class RunNotFoundError(NotFoundError):
    """There is no run of that id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run '{run_id}' not found", hint="list the runs")


class RunUnrecordedError(OutcomePendingError):
    """What a run wrote is in its target, and its record does not say so yet."""

    def __init__(self, run_id: str, commit_id: str, cause: Exception) -> None:
        self.run_id, self.commit_id = run_id, CommitId(commit_id)
        StorageError.__init__(
            self,
            f"run '{run_id}' is merged by commit {commit_id}, but that is not recorded: {cause}",
            hint=_AGAIN,
        )


class RunEndedError(ConflictError):
    """A run is over already, and not in the way that was asked for."""


def begin_run(
    kernel: Kernel,
    heads: Heads,
    target: BranchName,
    operation_hash: str | None,
    actor: str | None,
) -> Run:
    """Begin a run from what a branch is now.

    Raises:
        BranchNotFoundError: there is no such branch.
    """
    _remove_leftovers(kernel, heads)
    head, now_us = heads.current(target), kernel.clock.now_us()
    run_id = kernel.ulids.next(now_us)
    branch = layout.run_branch(run_id)
    run = Run(
        run_id,
        str(target),
        str(branch),
        str(head.commit_id),
        head.manifest_version,
        operation_hash,
        actor,
        "running",
        None,
        now_us,
        now_us,
    )
    _keep(kernel, run)
    failpoint(AFTER_RECORD)
    made = create_branch(kernel, heads, branch, target)
    if made.commit_id != head.commit_id:
        run = replace(
            run,
            base_snapshot_id=str(made.commit_id),
            base_manifest_version=made.manifest_version,
        )
        _keep(kernel, run)
    return run


def find_run(kernel: Kernel, run_id: object) -> Run:
    """Return a run.

    Raises:
        RunNotFoundError: there is none of that id.
        FormatError: its record cannot be read.
    """
    if not isinstance(run_id, str):
        raise BadRequestError(f"the id of a run must be text, not {type(run_id).__name__}")
    name = layout.run_record(run_id)
    data = kernel.objects.find(name) if _RUN_ID.fullmatch(run_id) else None
    if data is None:
        raise RunNotFoundError(run_id)
    return _decode(name, data)


def list_runs(kernel: Kernel) -> list[Run]:
    """Return all runs, oldest first.

    Raises:
        FormatError: a record cannot be read.
    """
    objects = kernel.objects
    found = [(info.name, objects.find(info.name)) for info in objects.list(layout.RUNS_DIR)]
    runs = [_decode(name, data) for name, data in found if data is not None]
    return sorted(runs, key=lambda run: (run.created_at, run.run_id))


@contextlib.contextmanager
def ending(kernel: Kernel, run_id: str) -> Iterator[tuple[Run, HeldLock]]:
    """Yield a run that nobody else ends meanwhile."""
    find_run(kernel, run_id)  # a lock would leave a file for whatever name is asked for
    with kernel.locks.hold(f"run:{run_id}", f"end run {run_id}") as lock:
        yield find_run(kernel, run_id), lock


def end_run(
    kernel: Kernel,
    heads: Heads,
    run: Run,
    lock: HeldLock,
    status: RunStatus,
    published: str | None = None,
) -> Run:
    """Record what became of a run, and remove its branch; that it is gone is not what counts."""
    ended = replace(
        run, status=status, published_snapshot_id=published, updated_at=kernel.clock.now_us()
    )
    lock.check()
    _keep(kernel, ended)
    failpoint(AFTER_END)
    _remove(kernel, heads, ended)
    return ended


def is_merged(heads: Heads, run: Run) -> bool:
    """Whether the target has what a run wrote, although no record says so yet."""
    try:
        newest = heads.current(BranchName(run.run_branch)).commit_id
    except BranchNotFoundError:
        return False
    target = heads.current(BranchName(run.target_branch))
    return newest != run.base_snapshot_id and newest in heads.ancestries.of(target)


def abort_run(kernel: Kernel, heads: Heads, run_id: str) -> Run:
    """Give up what a run wrote; of one that was aborted before, return it as it is.

    Raises:
        RunNotFoundError: there is no such run.
        RunEndedError: it is published.
    """
    with ending(kernel, run_id) as (run, lock):
        if run.status == "published" or (run.status == "running" and is_merged(heads, run)):
            raise RunEndedError(
                f"run '{run_id}' is already published",
                hint="revert the commit that brought it" if run.status == "published" else _AGAIN,
            )
        if run.status == "aborted":
            return run
        return end_run(kernel, heads, run, lock, "aborted")


def _remove_leftovers(kernel: Kernel, heads: Heads) -> None:
    """Remove the branches of runs that ended while their branch could not be removed."""
    for branch in live_branches(kernel):
        if layout.is_run_branch(branch):
            with contextlib.suppress(RunNotFoundError):
                run = find_run(kernel, layout.run_of(branch))
                if run.status != "running":
                    _remove(kernel, heads, run)


def _remove(kernel: Kernel, heads: Heads, run: Run) -> None:
    try:
        remove_branch(kernel, heads, layout.run_branch(run.run_id))
    except BranchNotFoundError:
        pass  # it never came to be, or is gone already
    except (StorageError, ConflictError) as error:
        log.warning("the branch of run '%s' remains for now: %s", run.run_id, error)


def _keep(kernel: Kernel, run: Run) -> None:
    kernel.objects.put(layout.run_record(run.run_id), orjson.dumps(run.to_json_value()))


def _decode(name: str, data: bytes) -> Run:
    try:
        return Run.from_json_value(orjson.loads(data))
    except (orjson.JSONDecodeError, BadRequestError, FormatError, KeyError, TypeError) as error:
        failure = FormatError(f"run '{name}' cannot be read: {error}", hint="restore the object")
        failure.kind = ErrorKind.CORRUPT
        raise failure from error
