"""The one entry from query text to IR, cached. Pure: the same text and schema give the same IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.base.recent import Recent
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.diagnostics import DiagnosticList, did_you_mean
from omnigraph.compiler.ir.facts import facts_of
from omnigraph.compiler.ir.lower import lower
from omnigraph.compiler.ir.ops import (
    Aggregate,
    Column,
    Ir,
    MutationIr,
    Param,
    ReadIr,
    Rrf,
    TextMatch,
    iter_exprs,
)
from omnigraph.compiler.ir.optimize import COST, LOGICAL, rewrite
from omnigraph.compiler.ir.reads import NOTHING, Reads, reads_of
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.params import (
    ParamMode,
    ParamValue,
    bind_params,
    check_count,
    check_row_count,
)
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typecheck import check_query, typecheck
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError, NotFoundError


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """Values for one execution: parameters by name, and how many rows to skip and return."""

    params: Mapping[str, ParamValue]
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """A query ready to be planned for any snapshot of its schema; itself a key of what is kept.

    `counts` are parameters of search functions that must be whole and large enough: word,
    parameter, lowest value.
    """

    name: str
    ir: Ir
    description: str | None = None
    instruction: str | None = None
    counts: tuple[tuple[str, Param, int], ...] = ()
    reads: Reads = field(init=False, repr=False)
    """What it touches; nothing, if it writes."""

    def __post_init__(self) -> None:
        reads = reads_of(self.ir) if isinstance(self.ir, ReadIr) else NOTHING
        object.__setattr__(self, "reads", reads)

    @property
    def params(self) -> tuple[Param, ...]:
        """The declared parameters."""
        return self.ir.params

    @property
    def columns(self) -> tuple[Column, ...]:
        """The result columns; a mutation has none."""
        return self.ir.columns if isinstance(self.ir, ReadIr) else ()

    @property
    def is_mutation(self) -> bool:
        """Whether running it writes."""
        return isinstance(self.ir, MutationIr)

    def bind(
        self,
        given: Mapping[str, Any] | None,
        *,
        now_ms: int,
        mode: ParamMode = ParamMode.STANDARD,
    ) -> BoundQuery:
        """Return checked values for one execution.

        Raises:
            ParamError: a value is missing, of the wrong type or out of range.
        """
        params = bind_params(self.ir.params, given, now_ms=now_ms, mode=mode)
        if not isinstance(self.ir, ReadIr):
            return BoundQuery(params)
        for word, param, lowest in self.counts:
            check_count(word, param, lowest, params)
        limit = check_row_count("limit", self.ir.limit, params)
        offset = check_row_count("offset", self.ir.offset, params)
        return BoundQuery(params, limit, offset or 0)


class QueryNotFoundError(NotFoundError):
    """A text has no query of that name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        hint = did_you_mean(name, known)
        if hint is None:
            hint = f"the text has {', '.join(known)}" if known else "the text has no queries"
        super().__init__(f"query '{name}' not found", hint=hint)


class AmbiguousQueryError(BadRequestError):
    """A text has several queries, or none, and no name was given."""

    def __init__(self, known: tuple[str, ...]) -> None:
        count = f"multiple queries ({len(known)})" if known else "no queries"
        names = f"name one of {', '.join(known)}" if known else None
        super().__init__(f"the text has {count}; which one is meant?", hint=names)


def compile_file(catalog: Catalog, source: Source) -> tuple[CompiledQuery, ...]:
    """Compile every query of a text.

    Raises:
        DiagnosticsError: every problem of every query, in source order.
    """
    parsed = parse_queries(source)
    findings = DiagnosticList(source)
    checked = [check_query(catalog, query, findings) for query in parsed.queries]
    findings.raise_if_errors()
    facts = facts_of(catalog)
    return tuple(
        _compiled(query, rewrite(lower(meaning), facts, LOGICAL))
        for query, meaning in zip(parsed.queries, checked, strict=True)
    )


