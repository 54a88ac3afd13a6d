"""Branches and tags: made, merged, set back, deleted; single commits undone or repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from omnigraph.api.access import Action
from omnigraph.api.history import BranchCreated, BranchDeleted, BranchList
from omnigraph.api.merges import STRATEGIES, ChangeApplied, MergeResult, Strategy, Tag, TagList
from omnigraph.base.ids import BranchName
from omnigraph.errors import OmniGraphError
from omnigraph.server.bodies import (
    BranchCreateBody,
    BranchMergeBody,
    BranchResetBody,
    ReplayBody,
    TagCreateBody,
)
from omnigraph.server.call import Call
from omnigraph.server.handlers.reads import state_of
from omnigraph.server.problems import bad_request


async def list_branches(call: Call) -> BranchList:
    """Return the names of all branches, sorted."""
    call.allow(Action.READ)
    return BranchList(tuple(sorted(await call.look(call.graph.branches.list))))


async def create(call: Call) -> BranchCreated:
    """Make a branch from what another one is, or was at a commit."""
    asked: BranchCreateBody = call.body
    source = call.canonical(asked.from_)
    name = call.canonical(asked.name)
    call.allow(Action.BRANCH_CREATE, branch=source, target=name)
    call.allow_source(source, name)
    graph = call.graph
    if asked.at is not None and call.served.rules.policy is not None:
        await state_of(call, None, asked.at)
        call.allow_source(call.branch or source, name)
    made = await call.write(lambda: graph.branches.create(name, source=source, at=asked.at))
    return replace(made, uri=call.served.uri)


async def delete(call: Call) -> BranchDeleted:
    """Delete a branch."""
    name = call.canonical(call.words["branch"])
    call.allow(Action.BRANCH_DELETE, target=name)
    graph = call.graph
    gone = await call.write(lambda: graph.branches.delete(name))
    return replace(gone, uri=call.served.uri)


async def merge(call: Call) -> MergeResult:
    """Merge a branch into another: one commit, or nothing."""
    asked: BranchMergeBody = call.body
    strategy, resolve = _strategy(asked.strategy), _resolve(asked.resolve)
    source = call.canonical(asked.source)
    target = call.canonical(asked.target)
    call.allow(Action.BRANCH_MERGE, branch=source, target=target)
    call.allow_source(source, target)
    return await _merge(call, asked, source, target, strategy, resolve)


async def preview_merge(call: Call) -> MergeResult:
    """Tell what a merge would do; who may read both branches may look at it."""
    asked: BranchMergeBody = call.body
    strategy, resolve = _strategy(asked.strategy), _resolve(asked.resolve)
    source, target = call.canonical(asked.source), call.canonical(asked.target)
    call.allow(Action.READ, branch=source)
    call.allow(Action.READ, branch=target)
    asked.preview = True
    return await _merge(call, asked, source, target, strategy, resolve)


async def _merge(
    call: Call,
    asked: BranchMergeBody,
    source: BranchName,
    target: BranchName,
    strategy: Strategy,
    resolve: Any,  # noqa: ANN401 - resolutions as JSON has them
) -> MergeResult:
    if asked.base is not None:  # conflicts show its rows
        await _allow_commit(call, asked.base, target)
    graph = call.graph

    def run() -> MergeResult:
        return graph.branches.merge(
            source,
            target,
            strategy=strategy,
            resolve=resolve,
            columns=bool(asked.columns),
            base=asked.base,
            message=asked.message,
            preview=bool(asked.preview),
        )

    done = await call.write(run)
    if not asked.delete_branch or asked.preview:
        return done
    return await _without_source(call, done, source)


async def _without_source(call: Call, done: MergeResult, source: BranchName) -> MergeResult:
    """Delete what was merged; the merge stands, whatever becomes of that."""
    graph = call.graph
    try:
        call.allow(Action.BRANCH_DELETE, target=source)
        await call.write(lambda: graph.branches.delete(source))
    except OmniGraphError as error:
        return replace(done, branch_deleted=False, branch_delete_error=error.message)
    return replace(done, branch_deleted=True)


async def reset(call: Call) -> ChangeApplied:
    """Make a branch what it was at a commit, as a new commit."""
    asked: BranchResetBody = call.body
    branch = call.canonical(call.words["branch"])
    call.allow(Action.CHANGE, branch=branch)
    await _allow_commit(call, asked.to, branch)
    graph = call.graph
    return await call.write(
        lambda: graph.branches.reset(
            branch, to=asked.to, message=asked.message, preview=bool(asked.preview)
        )
    )


async def revert(call: Call) -> ChangeApplied:
    """Undo what a commit changed, as a new commit."""
    return await _replay(call, lambda graph: graph.revert)


async def cherry_pick(call: Call) -> ChangeApplied:
    """Repeat on a branch what a commit changed elsewhere."""
    return await _replay(call, lambda graph: graph.cherry_pick)


async def _replay(
    call: Call, choose: Callable[[Any], Callable[..., ChangeApplied]]
) -> ChangeApplied:
    asked: ReplayBody = call.body
    strategy, resolve = _strategy(asked.strategy), _resolve(asked.resolve)
    branch = call.canonical(asked.branch)
    call.allow(Action.CHANGE, branch=branch)
    await _allow_commit(call, asked.commit, branch)
    act = choose(call.graph)
    return await call.write(
        lambda: act(
            asked.commit,
            branch=branch,
            parent=asked.parent,
            strategy=strategy,
            resolve=resolve,
            message=asked.message,
            preview=bool(asked.preview),
        )
    )


async def _allow_commit(call: Call, commit: str, branch: BranchName) -> None:
    """Judge whether a commit of some branch may be read, since its rows end up on another one."""
    if call.served.rules.policy is not None:
        await state_of(call, None, commit)
        call.branch = branch


def _strategy(word: str | None) -> Strategy:
    for known in STRATEGIES:
        if word == known:
            return known
    if word is None:
        return "fail"
    raise bad_request(f"strategy is {', '.join(STRATEGIES)}, not '{word}'")


def _resolve(given: Any) -> Any:  # noqa: ANN401 - a mapping or a list; the graph looks into it
    if given is None or isinstance(given, dict | list):
        return given
    raise bad_request("resolve is an object or a list")


async def list_tags(call: Call) -> TagList:
    """Return all tags by their names."""
    call.allow(Action.READ)
    return TagList(tuple(await call.look(call.graph.tags.list)))


async def create_tag(call: Call) -> Tag:
    """Name a commit."""
    asked: TagCreateBody = call.body
    branch = call.canonical(asked.branch)
    call.allow(Action.BRANCH_CREATE, branch=branch, target=call.canonical(asked.name))
    call.branch = branch
    if isinstance(asked.at, str):
        await _allow_commit(call, asked.at, branch)
    graph = call.graph
    return await call.write(
        lambda: graph.tags.create(asked.name, at=asked.at, branch=branch, message=asked.message)
    )


async def delete_tag(call: Call) -> TagList:
    """Let go of a tag."""
    name = call.words["tag"]
    call.allow(Action.BRANCH_DELETE, target=call.canonical(name))
    graph = call.graph

    def run() -> TagList:
        gone = tuple(tag for tag in graph.tags.list() if tag.name == name)
        graph.tags.delete(name)
        return TagList(gone)

    return await call.write(run)
