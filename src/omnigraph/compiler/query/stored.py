"""Queries that are called by name: what a text declares, and whether it holds under a schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.api.stored import (
    TOOL_PREFIX,
    ParamKind,
    StoredParam,
    StoredQuery,
    StoredQueryError,
)
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.diagnostics import DiagnosticList, DiagnosticsError
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typecheck import check_query
from omnigraph.compiler.source import Source

_KINDS: dict[str, ParamKind] = {
    "String": "string",
    "enum": "string",
    "Bool": "bool",
    "I32": "int",
    "U32": "int",
    "I64": "bigint",
    "U64": "bigint",
    "F32": "float",
    "F64": "float",
    "Date": "date",
    "DateTime": "datetime",
    "Blob": "blob",
    "Vector": "vector",
}


@dataclass(frozen=True, slots=True)
class StoredText:
    """One stored query with the text it stands in."""

    query: StoredQuery
    source: Source
    declared: ast.Query

    def check(self, catalog: Catalog) -> None:
        """Return only if the query means something under a schema.

        Raises:
            StoredQueryError: it does not; says which query it is, and where.
        """
        findings = DiagnosticList(self.source)
        check_query(catalog, self.declared, findings)
        with self.naming():
            findings.raise_if_errors()

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Say which query it is where its text is refused: who calls it may not see the text.

        Raises:
            StoredQueryError: the text is refused.
        """
        try:
            yield
        except DiagnosticsError as error:
            name = self.query.name
            file = self.source.name  # where it is kept is nothing to whoever calls it
            told = error.message.replace(file, file.rpartition("/")[2])
            text = f"stored query '{name}': {told}"
            raise StoredQueryError(text, query=name, hint=error.hint) from error


def read_stored(sources: Iterable[Source], exposed: Collection[str]) -> dict[str, StoredText]:
    """Return every query of some texts by its name, sorted.

    Args:
        sources: the texts.
        exposed: the writes that agents may be given as tools.

    Raises:
        DiagnosticsError: a text does not parse.
        StoredQueryError: a name is there twice, or a parameter has a type that there is not; or
            what is exposed is no write.
    """
    found: dict[str, StoredText] = {}
    for source in sources:
        for query in parse_queries(source).queries:
            if query.name in found:
                other = found[query.name].source.name
                text = f"stored query '{query.name}' is there twice: {other} and {source.name}"
                raise StoredQueryError(text, query=query.name, hint="rename one of them")
            found[query.name] = StoredText(_described(query, exposed), source, query)
    for name in exposed:
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise StoredQueryError(
                f"`queries.expose` names '{name}', which is no stored query",
                query=name,
                hint=f"the stored queries are {known}",
            )
    return dict(sorted(found.items()))


def _described(query: ast.Query, exposed: Collection[str]) -> StoredQuery:
    return StoredQuery(
        query.name,
        TOOL_PREFIX + query.name,
        query.description,
        query.instruction,
        query.is_mutation,
        tuple(_params(query)),
        not query.is_mutation or query.name in exposed,
    )


def _params(query: ast.Query) -> Iterator[StoredParam]:
    for param in query.params:
        kind = _KINDS.get(param.type.name)
        if kind is None:
            text = f"stored query '{query.name}': ${param.name} has no type '{param.type.name}'"
            raise StoredQueryError(text, query=query.name, hint=f"use {', '.join(_KINDS)}")
        nullable = param.type.nullable
        if param.type.is_list:
            yield StoredParam(param.name, "list", nullable, kind)
        else:
            yield StoredParam(param.name, kind, nullable, vector_dim=param.type.dim)
