"""Every golden query text turns into the diagnostics, columns, plans and layout beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import compile_file, plan_by_schema
from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, DiagnosticsError
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.ir.lower import lower
from omnigraph.compiler.query.format import format_queries
from omnigraph.compiler.query.lint import SchemaSource, lint_queries
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typecheck import check_query
from omnigraph.compiler.source import Source
from tests.support.cases import Case, cases

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDERS = ("query", "typecheck", "lower", "lint")


def outputs(case: Case, catalog):
    source = Source(case.text, case.path.name)
    return {
        "diagnostics": lambda: diagnostics(catalog, source),
        "columns": lambda: columns(catalog, source),
        "lowered": lambda: lowered(catalog, source),
        "plan": lambda: planned(catalog, source),
        "format": lambda: formatted(source),
        "lint": lambda: json.dumps(lint(catalog, source).to_json_value(), indent=1),
        "lines": lambda: "\n".join(lint(catalog, source).lines()),
    }


def diagnostics(catalog, source: Source) -> str:
    try:
        compile_file(catalog, source)
    except DiagnosticsError as error:
        return "\n".join(line for found in error.diagnostics for line in _lines(source, found))
    return "none"


def _lines(source: Source, found: Diagnostic) -> list[str]:
    at = source.position(found.span.start)
    shown = source.text[found.span.start : found.span.end].split("\n")[0]
    head = f"{found.severity}[{found.code}] {at.line}:{at.column} {found.message}"
    lines = [head, f"  at: {shown}"]
    return lines if found.hint is None else [*lines, f"  hint: {found.hint}"]


def columns(catalog, source: Source) -> str:
    return "\n".join(
        f"{query.name}: " + ", ".join(f"{column.name} {column.type}" for column in query.columns)
        for query in compile_file(catalog, source)
    )


def lowered(catalog, source: Source) -> str:
    findings = DiagnosticList(source)
    checked = [check_query(catalog, q, findings) for q in parse_queries(source).queries]
    findings.raise_if_errors()
    return "\n".join(explain_query(lower(query)) for query in checked)


def planned(catalog, source: Source) -> str:
    found = (plan_by_schema(catalog, query) for query in compile_file(catalog, source))
    return "\n".join(map(explain_query, found))


def formatted(source: Source) -> str:
    text = format_queries(source)
    assert format_queries(Source(text)) == text
    assert parse_queries(Source(text)) == parse_queries(source)
    return text


def lint(catalog, source: Source):
    return lint_queries(catalog, source, source.name, SchemaSource.file("social.pg"))


@pytest.fixture(scope="module")
def catalogs():
    loaded: dict[Path, object] = {}

    def load(path: Path):
        if path not in loaded:
            loaded[path] = load_schema(Source(path.read_text(encoding="utf-8"))).catalog
        return loaded[path]

    return load


@pytest.mark.parametrize("case", [case for folder in FOLDERS for case in cases(folder, ".gq")])
def test_query_case(case: Case, golden, catalogs) -> None:
    catalog = catalogs(case.sibling(case.headers.get("schema", "social.pg")))
    golden(case, outputs(case, catalog))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.gq")), ids=lambda path: path.stem)
def test_the_examples_compile_and_are_in_the_one_layout(path: Path, catalogs) -> None:
    source = Source(path.read_text(encoding="utf-8"), path.name)
    catalog = catalogs(EXAMPLES / "company.pg")
    assert compile_file(catalog, source)
    assert formatted(source) == source.text
    assert lint(catalog, source).errors == 0
