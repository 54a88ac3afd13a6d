"""A whole query file against a schema: what is wrong, what looks forgotten. Never raises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph.compiler.catalog.model import Catalog, NodeType
from omnigraph.compiler.diagnostics import (
    Diagnostic,
    DiagnosticList,
    DiagnosticsError,
    Phase,
    Severity,
    place,
)
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typecheck import check_query
from omnigraph.compiler.source import Source

PARSE_CODE = "Q000"
NEVER_SET_CODE = "L201"
HARDCODED_CODE = "L202"
HARDCODED = "mutation declares no params; hardcoded mutations are easy to miss"

_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_LABELS = {Severity.ERROR: "ERROR ", Severity.WARNING: "WARN  ", Severity.INFO: "INFO  "}


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """Where the schema came from: a file, or a graph."""

    kind: str
    location: str

    @staticmethod
    def file(path: str) -> SchemaSource:
        """A schema file."""
        return SchemaSource("file", path)

    @staticmethod
    def repo(uri: str) -> SchemaSource:
        """The accepted schema of a graph."""
        return SchemaSource("repo", uri)

    def to_json_value(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"kind": self.kind, "path" if self.kind == "file" else "uri": self.location}


@dataclass(frozen=True, slots=True)
class QueryLintResult:
    """The outcome of one query; `error` is the first problem's line."""

    name: str
    kind: str
    error: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`ok` or `error`."""
        return "ok" if self.error is None else "error"

    def to_json_value(self) -> dict[str, Any]:
        """Return the JSON form; only an error that is none is left out."""
        out: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
            "warnings": list(self.warnings),
        }
        if self.error is not None:
            out["error"] = self.error
        return out


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Something about the file as a whole."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

    def to_json_value(self) -> dict[str, Any]:
        """Return the JSON form; what a finding is not about is left out."""
        out: dict[str, Any] = {
            "severity": str(self.severity),
            "code": self.code,
            "message": self.message,
        }
        if self.type_name is not None:
            out["type_name"] = self.type_name
        if self.property is not None:
            out["property"] = self.property
        out["query_names"] = list(self.query_names)
        return out


@dataclass(frozen=True, slots=True)
class QueryLintOutput:
    """Everything lint has to say; `diagnostics` carry the places for terminals."""

    schema_source: SchemaSource
    query_path: str
    queries_processed: int
    results: tuple[QueryLintResult, ...]
    findings: tuple[LintFinding, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def status(self) -> str:
        """`error` when there is at least one error, else `ok`."""
        return "error" if self.errors else "ok"

    @property
    def errors(self) -> int:
        """Failing queries and error findings."""
        failed = sum(result.error is not None for result in self.results)
        return failed + self._count(Severity.ERROR)

    @property
    def warnings(self) -> int:
        """Warnings of queries and warning findings."""
        return sum(len(r.warnings) for r in self.results) + self._count(Severity.WARNING)

    @property
    def infos(self) -> int:
        """Info findings."""
        return self._count(Severity.INFO)

    def _count(self, severity: Severity) -> int:
        return sum(found.severity is severity for found in self.findings)

    def to_json_value(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "status": self.status,
            "schema_source": self.schema_source.to_json_value(),
            "query_path": self.query_path,
            "queries_processed": self.queries_processed,
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [result.to_json_value() for result in self.results],
            "findings": [found.to_json_value() for found in self.findings],
        }

    def lines(self) -> Iterator[str]:
        """Yield the human form, one line per outcome."""
        for result in self.results:
            if result.error is None:
                yield f"OK    query `{result.name}` ({result.kind})"
            else:
                yield f"ERROR query `{result.name}`: {result.error}"
            for warning in result.warnings:
                yield f"WARN  query `{result.name}`: {warning}"
        for found in self.findings:
            yield f"{_LABELS[found.severity]}{found.message}"
        yield (
            f"INFO  Lint complete: {self.queries_processed} queries processed "
            f"({self.errors} error(s), {self.warnings} warning(s), {self.infos} info item(s))"
        )


def lint_queries(
    catalog: Catalog, source: Source, query_path: str, schema_source: SchemaSource
) -> QueryLintOutput:
    """Check every query of a file; one broken query does not hide the others."""
    try:
        queries = parse_queries(source).queries
    except DiagnosticsError as error:
        return _unparsed(error, query_path, schema_source)
    results: list[QueryLintResult] = []
    diagnostics: list[Diagnostic] = []
    sound: list[ast.Query] = []
    for query in queries:
        problems = _check(catalog, source, query)
        diagnostics += problems
        if not problems:
            sound.append(query)
        warnings: tuple[str, ...] = ()
        if query.is_mutation and not query.params:
            warnings = (HARDCODED,)
            diagnostics.append(_warning(HARDCODED_CODE, HARDCODED, query))
        kind = "mutation" if query.is_mutation else "read"
        first = problems[0].headline() if problems else None
        results.append(QueryLintResult(query.name, kind, first, warnings))
    findings = sorted(_never_set(catalog, sound), key=_order)
    return QueryLintOutput(
        schema_source, query_path, len(queries), tuple(results), tuple(findings), tuple(diagnostics)
    )


def _unparsed(
    error: DiagnosticsError, query_path: str, schema_source: SchemaSource
) -> QueryLintOutput:
    first = error.diagnostics[0]
    where = place(error.source, first.span)
    found = LintFinding(Severity.ERROR, PARSE_CODE, f"{where}: {first.headline()}")
    return QueryLintOutput(schema_source, query_path, 0, (), (found,), error.diagnostics)


def _check(catalog: Catalog, source: Source, query: ast.Query) -> list[Diagnostic]:
    findings = DiagnosticList(source)
    check_query(catalog, query, findings)
    return sorted(findings.items, key=lambda found: found.span.start if found.span else -1)


def _warning(code: str, message: str, query: ast.Query) -> Diagnostic:
    return Diagnostic(
        code,
        Phase.LINT,
        message,
        query.name_span,
        severity=Severity.WARNING,
        hint="add a parameter",
    )


def _never_set(catalog: Catalog, queries: list[ast.Query]) -> Iterator[LintFinding]:
    """Yield optional properties that no update of a type with updates ever sets."""
    names: dict[str, set[str]] = {}
    assigned: dict[str, set[str]] = {}
    for query in queries:
        if not isinstance(query.body, ast.MutationBody):
            continue
        for statement in query.body.statements:
            if isinstance(statement, ast.Update):
                names.setdefault(statement.type_name, set()).add(query.name)
                seen = assigned.setdefault(statement.type_name, set())
                seen |= {item.name for item in statement.assignments}
    for type_name, updates in names.items():
        node = catalog.nodes.get(type_name)
        if node is None:
            continue
        for prop in _updatable(node):
            if prop not in assigned[type_name]:
                message = f"{type_name}.{prop} exists in schema but no update query sets it"
                yield LintFinding(
                    Severity.WARNING,
                    NEVER_SET_CODE,
                    message,
                    type_name,
                    prop,
                    tuple(sorted(updates)),
                )


def _updatable(node: NodeType) -> Iterator[str]:
    for name, prop in node.properties.items():
        if prop.type.nullable and name not in node.key and name not in node.embeds:
            yield name


def _order(found: LintFinding) -> tuple[int, str, str, str]:
    return _RANK[found.severity], found.type_name or "", found.property or "", found.message
