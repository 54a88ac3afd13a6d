"""What happened: commits, what differs, what every commit did, the life of one node or edge."""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from omnigraph.api.access import Action
from omnigraph.api.changes import Diff, stats_of
from omnigraph.api.history import CommitList, GraphCommit
from omnigraph.api.wire import Shape
from omnigraph.api.words import CHANGE_OPS, ENTITY_KINDS, IMAGES, ChangeOp, EntityKind, Images
from omnigraph.base.ids import BranchName
from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.graph.changes import sides_of
from omnigraph.server.call import Call, authorize
from omnigraph.server.http import ARROW, NDJSON, Flow
from omnigraph.server.problems import bad_request
from omnigraph.server.row_text import arrow_pieces

Word = TypeVar("Word", bound=str)
_LINES_AT_ONCE = 256
_ALL = "*"
"""Every branch; no branch is called like that."""
_PAGE = 10_000
_FURTHEST = 1 << 48
"""More changes than any diff has, and few enough to be counted on from."""


async def list_commits(call: Call) -> CommitList | dict[str, Any]:
    """Return the commits of a branch, newest first."""
    order = call.one("order") or "desc"
    if order not in ("asc", "desc"):
        raise bad_request(f"?order= is asc or desc, not '{order}'")
    limit, everything = call.number("limit"), call.flag("all")
    if call.one("branch") == _ALL:
        return await _all_commits(call, limit, everything=everything, oldest_first=order == "asc")
    branch = call.canonical(call.one("branch"))
    call.allow(Action.READ, branch=branch)
    since, actor = call.one("since"), call.one("actor")
    commits = call.graph.commits
    return CommitList(
        tuple(
            await call.look(
                lambda: commits.list(
                    branch,
                    limit=limit,
                    since=since,
                    actor=actor,
                    all=everything,
                    reverse=order == "asc",
                )
            )
        )
    )


async def _all_commits(
    call: Call, limit: int | None, *, everything: bool, oldest_first: bool
) -> dict[str, Any]:
    """Return the commits of every branch that may be read, each once, and where branches end."""
    for name in ("since", "actor"):
        if call.one(name) is not None:
            raise bad_request(f"?{name}= goes with one branch")
    graph, rules = call.served.graph, call.served.rules  # commits are no rows

    def run(_: object) -> dict[str, Any]:
        found: dict[str, GraphCommit] = {}
        heads: dict[str, str] = {}
        for name in graph.branches.list():
            if not authorize(rules, call.actor, Action.READ, BranchName(name), None).allowed:
                continue
            try:
                line = graph.commits.list(name, limit=limit, all=everything)
            except NotFoundError:  # deleted since the names were listed
                continue
            found |= {one.graph_commit_id: one for one in line}
            if line:
                heads[name] = line[0].graph_commit_id
        newest = sorted(found.values(), key=_age, reverse=True)[:limit]
        shown = newest[::-1] if oldest_first else newest
        return {"commits": [one.to_json_value() for one in shown], "heads": heads}

    return await call.execution.read(call.exchange, call.actor, run)


def _age(commit: GraphCommit) -> tuple[int, str]:
    return commit.created_at, commit.graph_commit_id


async def get_commit(call: Call) -> GraphCommit:
    """Return one commit; it is judged by the branch it was made on."""
    found = await _commit(call)
    call.allow(Action.READ, branch=call.canonical(found.manifest_branch))
    return found


async def _commit(call: Call) -> GraphCommit:
    wanted, commits = call.words["commit_id"], call.graph.commits
    return await call.look(lambda: commits.get(wanted))


async def commit_changes(call: Call) -> object:
    """Return what a commit changed, against its first parent."""
    found = await get_commit(call)
    if found.parent_commit_id is None:
        raise ConflictError(
            f"commit '{found.graph_commit_id}' has no parent to compare with",
            hint="export it: it is the beginning",
        )
    return await _diff(call, found.parent_commit_id, found.graph_commit_id)


async def diff(call: Call) -> object:
    """Return what differs between two states."""
    a = call.one("from")
    b = call.one("to")
    if a is None:
        raise bad_request("?from= is missing", hint="?from=main&to=review, or ?from=main...review")
    return await _diff(call, a, b)


async def _diff(call: Call, a: str, b: str | None) -> object:
    wanted, store = _wanted(call), call.served.graph.store
    token = call.one("page_token")
    skip = 0
    if token is not None:
        a, b, skip = _page(token)
    limit = call.number("limit")
    sides = await call.look(lambda: sides_of(store, a, b))
    for branch in sides.judged_by:
        call.allow(Action.READ, branch=BranchName(branch))
    call.branch = BranchName(sides.judged_by[-1])
    limits, graph = call.served.read_limits, call.graph
    # By their commits, so that every page and every look is of the same two states.
    found = await call.look(
        lambda: graph.diff(
            *sides.names,
            types=wanted.types,
            kinds=wanted.kinds,
            ops=wanted.ops,
            columns=wanted.columns,
            images=wanted.images or "none",
            limits=limits,
        )
    )
    if call.flag("states"):
        commits = {"from_commit": sides.before.commit_id, "to_commit": sides.after.commit_id}
        return {**_told(found), **commits, "states": list(sides.names)}
    if call.flag("stat"):
        return await call.execution.read(call.exchange, call.actor, lambda _: found.summary())
    if call.layout == "ndjson":
        return Flow(_lines(found), NDJSON)
    if call.layout == "arrow":
        return Flow(_arrow(found), ARROW)

    def page(_: object) -> dict[str, Any]:
        return _paged(found, sides.names, skip, limit)

    return await call.execution.read(call.exchange, call.actor, page)