def compile_query(catalog: Catalog, source: Source | str, name: str | None = None) -> CompiledQuery:
    """Compile one query of a text; without a name the text has exactly one.

    Raises:
        DiagnosticsError: the text does not parse, or the query does not type-check.
        QueryNotFoundError: the text has no such query.
        AmbiguousQueryError: no name was given and the text does not have exactly one query.
    """
    return _CACHE.compile(catalog, source, name)


def known_query(catalog: Catalog, source: Source, name: str | None = None) -> CompiledQuery | None:
    """Return a query that was compiled before, or None: asking costs next to nothing."""
    return _CACHE.find(catalog, source.text, name)


def parse_once(source: Source) -> ast.QueryFile:
    """Return every query of a text, as `compile_query` will find them.

    Raises:
        DiagnosticsError: every broken declaration, in source order.
    """
    return _CACHE.parse(source)


def plan_by_schema(catalog: Catalog, compiled: CompiledQuery) -> Ir:
    """Return a query as it would run on data of which nothing is known."""
    return rewrite(compiled.ir, facts_of(catalog), COST)


class CompileCache:
    """The most recently used queries by schema hash, text and name; safe to share by threads."""

    def __init__(self, capacity: int) -> None:
        self._entries: Recent[tuple[str, str, str | None], CompiledQuery] = Recent(capacity)
        self._texts: Recent[str, ast.QueryFile] = Recent(_TEXTS)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, catalog: Catalog, text: str, name: str | None) -> CompiledQuery | None:
        """Return what a text was compiled to before, if that is still kept."""
        return self._entries.find((catalog.schema_hash, text, name))

    def compile(
        self, catalog: Catalog, source: Source | str, name: str | None = None
    ) -> CompiledQuery:
        """Return the compiled query, from the cache when it was compiled before."""
        text = source if isinstance(source, str) else source.text
        if name is not None and not isinstance(name, str):
            raise BadRequestError(f"the name of a query must be text, not {type(name).__name__}")
        key = (catalog.schema_hash, text, name)
        known = self._entries.find(key)
        if known is not None:
            return known
        named = Source(text) if isinstance(source, str) else source
        compiled = self._compiled(catalog, named, name)
        # A catalog without a hash is not identified by it: two of them would share entries.
        return self._entries.keep(key, compiled) if catalog.schema_hash else compiled

    def parse(self, source: Source) -> ast.QueryFile:
        """Return the queries of a text, parsed once; equal texts have them at equal places."""
        known = self._texts.find(source.text)
        return self._texts.keep(source.text, parse_queries(source)) if known is None else known

    def _compiled(self, catalog: Catalog, source: Source, name: str | None) -> CompiledQuery:
        query = _find(self.parse(source).queries, name)
        meaning = lower(typecheck(catalog, source, query))
        return _compiled(query, rewrite(meaning, facts_of(catalog), LOGICAL))


_TEXTS = 16
"""Texts whose queries are kept: a text of many is compiled query by query."""
_CACHE = CompileCache(capacity=1024)


def _compiled(query: ast.Query, ir: Ir) -> CompiledQuery:
    counts = tuple(_counts(ir)) if isinstance(ir, ReadIr) else ()
    return CompiledQuery(query.name, ir, query.description, query.instruction, counts)


def _counts(ir: ReadIr) -> Iterator[tuple[str, Param, int]]:
    for expr in iter_exprs(ir):
        value = expr.arg if isinstance(expr, Aggregate) else expr
        match value:
            case Rrf(k=Param() as k):
                yield "k", k, 1
            case TextMatch(max_edits=Param() as edits):
                yield "max_edits", edits, 0
            case _:
                pass


def _find(queries: tuple[ast.Query, ...], name: str | None) -> ast.Query:
    known = tuple(query.name for query in queries)
    if name is None:
        if len(queries) != 1:
            raise AmbiguousQueryError(known)
        return queries[0]
    for query in queries:
        if query.name == name:
            return query
    raise QueryNotFoundError(name, known)
