"""What somebody who looks around asks: the types, what a text means, who they are, who is near."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Final

from omnigraph.api.access import Action
from omnigraph.base.ids import BranchName
from omnigraph.base.table_keys import is_node_key, type_of
from omnigraph.base.version import VERSION
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.source import Source
from omnigraph.errors import NotFoundError
from omnigraph.graph.around import NEIGHBOURS, around
from omnigraph.graph.described import described, linted
from omnigraph.server.bodies import LintBody
from omnigraph.server.call import Call, authorize
from omnigraph.server.handlers.reads import QUERY_NAME, state_of
from omnigraph.server.problems import bad_request

_MOST_NEIGHBOURS: Final = 100


def _catalog(call: Call, branch: BranchName, at: str | None) -> Catalog:
    """Return what the schema of a state means; that tells of no row."""
    graph = call.served.graph
    return graph.branch(branch).catalog if at is None else graph.at(at).catalog


async def catalog(call: Call) -> dict[str, Any]:
    """Return every type with its properties and how many rows it has."""
    branch, at = await state_of(call, call.one("branch"), call.one("snapshot"))
    graph = call.graph

    def run(_: threading.Event) -> dict[str, Any]:
        state = graph.snapshot(branch, at=at)
        rows = {one.table_key: one.row_count for one in state.tables}
        found = described(_catalog(call, branch, at), rows)
        return {**found, "branch": branch, "graph_commit_id": state.commit_id}

    return await call.execution.read(call.exchange, call.actor, run)


async def lint(call: Call) -> dict[str, Any]:
    """Return what is wrong with a text, and which queries with which parameters it has."""
    asked: LintBody = call.body
    branch, at = await state_of(call, asked.branch, asked.snapshot)
    source = Source(asked.query_source, QUERY_NAME)

    def run(_: threading.Event) -> dict[str, Any]:
        return linted(_catalog(call, branch, at), source)

    # A long text takes its time, so it waits for a slot like a query.
    return await call.execution.read(call.exchange, call.actor, run)


async def me(call: Call) -> dict[str, Any]:
    """Return who asks, and what they may do on a branch, or from one to another."""
    branch = call.canonical(call.one("branch"))
    named = call.one("target")
    target = branch if named is None else call.canonical(named)
    rules = call.served.rules
    judged = {
        one.value: authorize(rules, call.actor, one, branch, target).allowed for one in Action
    }
    policy = rules.policy
    return {
        "actor": call.actor,
        "graph": call.served.graph_id,
        "version": VERSION,
        "needs_token": not rules.is_open,
        "policy": policy is not None,
        "hides_rows": policy is not None and policy.hides_rows,
        "branch": branch,
        "target": target,
        "allowed": [name for name, allowed in judged.items() if allowed],
    }


async def neighbours(call: Call) -> dict[str, Any]:
    """Return the neighbours of a node, some by every type of edge, with how many there are."""
    key, wanted = call.required("table"), call.required("id")
    most = call.number("limit") or NEIGHBOURS
    edges, ways = call.several("edge"), call.several("way")
    if most > _MOST_NEIGHBOURS:
        raise bad_request(f"?limit= is at most {_MOST_NEIGHBOURS}, not {most}")
    if not is_node_key(key):
        raise bad_request(f"?table= is that of a node, not '{key}'", hint="node:Person")
    if ways is not None and not set(ways) <= {"in", "out"}:
        raise bad_request("?way= is in or out")
    branch, at = await state_of(call, call.one("branch"), call.one("snapshot"))
    limits, graph = call.limits(None), call.graph

    def run(cancel: threading.Event) -> dict[str, Any]:
        types = _catalog(call, branch, at)
        node = types.nodes.get(type_of(key))
        if node is None:
            raise NotFoundError(f"there is no table '{key}'")
        ask = partial(graph.query, branch=branch, at=at, limits=limits, cancel=cancel)
        return around(ask, types, node, wanted, most=most, edges=edges, ways=ways)

    return await call.execution.read(call.exchange, call.actor, run)
