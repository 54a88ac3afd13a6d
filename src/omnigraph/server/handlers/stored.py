"""Stored queries: which there are, and calling one. What may not be called is not there."""

from __future__ import annotations

from omnigraph.api.access import Action
from omnigraph.api.pictures import Picture
from omnigraph.api.stored import StoredQueryList, StoredQueryNotFoundError
from omnigraph.api.visibility import RowRulesError
from omnigraph.api.writes import MutationResult
from omnigraph.compiler.query.stored import StoredText
from omnigraph.errors import DeniedError
from omnigraph.server.bodies import ChangeBody, ReadBody, StoredBody
from omnigraph.server.call import Call
from omnigraph.server.handlers.reads import run_read
from omnigraph.server.handlers.writes import moved_told, run_change
from omnigraph.server.http import IF_COMMIT, Flow, Reply
from omnigraph.server.problems import bad_request


async def list_queries(call: Call) -> StoredQueryList:
    """Return every stored query that who asks may call on a branch, main if none is named."""
    call.allow(Action.INVOKE_QUERY, branch=call.canonical(call.one("branch")))
    queries = call.served.graph.queries  # names of queries are no rows
    found = await call.look(queries.list)
    may_write = _grants(call, Action.CHANGE)
    return StoredQueryList(tuple(one for one in found if may_write or not one.mutation))


async def run(call: Call) -> MutationResult | Reply | Flow | Picture:
    """Run a stored query: a read in any layout, or a write that is one commit."""
    name, queries = call.words["name"], call.served.graph.queries
    if not _grants(call, Action.INVOKE_QUERY):
        raise StoredQueryNotFoundError(name)
    stored = await call.look(lambda: queries.text(name))
    try:
        with stored.naming():
            return await (_write if stored.query.mutation else _read)(call, stored)
    except RowRulesError:
        raise  # who is told may call it
    except DeniedError:
        raise StoredQueryNotFoundError(name) from None


async def _read(call: Call, stored: StoredText) -> Reply | Flow | Picture:
    asked: StoredBody = call.body
    if asked.message is not None or asked.preview or IF_COMMIT in call.exchange.headers:
        raise bad_request(f"stored query '{stored.query.name}' is a read, which keeps nothing")
    body = ReadBody(
        params=asked.params, branch=asked.branch, snapshot=asked.snapshot, limits=asked.limits
    )
    return await run_read(
        call,
        body,
        stored.source,
        stored.query.name,
        names_commit=True,
        action=Action.INVOKE_QUERY,
    )


async def _write(call: Call, stored: StoredText) -> MutationResult:
    asked: StoredBody = call.body
    call.allow(Action.INVOKE_QUERY, branch=call.canonical(asked.branch))
    call.allow(Action.CHANGE, branch=call.canonical(asked.branch))
    if asked.snapshot is not None:
        raise bad_request(f"stored query '{stored.query.name}' writes, which is of a branch")
    body = ChangeBody(
        params=asked.params,
        branch=asked.branch,
        message=asked.message,
        preview=asked.preview,
        limits=asked.limits,
    )
    expected = call.exchange.header(IF_COMMIT)
    work = run_change(call, body, stored.source, stored.query.name, expected)
    return await (work if expected is None else moved_told(work, expected))


def _grants(call: Call, action: Action) -> bool:
    """Whether who asks may do something on some branch."""
    policy = call.served.rules.policy
    return policy is None or policy.grants_any(call.actor or "", action)
