"""Reading: queries in three layouts, plans, exports, snapshots, single nodes and edges."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa

from omnigraph.api.access import Action
from omnigraph.api.pictures import PICTURE_NODES, Picture
from omnigraph.api.query import QueryResult
from omnigraph.api.rows import ReadTarget
from omnigraph.api.texts import QueryPlan
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.base.budget import Limits
from omnigraph.base.ids import BranchName
from omnigraph.compiler.source import Source
from omnigraph.errors import NotFoundError
from omnigraph.server.bodies import ChangeBody, ExportBody, ReadBody
from omnigraph.server.call import Call
from omnigraph.server.http import ARROW, JSON, NDJSON, Flow, Reply
from omnigraph.server.problems import bad_request
from omnigraph.server.row_text import arrow_pieces, json_items, ndjson

BATCH_ROWS = 8_192
_AT_ONCE_ROWS = 10_000
_WORTH_A_THREAD = 256
QUERY_NAME = "<query>"
"""What messages call the text of a request: a text that looks like a path must not become one."""


def query_of(asked: ReadBody | ChangeBody) -> tuple[Source, str | None]:
    """Return the text of a request and which of its queries is meant; both have two names."""
    texts = [one for one in (asked.query_source, asked.query) if one is not None]
    names = [one for one in (asked.query_name, asked.name) if one is not None]
    if not texts:
        raise bad_request("query_source is missing")
    if len(texts) > 1 or len(names) > 1:
        raise bad_request("a query is given as query_source and query_name, or as query and name")
    return Source(texts[0], QUERY_NAME), names[0] if names else None


def params_of(given: object) -> Mapping[str, Any] | None:
    """Return the parameters of a request."""
    if given is None or isinstance(given, dict):
        return given
    raise bad_request("params must be a JSON object")


async def state_of(
    call: Call, branch: str | None, snapshot: str | None, action: Action = Action.READ
) -> tuple[BranchName, str | None]:
    """Return the branch and the commit to read, if who asks may read them.

    A commit is judged by its branch. Beside it a branch may be named if the commit is part of it.
    """
    if snapshot is None:
        named = call.canonical(branch)
        call.allow(action, branch=named)
        return named, None
    graph = call.graph
    commit = await call.look(lambda: graph.commits.get(snapshot))
    made_on = BranchName(commit.manifest_branch or DEFAULT_BRANCH)
    call.allow(action, branch=made_on)
    if branch is not None:
        named = call.canonical(branch)
        call.allow(action, branch=named)
        line = () if named == made_on else await call.look(partial(_line, call, named))
        if named != made_on and commit.graph_commit_id not in line:
            raise bad_request("read request may specify branch or snapshot, not both")
    call.branch = made_on
    return BranchName(DEFAULT_BRANCH), snapshot


def _line(call: Call, branch: BranchName) -> frozenset[str]:
    """Return the ids of the commits a branch consists of."""
    return frozenset(one.graph_commit_id for one in call.graph.commits.list(branch, all=True))


async def read(call: Call) -> Reply | Flow | Picture:
    """Run a read query: as JSON, as lines, or as an Arrow stream."""
    source, name = query_of(call.body)
    return await run_read(call, call.body, source, name, names_commit=False)


async def query(call: Call) -> Reply | Flow | Picture:
    """Run a read query like `read`; JSON also says which commit was read."""
    source, name = query_of(call.body)
    return await run_read(call, call.body, source, name, names_commit=True)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a JSON answer says beside the rows, and how it writes numbers."""

    target: ReadTarget
    js_safe: bool
    names_commit: bool

    def over(self, result: QueryResult) -> dict[str, Any]:
        """Return a result without its rows."""
        found = {
            "query_name": result.query_name,
            "target": self.target.to_json_value(),
            "row_count": len(result),
            "columns": result.columns,
        }
        return found | {"graph_commit_id": result.commit_id} if self.names_commit else found