def _paged(found: Diff, states: Sequence[str], skip: int, limit: int | None) -> dict[str, Any]:
    """Return some changes, and where the next ones begin if there are more."""
    most = _PAGE if limit is None else min(limit, _PAGE)
    changes = list(itertools.islice(found, skip, skip + most + 1))
    more = len(changes) > most
    shown = changes[:most]
    token = orjson.dumps([*states, *[None] * (2 - len(states)), skip + most]) if more else None
    return {
        **_told(found),
        "changes": [one.to_json_value() for one in shown],
        "stats": stats_of(shown).to_json_value(),
        "next_page_token": None if token is None else base64.urlsafe_b64encode(token).decode(),
    }


def _page(token: str) -> tuple[str, str | None, int]:
    try:
        a, b, skip = orjson.loads(base64.urlsafe_b64decode(token.encode("ascii")))
    except (ValueError, TypeError, binascii.Error, UnicodeEncodeError):
        raise bad_request("?page_token= is none of ours", hint="pass next_page_token on") from None
    counted = type(skip) is int and 0 <= skip <= _FURTHEST
    if not (isinstance(a, str) and isinstance(b, str | None) and counted):
        raise bad_request("?page_token= is none of ours", hint="pass next_page_token on")
    return a, b, skip


def _told(found: Diff) -> dict[str, Any]:
    """Return which states a diff is of."""
    branch = {} if found.branch is None else {"branch": found.branch}
    return {"from_version": found.from_version, "to_version": found.to_version, **branch}


def _arrow(found: Diff) -> Generator[bytes, None, None]:
    """Yield the pieces of a diff as Arrow streams one after another, each of one type."""
    for piece in found.pieces():
        facts = {
            "table_key": piece.table_key,
            "kind": piece.kind,
            "type_name": piece.type_name,
            "manifest_version": str(piece.manifest_version),
        }
        yield from arrow_pieces(piece.rows.to_batches(), facts, packed=False)


async def changes(call: Call) -> Flow:
    """Return what every commit did to a branch, one line for each."""
    wanted = _wanted(call)
    rows, size = call.number("max_rows"), call.number("max_bytes")
    since = call.one("since")
    branch = call.canonical(call.one("branch"))
    call.allow(Action.READ, branch=branch)
    graph = call.graph
    groups = await call.look(
        lambda: graph.changes(
            branch,
            since=since,
            types=wanted.types,
            kinds=wanted.kinds,
            ops=wanted.ops,
            columns=wanted.columns,
            images=wanted.images or "after",
            max_rows=rows,
            max_bytes=size,
        )
    )
    return Flow(_lines(groups), NDJSON)


async def cursor(call: Call) -> dict[str, str]:
    """Return where the feed of a branch goes on."""
    at = call.one("at")
    branch = call.canonical(call.one("branch"))
    call.allow(Action.READ, branch=branch)
    graph = call.graph
    return {"cursor": await call.look(lambda: graph.cursor(branch, at=at))}


async def entity_history(call: Call) -> object:
    """Return the commits that changed one node or edge, newest first."""
    key, wanted, limit = call.required("table"), call.required("id"), call.number("limit")
    branch = call.canonical(call.one("branch"))
    call.allow(Action.READ, branch=branch)
    graph = call.graph
    return await call.execution.read(
        call.exchange,
        call.actor,
        lambda _: graph.entity_history(key, wanted, branch=branch, limit=limit),
    )


async def blame(call: Call) -> object:
    """Return which commit gave every property of a node or edge its value."""
    key, wanted = call.required("table"), call.required("id")
    branch = call.canonical(call.one("branch"))
    call.allow(Action.READ, branch=branch)
    graph = call.graph
    return await call.execution.read(
        call.exchange, call.actor, lambda _: graph.blame(key, wanted, branch=branch)
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which changes are asked for, and how much of each."""

    types: list[str] | None
    kinds: list[EntityKind] | None
    ops: list[ChangeOp] | None
    columns: list[str] | None
    images: Images | None


def _wanted(call: Call) -> _Wanted:
    images = _words(call, "images", IMAGES)
    return _Wanted(
        call.several("type"),
        _words(call, "kind", ENTITY_KINDS),
        _words(call, "op", CHANGE_OPS),
        call.several("column"),
        images[0] if images else None,
    )


def _words(call: Call, name: str, known: tuple[Word, ...]) -> list[Word] | None:
    """Return words of the query string that have to be known ones."""
    by_text = {str(one): one for one in known}
    found = call.several(name)
    for one in found or ():
        if one not in by_text:
            raise bad_request(f"?{name}= is {', '.join(known)}, not '{one}'")
    return None if found is None else [by_text[one] for one in found]


def _lines(values: Iterable[Shape]) -> Generator[bytes, None, None]:
    """Yield values as JSON lines, many at a time."""
    source = iter(values)
    while piece := list(itertools.islice(source, _LINES_AT_ONCE)):
        yield b"".join(
            orjson.dumps(one.to_json_value(), option=orjson.OPT_APPEND_NEWLINE) for one in piece
        )
