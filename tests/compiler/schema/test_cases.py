"""Every golden schema text turns into the diagnostics, IR and layout beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.ir_json import from_json, to_json
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.schema.format import format_schema
from omnigraph.compiler.source import Source
from tests.support.cases import Case, cases


def diagnostics(source: Source) -> str:
    try:
        load_schema(source)
    except DiagnosticsError as error:
        return "\n".join(line for found in error.diagnostics for line in _lines(source, found))
    return "none"


def _lines(source: Source, found) -> list[str]:
    at = source.position(found.span.start)
    head = f"{found.severity}[{found.code}] {at.line}:{at.column} {found.message}"
    return [head] if found.hint is None else [head, f"  hint: {found.hint}"]


def ir(source: Source) -> str:
    text = to_json(load_schema(source).ir)
    assert to_json(from_json(text)) == text
    return json.dumps(json.loads(text), indent=1)


def formatted(source: Source) -> str:
    text = format_schema(source)
    assert format_schema(Source(text)) == text
    return text


@pytest.mark.parametrize("case", cases("schema", ".pg"))
def test_schema_case(case: Case, golden) -> None:
    source = Source(case.text, case.path.name)
    golden(
        case,
        {
            "diagnostics": lambda: diagnostics(source),
            "ir": lambda: ir(source),
            "format": lambda: formatted(source),
        },
    )


def test_the_example_schema_is_in_the_one_layout() -> None:
    text = (Path(__file__).parents[3] / "examples" / "company.pg").read_text(encoding="utf-8")
    assert format_schema(Source(text)) == text