async def run_read(
    call: Call,
    asked: ReadBody,
    source: Source,
    name: str | None,
    *,
    names_commit: bool,
    action: Action = Action.READ,
) -> Reply | Flow | Picture:
    """Run a query as a request wants it, on a state that `action` may be done on."""
    params, js_safe = params_of(asked.params), call.flag("js_safe")
    branch, snapshot = await state_of(call, asked.branch, asked.snapshot, action)
    limits, graph = call.limits(asked.limits), call.graph
    where: dict[str, Any] = {"branch": branch, "at": snapshot}
    if asked.shape == "graph":
        most = PICTURE_NODES if asked.max_nodes is None else asked.max_nodes

        def draw(cancel: threading.Event) -> Picture:
            how: dict[str, Any] = {"max_nodes": most, "limits": limits, "cancel": cancel}
            return graph.picture(source, name, params, **how, **where)

        return await call.execution.read(call.exchange, call.actor, draw)
    told = _Told(ReadTarget(branch if snapshot is None else None, snapshot), js_safe, names_commit)
    if call.served.is_local:
        found = graph.query_at_hand(source, name, params, limits=limits, **where)
        if found is not None:
            return _whole(call, found, told)
    layout = call.layout
    if layout == "json":

        def run(cancel: threading.Event) -> Reply | Flow:
            result = graph.query(source, name, params, limits=limits, cancel=cancel, **where)
            return _json(result, told)

        return await call.execution.read(call.exchange, call.actor, run)
    return await _streamed(call, source, name, params, limits, where, js_safe=js_safe)


def _whole(call: Call, result: QueryResult, told: _Told) -> Reply | Flow:
    """Return a result that is there already, in the layout that is wanted."""
    match call.layout:
        case "json":
            return _json(result, told)
        case "ndjson":
            lines = ndjson(result.table, js_safe=told.js_safe)
            return Reply(lines, NDJSON, headers=_facts(result))
        case "arrow":
            pieces = arrow_pieces(_batches(result), _metadata(result), packed=False)
            return Reply(b"".join(pieces), ARROW, headers=_facts(result))


def _json(result: QueryResult, told: _Told) -> Reply | Flow:
    """Return a result as the contract has it; a large one in pieces, with the same bytes."""
    if len(result) <= _WORTH_A_THREAD:
        rows = result.to_json_rows(js_safe=told.js_safe)
        body = orjson.dumps(told.over(result) | {"rows": rows})
        return Reply(body, JSON, headers=_facts(result))
    pieces = _json_pieces(result, told)
    if len(result) <= _AT_ONCE_ROWS:
        return Reply(b"".join(pieces), JSON, headers=_facts(result))
    return Flow(pieces, JSON, _facts(result))


def _json_pieces(result: QueryResult, told: _Told) -> Generator[bytes, None, None]:
    yield orjson.dumps(told.over(result))[:-1] + b',"rows":['
    batches = list(_batches(result))
    for batch in batches[:-1]:
        yield json_items(batch, js_safe=told.js_safe)
    yield json_items(batches[-1], js_safe=told.js_safe)[:-1] + b"]}"


async def _streamed(
    call: Call,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    limits: Limits,
    where: Mapping[str, Any],
    *,
    js_safe: bool,
) -> Flow:
    """Run a query whose rows are fetched while they are sent, all of one state."""
    graph, layout, cancel = call.graph, call.layout, threading.Event()
    whole = call.served.graph  # counts of rows are not asked for
    commit = (await call.look(lambda: whole.snapshot(where["branch"], at=where["at"]))).commit_id

    def begin(stop: threading.Event) -> Iterator[pa.RecordBatch]:
        batches = graph.stream(
            source,
            name,
            params,
            limits=limits,
            cancel=_Either(stop, cancel),
            batch_rows=BATCH_ROWS,
            branch=where["branch"],
            at=commit,
        )
        return itertools.chain((next(batches),), batches)

    batches = await call.execution.read(call.exchange, call.actor, begin)
    facts = {"query_name": name or "", "branch": where["branch"], "commit_id": commit}
    headers = ((b"omnigraph-commit", commit.encode()),)
    if layout == "arrow":
        packs = "compression=zstd" in (call.exchange.header(b"accept") or "")
        return Flow(arrow_pieces(batches, facts, packed=packs), ARROW, headers, cancel)
    lines = (ndjson(batch, js_safe=js_safe) for batch in batches)
    return Flow(lines, NDJSON, headers, cancel)


class _Either(threading.Event):
    """Set when one of two is: the client left before the first row, or later."""

    def __init__(self, *others: threading.Event) -> None:
        super().__init__()
        self._others = others

    def is_set(self) -> bool:
        """Whether one of them is set."""
        return any(one.is_set() for one in self._others)


