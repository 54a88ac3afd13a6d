"""Writing: mutations and loads. Whoever listens, a write that began is finished and logged."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from omnigraph.api.access import Action
from omnigraph.api.visibility import RowRulesError
from omnigraph.api.words import DEFAULT_BRANCH, ON_ERROR, REFILL_MODES, Mode, OnError
from omnigraph.api.writes import EmbedResult, LoadResult, MutationResult
from omnigraph.base.ids import BranchName
from omnigraph.compiler.source import Source
from omnigraph.errors import OmniGraphError
from omnigraph.server.bodies import ChangeBody, EmbedBody, LoadBody
from omnigraph.server.call import Call
from omnigraph.server.handlers.reads import params_of, query_of
from omnigraph.server.http import IF_COMMIT, too_large
from omnigraph.server.problems import ProblemError, bad_request
from omnigraph.server.uploads import NamedBytes, unpacked

_SPOOL_BYTES = 1 << 20


async def change(call: Call) -> MutationResult:
    """Run a mutation: one commit, or nothing."""
    return await _mutate(call, None)


async def mutate(call: Call) -> dict[str, Any]:
    """Run a mutation like `change`, and return its commit as well."""
    done = await _mutate(call, None)
    made, commits = done.commit_id, call.graph.commits
    commit = None if made is None else await call.look(lambda: commits.get(made))
    told = done.to_json_value()
    return told | {"commit": None if commit is None else commit.to_json_value()}


async def change_if_at(call: Call) -> MutationResult:
    """Run a mutation only if the branch is still at the commit that a header names."""
    expected = call.exchange.header(IF_COMMIT)
    if not expected:
        raise bad_request("the header Omnigraph-If-Graph-Commit is missing")
    return await moved_told(_mutate(call, expected), expected)


async def moved_told(work: Awaitable[MutationResult], expected: str) -> MutationResult:
    """Return what a write did whose branch had to be at a commit, or say where it is instead."""
    try:
        return await work
    except OmniGraphError as error:
        if type(error).__name__ != "HeadMovedError":
            raise
        actual = getattr(error, "actual", None)
        raise ProblemError(
            412,
            error.message,
            kind=error.kind,
            hint=error.hint,
            more={
                "class": "HeadMovedError",
                "precondition_failure": {"expected": expected, "actual": actual},
                "fields": {
                    "branch": getattr(error, "branch", None),
                    "expected": expected,
                    "actual": actual,
                },
            },
        ) from None


async def _mutate(call: Call, expected: str | None) -> MutationResult:
    source, name = query_of(call.body)
    return await run_change(call, call.body, source, name, expected)


async def run_change(
    call: Call, asked: ChangeBody, source: Source, name: str | None, expected: str | None
) -> MutationResult:
    """Run a mutation as a request wants it, on a branch that may be changed."""
    params, key = params_of(asked.params), call.idempotency_key()
    branch = call.canonical(asked.branch)
    call.allow(Action.CHANGE, branch=branch)
    limits, graph = call.limits(asked.limits, writes=True), call.graph
    return await call.write(
        lambda: graph.mutate(
            source,
            name,
            params,
            branch=branch,
            message=asked.message,
            if_head=expected,
            idempotency_key=key,
            preview=bool(asked.preview),
            limits=limits,
        )
    )


async def ingest(call: Call) -> LoadResult:
    """Load JSON lines into a branch, which is made if it is not there."""
    asked: LoadBody = call.body
    data = asked.data.encode()
    how = _how(call, asked.message, asked.on_error, asked.max_errors)
    mode = Mode.MERGE if asked.mode is None else Mode(asked.mode.value)
    branch = call.canonical(asked.branch)
    source = call.canonical(asked.from_)
    call.branch = branch
    await _allow_load(call, branch, source)
    graph = call.graph
    done = await call.job(
        lambda: graph.ingest(data, branch=branch, source=source, mode=mode, **how)
    )
    return replace(done, uri=call.served.uri)


async def load(call: Call) -> LoadResult:
    """Load JSON lines into a branch that is there, or is to be made from another one."""
    asked: LoadBody = call.body
    how = _how(call, asked.message, asked.on_error, asked.max_errors)
    mode = Mode.MERGE if asked.mode is None else Mode(asked.mode.value)
    return _based(await _load(call, asked.data.encode(), asked.branch, asked.from_, mode, how))


def _based(done: LoadResult) -> LoadResult:
    """Return a load as the contract has it: there is always a branch it would be made from."""
    return replace(done, base_branch=done.base_branch or DEFAULT_BRANCH)


async def load_lines(call: Call) -> LoadResult:
    """Load JSON lines that are the body itself; it may be larger than memory."""
    how = _how(call, call.one("message"), call.one("on_error"), call.number("max_errors"))
    mode = _mode(call)
    branch, source = call.canonical(call.one("branch")), call.one("from")
    await _allow_load(call, branch, None if source is None else call.canonical(source))
    call.branch = branch
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
        size = await _spooled(call, spool)
        body = NamedBytes(spool, "<body>")
        return _based(await _load(call, body, branch, source, mode, how, size))


def _mode(call: Call) -> Mode:
    word = call.one("mode") or Mode.MERGE.value  # what nobody asked for must not replace anything
    if word not in [one.value for one in Mode]:
        raise bad_request(f"?mode= is overwrite, append or merge, not '{word}'")
    return Mode(word)


async def load_files(call: Call) -> LoadResult:
    """Load files of any kind that are sent as a tar, made as `client.uploads` makes it."""
    how = _how(call, call.one("message"), call.one("on_error"), call.number("max_errors"))
    mode = _mode(call)
    branch, source = call.canonical(call.one("branch")), call.one("from")
    await _allow_load(call, branch, None if source is None else call.canonical(source))
    call.branch = branch
    with (
        tempfile.TemporaryFile() as spool,
        tempfile.TemporaryDirectory(prefix="omnigraph-upload-") as folder,
    ):
        size = await _spooled(call, spool)
        given = await call.look(lambda: unpacked(spool, Path(folder)))
        call.hidden = [f"{folder}/{number}/" for number in range(given.count)]
        how["mapping"] = given.mapping
        return await _load(call, given.data, branch, source, mode, how, size)


async def _spooled(call: Call, spool: IO[bytes]) -> int:
    """Copy the body to disk by its own clock, before anybody waits for it; return its size."""
    limit, size = call.served.load_bytes, 0
    async for piece in call.exchange.pieces():
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        if size > _SPOOL_BYTES:
            await call.look(lambda piece=piece: spool.write(piece))  # type: ignore[misc] # bound now
        else:
            spool.write(piece)
    spool.seek(0)
    return size


async def _load(
    call: Call,
    data: Any,  # noqa: ANN401 - whatever a load takes
    branch_name: str | None,
    source_name: str | None,
    mode: Mode,
    how: dict[str, Any],
    size: int | None = None,
) -> LoadResult:
    branch = call.canonical(branch_name)
    source = None if source_name is None else call.canonical(source_name)
    call.branch = branch
    await _allow_load(call, branch, source)
    graph = call.graph
    run: Callable[[], LoadResult]
    if source is None:

        def run() -> LoadResult:
            return graph.load(data, mode, branch=branch, **how)

    else:

        def run() -> LoadResult:
            return graph.ingest(data, branch=branch, source=source, mode=mode, **how)

    return replace(await call.job(run, size), uri=call.served.uri)


async def _allow_load(call: Call, branch: BranchName, source: BranchName | None) -> None:
    """Judge a load; one that makes its branch is judged for that, too."""
    if branch != DEFAULT_BRANCH and source is not None:
        known = await call.look(call.graph.branches.list)
        if branch not in known:
            call.allow(Action.BRANCH_CREATE, branch=source, target=branch)
            call.allow_source(source, branch)
    call.allow(Action.CHANGE, branch=branch)
    if call.rows is not None:  # before a large body is taken
        raise RowRulesError("loading")


def _how(
    call: Call, message: str | None, on_error: str | None, max_errors: int | None
) -> dict[str, Any]:
    """Return how a load runs; never on Spark: a server must not start one for a request."""
    chosen: OnError = "fail"
    if on_error is not None:
        if on_error not in ON_ERROR:
            raise bad_request(f"on_error is {' or '.join(ON_ERROR)}, not '{on_error}'")
        chosen = "fail" if on_error == "fail" else "skip"
    return {
        "engine": "inline",
        "message": message,
        "on_error": chosen,
        "max_errors": max_errors,
        "idempotency_key": call.idempotency_key(),
    }


async def embed(call: Call) -> EmbedResult:
    """Fill the `@embed` columns of a branch."""
    asked: EmbedBody = call.body
    mode = asked.mode or REFILL_MODES[0]
    branch = call.canonical(asked.branch)
    call.allow(Action.CHANGE, branch=branch)
    graph = call.graph
    done = await call.job(
        lambda: graph.embed(asked.types or (), mode, branch=branch, message=asked.message)
    )
    return replace(done, uri=call.served.uri)
