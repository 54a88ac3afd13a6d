"""Looking after the graph: runs, compaction, indexes, cleanup, checks, locks."""

from __future__ import annotations

import time
from typing import Any

from omnigraph.api.access import Action
from omnigraph.api.runs import Run, RunList
from omnigraph.api.upkeep import LockBroken, LockList, Repaired, Verified
from omnigraph.base.ids import BranchName
from omnigraph.server.bodies import (
    CleanupBody,
    RepairBody,
    RunEndBody,
    UpkeepBody,
)
from omnigraph.server.call import Call
from omnigraph.storage.upkeep.cleanup import CleanupPolicy


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


async def optimize(call: Call) -> dict[str, Any]:
    """Compact every table of a branch."""
    asked: UpkeepBody = call.body
    branch = call.canonical(asked.branch)
    call.allow(Action.ADMIN)
    graph = call.graph
    done = await call.job(lambda: graph.optimize(branch))
    return {"uri": call.served.uri, "tables": [one.to_json_value() for one in done]}


async def ensure_indices(call: Call) -> dict[str, Any]:
    """Build the indexes the schema asks for, and bring existing ones up to date."""
    asked: UpkeepBody = call.body
    branch = call.canonical(asked.branch)
    call.allow(Action.ADMIN)
    graph = call.graph
    done = await call.job(lambda: graph.ensure_indices(branch))
    return {"uri": call.served.uri, "indexes": [one.to_json_value() for one in done]}


async def cleanup(call: Call) -> dict[str, Any]:
    """Remove old versions; unless told otherwise, only say what would go."""
    asked: CleanupBody = call.body
    call.allow(Action.ADMIN)
    policy = CleanupPolicy(asked.keep_versions, asked.older_than_secs)
    dry_run, store = asked.dry_run is not False, call.served.graph.store
    done = await call.job(lambda: store.cleanup(policy, dry_run=dry_run))
    return {
        "uri": call.served.uri,
        "keep_versions": asked.keep_versions,
        "older_than_secs": asked.older_than_secs,
        "dry_run": dry_run,
        "tables": [one.to_json_value() for one in done],
    }


async def verify(call: Call) -> Verified:
    """Check the graph against its own rules."""
    call.allow(Action.ADMIN)
    graph = call.graph
    found = await call.execution.read(call.exchange, call.actor, lambda _: graph.verify())
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


async def disk_usage(call: Call) -> dict[str, Any]:
    """Return the bytes that every branch of every dataset takes."""
    call.allow(Action.ADMIN)
    graph = call.graph
    found = await call.look(graph.disk_usage)
    return {"uri": call.served.uri, "datasets": [one.to_json_value() for one in found]}


async def ready(call: Call) -> dict[str, Any]:
    """Say whether the graph can be read now."""
    graph, started = call.served.graph, time.monotonic()
    version = (await call.look(graph.snapshot)).manifest_version
    took = round((time.monotonic() - started) * 1_000, 1)
    return {"status": "ready", "manifest_version": version, "ms": took}