def _batches(result: QueryResult) -> Iterator[pa.RecordBatch]:
    found = list(result.batches(BATCH_ROWS))
    if found:
        return iter(found)
    schema = result.table.schema  # which is told without rows as well
    return iter([pa.record_batch([pa.array([], one.type) for one in schema], schema=schema)])


def _metadata(result: QueryResult) -> dict[str, str]:
    return {
        "query_name": result.query_name,
        "branch": result.branch or "",
        "commit_id": result.commit_id or "",
    }


def _facts(result: QueryResult) -> tuple[tuple[bytes, bytes], ...]:
    """Return what an answer says beside its rows, in every layout."""
    name = quote(result.query_name).encode()
    return (
        (b"omnigraph-commit", (result.commit_id or "").encode()),
        (b"omnigraph-query", name),
    )


async def explain(call: Call) -> QueryPlan:
    """Return the operators a query runs as."""
    asked: ReadBody = call.body
    source, name = query_of(asked)
    branch, snapshot = await state_of(call, asked.branch, asked.snapshot)
    graph = call.graph

    def run(_: threading.Event) -> QueryPlan:
        return QueryPlan(name or "", graph.explain(source, name, branch=branch, at=snapshot))

    return await call.execution.read(call.exchange, call.actor, run)


async def profile(call: Call) -> object:
    """Run a query and return what every operator did; with its rows as Arrow if wanted."""
    asked: ReadBody = call.body
    source, name = query_of(asked)
    params = params_of(asked.params)
    branch, snapshot = await state_of(call, asked.branch, asked.snapshot)
    limits, graph = call.limits(asked.limits), call.graph

    def run(cancel: threading.Event) -> object:
        return graph.profile(
            source, name, params, branch=branch, at=snapshot, limits=limits, cancel=cancel
        )

    return await call.execution.read(call.exchange, call.actor, run)


async def export(call: Call) -> Flow:
    """Write tables out as JSON lines, all of one state."""
    asked: ExportBody = call.body
    branch, snapshot = await state_of(call, asked.branch, asked.snapshot, Action.EXPORT)
    graph = call.graph

    def begin() -> Iterator[bytes]:
        return graph.iter_export(
            types=asked.type_names or (),
            tables=asked.table_keys or (),
            branch=branch,
            at=snapshot,
        )

    pieces = await call.look(begin)
    return Flow((piece for piece in pieces), NDJSON)


async def export_by_query(call: Call) -> Flow:
    """Write tables out; what is wanted stands in the query string."""
    call.body = ExportBody(
        call.one("branch"), call.several("type"), call.several("table"), call.one("snapshot")
    )
    return await export(call)


async def snapshot(call: Call) -> object:
    """Return every table of a branch at its version, or of a commit."""
    version = call.number("version")
    branch, at = await state_of(call, call.one("branch"), call.one("snapshot"))
    if at is not None and version is not None:
        raise bad_request("a state is a commit or a version, not both")
    graph, moment = call.graph, version if at is None else at
    return await call.look(lambda: graph.snapshot(branch, at=moment))


async def entity(call: Call) -> Reply:
    """Return one node or edge."""
    key, wanted = call.required("table"), call.required("id")
    branch, at = await state_of(call, call.one("branch"), call.one("snapshot"))
    found = await call.look(lambda: call.graph.entity_rows(key, wanted, branch=branch, at=at))
    if call.layout == "arrow":  # of one row, or of none
        return Reply(found.to_arrow_ipc(), ARROW)
    if not len(found):
        raise NotFoundError(f"there is no {key} '{wanted}'")
    return Reply(orjson.dumps(found.to_json_rows(js_safe=call.flag("js_safe"))[0]))


async def blob(call: Call) -> Reply:
    """Return the bytes of one Blob."""
    kind, wanted, prop = (call.required(name) for name in ("type", "id", "property"))
    branch, at = await state_of(call, call.one("branch"), call.one("snapshot"))
    graph = call.graph
    found = await call.look(lambda: graph.read_blob(kind, wanted, prop, branch=branch, at=at))
    if found is None:  # which no bytes can say
        return Reply(b"null", headers=((b"omnigraph-null", b"1"),))
    # Whatever the bytes are, a browser must not show them as a page of this server.
    saved = ((b"content-disposition", b"attachment"),)
    return Reply(found, b"application/octet-stream", headers=saved)
