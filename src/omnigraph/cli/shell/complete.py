r"""What may come next in a typed text, from the schema. Pure: no terminal, no graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType

KEYWORDS = (
    "match", "return", "order", "limit", "offset", "distinct", "not", "and", "in", "contains",
    "starts_with", "is", "null", "desc", "asc", "as", "query", "insert", "update", "delete", "set",
    "where", "search", "match_text", "fuzzy", "nearest", "bm25", "rrf", "count", "sum", "avg",
    "min", "max", "now", "true", "false",
)  # fmt: skip

_COMMAND = re.compile(r"^\s*\\(\w*)$")
_BRANCH = re.compile(r"^\s*\\branch\s+(\S*)$")
_DESCRIBED = re.compile(r"^\s*\\d\s+(\w*)$")
_PROPERTY = re.compile(r"\$(\w+)\.(\w*)$")
_TYPE = re.compile(r"(?:\$\w+\s*:|\b(?:insert|update|delete))\s*(\w*)$")
_TRAVERSAL = re.compile(r"\$\w+\s+(?:\$\w+:\s*)?<?(\w*)$")
_INLINE = re.compile(r"(?:\$\w+\s*:|\b(?:insert|update))\s*(\w+)(?:\s+set)?\s*\{([^{}]*)$")
_WHERE = re.compile(r"\b(?:update|delete)\s+(\w+)\b[^;]*\bwhere\s+(?:.*\band\s+)?(\w*)$", re.DOTALL)
_VARIABLE = re.compile(r"\$(\w*)$")
_WORD = re.compile(r"(\w*)$")
_BOUND = re.compile(r"\$(\w+)\s*:\s*([A-Z]\w*)")
_EDGE_BOUND = re.compile(r"\$(\w+)\s*:\s*([a-z]\w*)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that fits; it replaces the last `typed` characters."""

    text: str
    typed: int
    kind: str


def complete(
    before: str, catalog: Catalog, commands: Iterable[str], branches: Iterable[str] = ()
) -> list[Candidate]:
    """Return what fits at the end of `before`, sorted as it should be shown."""
    if found := _COMMAND.search(before):
        return _fitting(commands, found.group(1), "command")
    if found := _BRANCH.search(before):
        return _fitting(branches, found.group(1), "branch")
    if found := _DESCRIBED.search(before):
        return _fitting([*catalog.nodes, *catalog.edges], found.group(1), "type")
    if found := _PROPERTY.search(before):
        return _fitting(_properties_of(found.group(1), before, catalog), found.group(2), "property")
    if found := _INLINE.search(before):
        started = re.search(r"(?:^|[,\s])(\w*)$", found.group(2))
        owner = _type(found.group(1), catalog)
        if started and owner is not None:
            return _fitting(_names(owner), started.group(1), "property")
    if (found := _WHERE.search(before)) and (owner := _type(found.group(1), catalog)) is not None:
        return _fitting(_names(owner), found.group(2), "property")
    if found := _TYPE.search(before):
        return _fitting([*catalog.nodes, *catalog.edges], found.group(1), "type")
    if found := _TRAVERSAL.search(before):
        words = [name[:1].lower() + name[1:] for name in catalog.edges]
        return _fitting(words, found.group(1), "edge")
    if found := _VARIABLE.search(before):
        seen = dict.fromkeys(re.findall(r"\$(\w+)", before[: found.start()]))
        return _fitting(seen, found.group(1), "variable")
    word = _WORD.search(before)
    started_with = word.group(1) if word else ""
    return _fitting(KEYWORDS, started_with, "keyword") if started_with else []


def _fitting(words: Iterable[str], started: str, kind: str) -> list[Candidate]:
    folded = started.lower()
    return [
        Candidate(word, len(started), kind)
        for word in words
        if word.lower().startswith(folded) and word != started
    ]


def _properties_of(variable: str, before: str, catalog: Catalog) -> Iterator[str]:
    """Yield the properties of a variable's type; of every type when that is not known yet."""
    owner: NodeType | EdgeType | None = None
    for name, type_name in _BOUND.findall(before):
        if name == variable:
            owner = catalog.nodes.get(type_name)
    for name, word in _EDGE_BOUND.findall(before):
        if name == variable:
            owner = catalog.find_edge(word)
    owners: list[NodeType | EdgeType] = (
        [owner] if owner else [*catalog.nodes.values(), *catalog.edges.values()]
    )
    yield from dict.fromkeys(name for one in owners for name in _names(one))


def _type(name: str, catalog: Catalog) -> NodeType | EdgeType | None:
    return catalog.nodes.get(name) or catalog.edges.get(name)


def _names(owner: NodeType | EdgeType) -> list[str]:
    ends = ["from", "to"] if isinstance(owner, EdgeType) else []
    return [*owner.properties, *ends]
