"""Tools that read: the schema, queries, search, what is around a node, how things came to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from omnigraph.api.history import GraphCommit
from omnigraph.api.protocols import Reads
from omnigraph.api.query import QueryResult
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.mcp.answers import change_lines, clipped, json_text, lines_text
from omnigraph.mcp.desk import Turn
from omnigraph.mcp.schema_text import compact_schema, edge_word, label_of, searched_properties
from omnigraph.mcp.tools import (
    BRANCH,
    CURSOR,
    ID,
    MAX_ROWS,
    NAME,
    PARAMS,
    QUERY,
    TYPE,
    Argument,
    Tool,
)

_SHOWN: Final = 12
"""Neighbours of one edge type that are told by name."""
_SHORTEST_LINE: Final = 10
"""Characters of a change that says as little as it can."""
_WAYS: Final = ("words", "meaning")


def schema(turn: Turn) -> str:
    """Return the types, compact."""
    return clipped(compact_schema(turn.desk.catalog, turn.given.get("types", ())), turn.budget)


def read(turn: Turn) -> str:
    """Run one read query, page by page."""
    query, name, params = turn.query, turn.text("name"), turn.given.get("params")

    def run(at: str | None) -> QueryResult:
        return state(turn, at).query(query, name, params, **turn.how)

    return turn.page(("read", query.text, name, params), run, turn.text("cursor"))


def state(turn: Turn, at: str | None) -> Reads:
    """Return the branch of a call as it is now, or what it was at a commit."""
    graph = turn.desk.graph
    return graph.branch(turn.branch) if at is None else graph.at(at, branch=turn.branch)


def check(turn: Turn) -> str:
    """Compile a query and return its plan, or every error of it."""
    plan = state(turn, None).explain(turn.query, turn.text("name"))
    return clipped(f"compiles; plan:\n{plan}", turn.budget)


# Search.


def search(turn: Turn) -> str:
    """Find nodes by words or by meaning, best first, type by type."""
    found: list[dict[str, Any]] = []
    limit = turn.budget.rows
    reads, params = state(turn, None), {"text": turn.given["text"], "n": limit}
    by_meaning = turn.given.get("by") == "meaning"
    for node in _searched(turn.desk.catalog, turn.given.get("types", ()), by_meaning=by_meaning):
        for query in _searches(node, by_meaning=by_meaning):
            rows = reads.query(query.text, None, params, **turn.how).to_json_rows()
            found.extend(query.told(row) for row in rows if row["score"] is not None)
    found.sort(key=lambda one: one["score"], reverse=not by_meaning)
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found:
        seen.setdefault((one["type"], one["id"]), one)
    best = list(seen.values())
    note = "" if best else "  (nothing; try other words, or `by`: meaning)"
    shown = [json_text(one) for one in best[:limit]]
    return lines_text([f"{len(best)} found{note}", *shown], turn.budget, "name fewer types")


@dataclass(frozen=True, slots=True)
class _Search:
    """One query over one property of one type, whose names come from the schema alone."""

    kind: str
    prop: str
    text: str

    def told(self, row: Mapping[str, Any]) -> dict[str, Any]:
        said = {"type": self.kind, "id": row["id"], "score": round(float(row["score"]), 4)}
        if "label" in row:
            said["label"] = row["label"]
        return said | {"in": self.prop, "text": _excerpt(row["text"])}


def _searched(catalog: Catalog, types: list[str], *, by_meaning: bool) -> Iterator[NodeType]:
    for word in types:
        if not any(isinstance(one, NodeType) for one in catalog.types_named(word)):
            known = ", ".join(catalog.nodes)
            raise BadRequestError(f"there is no node type '{word}'", hint=f"there are {known}")
    nodes = [one for one in catalog.nodes.values() if not types or one.name in types]
    found = [one for one in nodes if (one.embeds if by_meaning else searched_properties(one))]
    if not found:
        raise BadRequestError(
            "none of these types can be searched like that", hint="`read` filters by any property"
        )
    return iter(found)


def _searches(node: NodeType, *, by_meaning: bool) -> Iterator[_Search]:
    label = label_of(node)
    named = f", $x.{label} as label" if label else ""
    if by_meaning:
        for embed in node.embeds.values():
            score = f"nearest($x.{embed.target}, $text)"
            yield _search(node, embed.source, named, score, "")
        return
    for prop in searched_properties(node):
        yield _search(node, prop, named, f"bm25($x.{prop}, $text)", " desc")


def _search(node: NodeType, prop: str, named: str, score: str, down: str) -> _Search:
    shown = f"$x.id as id{named}, $x.{prop} as text, {score} as score"
    text = (
        f"query find($text: String, $n: I64) {{ match {{ $x: {node.name} }} "
        f"return {{ {shown} }} order {{ {score}{down} }} limit $n }}"
    )
    return _Search(node.name, prop, text)


def _excerpt(text: str | None) -> str | None:
    return text if text is None or len(text) <= 160 else f"{text[:160]}…"


# What is around a node.


def neighbours(turn: Turn) -> str:
    """Return one node with its neighbours by edge type, a few of each, and how many there are."""
    catalog, wanted = turn.desk.catalog, turn.given["id"]
    node = catalog.nodes.get(turn.given["type"])
    if node is None:
        known = ", ".join(catalog.nodes)
        raise BadRequestError(
            f"there is no node type '{turn.given['type']}'", hint=f"there are {known}"
        )
    own = _own_query(node)
    now = state(turn, None).query(own, None, {"id": wanted}, **turn.how)
    if not len(now):
        raise NotFoundError(f"there is no {node.name} '{wanted}'", hint="ids are case-sensitive")
    reads = state(turn, now.commit_id)  # all of it is of one commit
    lines = [f"{node.name} {json_text(_present(now.to_json_rows()[0]))}"]
    edges = turn.given.get("edges", ())
    for edge in _touching(catalog, node, edges):
        for forward in (True, False):
            if node.name == (edge.from_type if forward else edge.to_type):
                lines += _around(turn, reads, catalog, node, edge, forward=forward)
    lines.append(f"commit {now.commit_id}")
    return lines_text(lines, turn.budget, "name `edges`")


def _own_query(node: NodeType) -> str:
    shown = ["$n.id as id"]
    shown += [
        f"$n.{one.name}"
        for one in node.properties.values()
        if one.name not in node.embeds and one.name not in node.blobs and one.type.dim is None
    ]
    match = f"match {{ $n: {node.name} $n.id = $id }}"
    return f"query own($id: String) {{ {match} return {{ {', '.join(shown)} }} }}"


def _present(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.removeprefix("n."): _excerpt(one) if isinstance(one, str) else one
        for name, one in row.items()
        if one is not None
    }


def _touching(catalog: Catalog, node: NodeType, words: list[str]) -> Iterator[EdgeType]:
    chosen = {one.name for word in words if (one := catalog.find_edge(word)) is not None}
    if words and len(chosen) < len(set(words)):
        known = ", ".join(edge_word(one) for one in catalog.edges)
        raise BadRequestError("`edges` names an edge type there is not", hint=f"there are {known}")
    for edge in catalog.edges.values():
        if node.name in (edge.from_type, edge.to_type) and (not chosen or edge.name in chosen):
            yield edge


def _around(
    turn: Turn, reads: Reads, catalog: Catalog, node: NodeType, edge: EdgeType, *, forward: bool
) -> list[str]:
    other = catalog.nodes[edge.to_type if forward else edge.from_type]
    label = label_of(other)
    word = edge_word(edge.name)
    step = f"$n $e:{word} $m" if forward else f"$m $e:{word} $n"
    shown = ["$m.id as id"]
    shown += [f"$m.{label} as label"] if label else []
    shown += [f"$e.{one.name} as e_{one.name}" for one in edge.properties.values()]
    match = f"match {{ $n: {node.name} $m: {other.name} $n.id = $id {step} }}"
    params = {"id": turn.given["id"]}
    count = f"query c($id: String) {{ {match} return {{ count($e) as n }} }}"
    total = reads.query(count, None, params, **turn.how).to_json_rows()[0]["n"]
    if not total:
        return []
    rows = f"query r($id: String) {{ {match} return {{ {', '.join(shown)} }} limit {_SHOWN} }}"
    found = reads.query(rows, None, params, **turn.how).to_json_rows()
    arrow = f"{word} -> {other.name}" if forward else f"<- {word} {other.name}"
    told = [
        json_text({k.removeprefix("e_"): v for k, v in one.items() if v is not None})
        for one in found
    ]
    more = [f"  …(+{total - len(found)}; read them)"] if total > len(found) else []
    return [f"{arrow}: {total}", *(f"  {one}" for one in told), *more]


# How it came to be.


def diff(turn: Turn) -> str:
    """Return what a branch changed since it left another one, a line per node or edge."""
    branch, against = turn.given["branch"], turn.text("against") or "main"
    return diff_text(turn, branch, against)


def diff_text(turn: Turn, branch: str, against: str) -> str:
    """Return what a branch has that another one has not, as text."""
    graph, both = turn.desk.graph, f"{against}...{branch}"
    total = graph.diff(both).summary().stats.total
    # Of more changes than could be told, no more are looked at.
    most = turn.budget.chars // _SHORTEST_LINE
    lines = list(islice(change_lines(graph.diff(both, images="both")), most))
    head = f"{total} changes on {branch} since {against}"
    return lines_text([head, *lines], turn.budget, "`read` the branch for more", 1 + total)


def history(turn: Turn) -> str:
    """Return the commits that changed one node or edge, newest first."""
    key = _table_key(turn)
    found = turn.desk.graph.entity_history(
        key, turn.given["id"], branch=turn.branch, limit=turn.budget.rows
    )
    lines = []
    for one in found.versions:
        names = ", ".join(one.changed)
        lines.append(f"{one.op} {names}  {_commit(one.commit)}".replace("  ", " ", 1))
    return lines_text(lines or ["no commit changed it"], turn.budget)


def _table_key(turn: Turn) -> str:
    return turn.desk.catalog.type_named(turn.given["type"]).table_key


def log(turn: Turn) -> str:
    """Return the newest commits of a branch."""
    found = turn.desk.graph.commits.list(turn.branch, limit=turn.budget.rows)
    return lines_text([_commit(one) for one in found], turn.budget)


def _commit(one: GraphCommit) -> str:
    when = datetime.fromtimestamp(one.created_at / 1e6, UTC).isoformat(timespec="seconds")
    who = one.actor_id or "nobody"
    why = f" {one.message}" if one.message else ""
    return f"{one.graph_commit_id} {when} {who}{why}"


READING: Final = (
    Tool(
        "schema",
        "The types of the graph, compact: properties, keys, what edges connect. Begin here.",
        (Argument("types", "array", "only these types", item="string"),),
        schema,
    ),
    Tool(
        "read",
        "Run one read query. Rows come in pages of one commit. An error says where and what to "
        "write instead: correct the text and call again.",
        (QUERY, NAME, PARAMS, BRANCH, CURSOR, MAX_ROWS),
        read,
    ),
    Tool(
        "check",
        "Compile a query or mutation without running it: its plan, or every error with its place.",
        (QUERY, NAME, BRANCH),
        check,
    ),
    Tool(
        "search",
        "Find nodes by the words of their texts, or by meaning; returns types and ids.",
        (
            Argument("text", "string", "what is looked for", required=True),
            Argument("types", "array", "only these node types", item="string"),
            Argument("by", "string", "words unless said", words=_WAYS),
            BRANCH,
            MAX_ROWS,
        ),
        search,
    ),
    Tool(
        "neighbours",
        "One node and what is around it, by edge type: how many, and the first of each.",
        (
            Argument("type", "string", "its node type", required=True),
            ID,
            Argument("edges", "array", "only these edge types", item="string"),
            BRANCH,
        ),
        neighbours,
    ),
    Tool(
        "diff",
        "What a branch changed since it left another one: + inserted, ~ changed, - deleted.",
        (
            Argument("branch", "string", "the branch", required=True),
            Argument("against", "string", "main if none is named"),
        ),
        diff,
    ),
    Tool(
        "history",
        "Which commits changed one node or edge, newest first.",
        (TYPE, ID, BRANCH, MAX_ROWS),
        history,
        group="more",
    ),
    Tool(
        "log",
        "The newest commits of a branch: when, by whom and why.",
        (BRANCH, MAX_ROWS),
        log,
        group="more",
    ),
)
