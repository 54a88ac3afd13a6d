"""Looking after the graph: runs, compaction, indexes, cleanup, checks, locks."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from omnigraph.api.access import Action
from omnigraph.api.runs import Run, RunList
from omnigraph.api.upkeep import (
    Cleaned,
    DiskUsage,
    IndexList,
    LockBroken,
    LockList,
    Optimized,
    Repaired,
    Verified,
)
from omnigraph.base.ids import BranchName
from omnigraph.server.bodies import (
    CleanupBody,
    OptimizeBody,
    RepairBody,
    RunEndBody,
    UpkeepBody,
)
from omnigraph.server.call import Call


async def list_runs(call: Call) -> RunList:
    """Return all runs, oldest first."""
    call.allow(Action.READ)
    return RunList(tuple(await call.look(call.graph.runs.list)))


async def get_run(call: Call) -> Run:
    """Return one run."""
    call.allow(Action.READ)
    return await _run(call)


async def publish_run(call: Call) -> Run:
    """Merge what a run wrote into its target."""
    asked: RunEndBody = call.body
    run = await _run(call)
    call.allow(Action.RUN_PUBLISH, target=BranchName(run.target_branch))
    call.branch = BranchName(run.target_branch)
    runs = call.graph.runs
    return await call.write(lambda: runs.publish(run.run_id, message=asked.message))


async def abort_run(call: Call) -> Run:
    """Give up what a run wrote."""
    run = await _run(call)
    call.allow(Action.RUN_ABORT, target=BranchName(run.target_branch))
    call.branch = BranchName(run.target_branch)
    runs = call.graph.runs
    return await call.write(lambda: runs.abort(run.run_id))


async def _run(call: Call) -> Run:
    wanted, runs = call.words["run_id"], call.graph.runs
    return await call.look(lambda: runs.get(wanted))


async def optimize(call: Call) -> Optimized:
    """Compact tables of a branch."""
    asked: OptimizeBody = call.body
    branch = call.canonical(asked.branch)
    call.allow(Action.ADMIN)
    graph, preview = call.graph, bool(asked.preview)
    done = await call.job(
        lambda: graph.optimize(
            branch, tables=asked.tables or (), preview=preview, max_seconds=asked.max_seconds
        )
    )
    return Optimized(call.served.uri, tuple(done), preview)


async def list_indices(call: Call) -> IndexList:
    """Return every index the schema of a branch asks for, and how far it covers the rows."""
    branch = call.canonical(call.one("branch"))
    call.allow(Action.ADMIN)
    graph = call.graph
    return IndexList(call.served.uri, tuple(await call.look(lambda: graph.indices(branch))))


async def ensure_indices(call: Call) -> IndexList:
    """Build the indexes the schema asks for, and bring existing ones up to date."""
    asked: UpkeepBody = call.body
    branch = call.canonical(asked.branch)
    call.allow(Action.ADMIN)
    graph = call.graph
    done = await call.job(lambda: graph.ensure_indices(branch))
    return IndexList(call.served.uri, tuple(done))


async def cleanup(call: Call) -> Cleaned:
    """Remove old versions; unless told otherwise, only say what would go."""
    asked: CleanupBody = call.body
    call.allow(Action.ADMIN)
    keep, age = asked.keep_versions, asked.older_than_secs
    graph, dry_run = call.graph, asked.dry_run is not False
    done = await call.job(lambda: graph.cleanup(keep=keep, older_than=age, preview=dry_run))
    return Cleaned(call.served.uri, keep, age, tuple(done), dry_run)


async def verify(call: Call) -> Verified:
    """Check the graph against its own rules; with `deep` also the bytes of every file."""
    deep = call.flag("deep")
    call.allow(Action.ADMIN)
    graph = call.graph
    check = partial(graph.verify, deep=deep)
    found = await call.execution.read(call.exchange, call.actor, lambda _: check())
    return Verified(call.served.uri, tuple(found))


async def repair(call: Call) -> Repaired:
    """Show what other tools did to the files of the graph; settle it if told to."""
    asked: RepairBody = call.body
    branch = None if asked.branch is None else call.canonical(asked.branch)
    call.allow(Action.ADMIN)
    graph, confirm, force = call.graph, bool(asked.confirm), bool(asked.force)
    done = await call.job(lambda: graph.repair(branch, confirm=confirm, force=force))
    return Repaired(call.served.uri, tuple(done))


async def list_locks(call: Call) -> LockList:
    """Return every lock that is held."""
    call.allow(Action.ADMIN)
    return LockList(tuple(await call.look(call.graph.locks)))


async def break_lock(call: Call) -> LockBroken:
    """Take a lock away from a writer that is gone."""
    name = call.words["name"]
    call.allow(Action.ADMIN)
    graph = call.graph
    return LockBroken(name, await call.look(lambda: graph.break_lock(name)))


async def disk_usage(call: Call) -> DiskUsage:
    """Return the bytes that every branch of every dataset takes."""
    call.allow(Action.ADMIN)
    graph = call.graph
    return DiskUsage(call.served.uri, tuple(await call.look(graph.disk_usage)))


async def ready(call: Call) -> dict[str, Any]:
    """Say whether the graph can be read now."""
    graph, started = call.served.graph, time.monotonic()
    version = (await call.look(graph.snapshot)).manifest_version
    took = round((time.monotonic() - started) * 1_000, 1)
    return {"status": "ready", "manifest_version": version, "ms": took}
