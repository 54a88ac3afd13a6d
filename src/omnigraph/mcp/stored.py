"""Stored queries as tools: each by its own name while they are few, else all through two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from omnigraph.api.query import QueryResult
from omnigraph.api.stored import ParamKind, StoredParam, StoredQuery, StoredQueryNotFoundError
from omnigraph.api.writes import MutationResult
from omnigraph.errors import BadRequestError
from omnigraph.mcp.answers import lines_text
from omnigraph.mcp.desk import Turn
from omnigraph.mcp.tools import (
    BRANCH,
    CURSOR,
    KEY,
    MAX_ROWS,
    MESSAGE,
    OWN_BRANCH,
    PARAMS,
    Argument,
    Kind,
    Tool,
)
from omnigraph.mcp.writing import changed_text

MOST_TOOLS: Final = 20
"""Clients are given no more than so many tools before they begin to lose some."""
_LONGEST_NAME: Final = 64
_KINDS: Final[dict[ParamKind, Kind]] = {
    "string": "string",
    "bool": "boolean",
    "int": "integer",
    "bigint": "integer",
    "float": "number",
    "date": "string",
    "datetime": "string",
    "blob": "string",
    "vector": "array",
    "list": "array",
}
_FORMS: Final = {"date": "as 2026-04-25", "datetime": "as 2026-04-25T10:00:00Z"}


def stored_tools(queries: Sequence[StoredQuery], *, read_only: bool) -> tuple[Tool, ...]:
    """Return the tools that stand for the stored queries an agent may call."""
    usable = [one for one in queries if one.exposed and not (read_only and one.mutation)]
    if not usable:
        return ()
    if len(usable) <= MOST_TOOLS and all(len(one.tool_name) <= _LONGEST_NAME for one in usable):
        return tuple(map(_tool_of, usable))
    return (_FIND, _run_any(any(one.mutation for one in usable)))


def _tool_of(query: StoredQuery) -> Tool:
    names = {one.name for one in query.params}
    own = (OWN_BRANCH, MESSAGE, KEY) if query.mutation else (BRANCH, CURSOR, MAX_ROWS)
    beside = {one.name: _beside(one, names) for one in own}
    call = _Call(query, {name: one.name for name, one in beside.items()})
    about = ". ".join(
        one.strip().rstrip(".")
        for one in (query.description or query.name, query.instruction)
        if one
    )
    return Tool(
        query.tool_name,
        about,
        (*map(_argument, query.params), *beside.values()),
        call.run,
        group="stored",
        writes=query.mutation,
        destroys=query.mutation,
    )


def _beside(argument: Argument, names: set[str]) -> Argument:
    """Return an argument of ours under a name that no parameter of the query has."""
    name = argument.name
    while name in names:
        name = f"_{name}"
    return Argument(name, argument.kind, argument.about, words=argument.words, least=argument.least)


def _argument(param: StoredParam) -> Argument:
    item = None if param.item_kind is None else _KINDS[param.item_kind]
    return Argument(
        param.name,
        _KINDS[param.kind],
        _FORMS.get(param.kind, ""),
        required=not param.nullable,
        item="number" if param.kind == "vector" else item,
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """Calls one stored query; `names` says what our own arguments are called there."""

    query: StoredQuery
    names: dict[str, str]

    def run(self, turn: Turn) -> str:
        """Split the arguments into parameters and our own, and call the query."""
        own = {name: turn.given.get(called) for name, called in self.names.items()}
        params = {
            one.name: turn.given[one.name] for one in self.query.params if one.name in turn.given
        }
        given = {name: value for name, value in own.items() if value is not None}
        return _called(replace(turn, given=given), self.query, params)


def _called(turn: Turn, query: StoredQuery, params: dict[str, Any]) -> str:
    desk, queries = turn.desk, turn.desk.graph.queries
    if query.mutation:
        branch = desk.own_branch(turn.text("branch"))
        done = queries.run(
            query.name,
            params,
            branch=branch,
            message=desk.message(turn.text("message")),
            idempotency_key=desk.key(turn.text("key"), "stored", branch, query.name, params),
            **turn.how_to_write,
        )
        assert isinstance(done, MutationResult), "the catalogue says that it writes"
        return changed_text(done, is_preview=False)

    def run(at: str | None) -> QueryResult:
        found = queries.run(query.name, params, branch=turn.branch, at=at, **turn.how)
        assert isinstance(found, QueryResult), "the catalogue says that it reads"
        return found

    return turn.page(("stored", query.name, params), run, turn.text("cursor"))


def find_stored(turn: Turn) -> str:
    """Return the stored queries whose names or descriptions have some words."""
    words = (turn.text("text") or "").lower().split()
    lines = []
    for one in turn.desk.graph.queries.list():
        about = " ".join(filter(None, (one.name, one.description, one.instruction)))
        if one.exposed and all(word in about.lower() for word in words):
            told = ". ".join(filter(None, (one.description, one.instruction)))
            kind = "write " if one.mutation else ""
            lines.append(f"{kind}{one.signature}" + (f"  {told}" if told else ""))
    return lines_text([f"{len(lines)} found", *lines], turn.budget, "more words find fewer")


def run_stored(turn: Turn) -> str:
    """Call any stored query by its name."""
    name = turn.given["name"]
    query = turn.desk.graph.queries.get(name)
    if not query.exposed or (query.mutation and turn.desk.rules.read_only):
        raise StoredQueryNotFoundError(name)
    if query.mutation and turn.text("cursor") is not None:
        raise BadRequestError("a write has no pages", hint="leave `cursor` out")
    return _called(turn, query, turn.given.get("params") or {})


_FIND = Tool(
    "find_stored",
    "Find queries that were written for this graph, with their parameters: better than your own.",
    (Argument("text", "string", "words of its name or description"),),
    find_stored,
    group="stored",
)


def _run_any(writes: bool) -> Tool:
    own = (MESSAGE, KEY) if writes else ()
    return Tool(
        "run_stored",
        "Run a stored query by its name; find_stored tells which there are.",
        (
            Argument("name", "string", "which one", required=True),
            PARAMS,
            BRANCH,
            CURSOR,
            MAX_ROWS,
            *own,
        ),
        run_stored,
        group="stored",
        writes=writes,
        destroys=writes,
    )
