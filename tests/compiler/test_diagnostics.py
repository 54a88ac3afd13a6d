import pytest

from omnigraph.compiler.diagnostics import (
    Diagnostic,
    DiagnosticList,
    DiagnosticsError,
    Phase,
    Severity,
    did_you_mean,
    render,
    to_json,
)
from omnigraph.compiler.source import Position, Source, Span
from omnigraph.errors import CompileError

SOURCE = Source("query adults() {\n\tmatch { $p.agee >= 1 }\n}\n", "people.gq")
AT = SOURCE.text.index("agee")
FOUND = Diagnostic(
    "T6",
    Phase.TYPE,
    "Person has no property `agee`",
    Span(AT, AT + 4),
    hint="did you mean `age`?",
)


def test_a_finding_is_rendered_with_its_line_and_caret():
    assert render(SOURCE, FOUND) == (
        "error[T6]: Person has no property `agee`\n"
        " --> people.gq:2:13\n"
        "  |\n"
        "2 | \tmatch { $p.agee >= 1 }\n"
        "  | \t           ^^^^\n"
        "  hint: did you mean `age`?"
    )


def test_colour_adds_only_escape_codes():
    painted = render(SOURCE, FOUND, color=True)
    assert "\x1b[1;31m" in painted
    plain = painted
    for code in ("\x1b[1;31m", "\x1b[1m", "\x1b[1;34m", "\x1b[1;32m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == render(SOURCE, FOUND)


def test_json_spans_are_bytes_and_never_empty():
    source = Source("é$x")
    found = Diagnostic("P010", Phase.PARSE, "odd", Span(1, 1))
    assert to_json(source, found)["span"] == {"start": 2, "end": 3}
    assert to_json(SOURCE, FOUND) == {
        "code": "T6",
        "severity": "error",
        "phase": "type",
        "message": "Person has no property `agee`",
        "file": "people.gq",
        "line": 2,
        "column": 13,
        "span": {"start": AT, "end": AT + 4},
        "hint": "did you mean `age`?",
    }


def test_all_errors_are_raised_together_in_source_order():
    findings = DiagnosticList(SOURCE)
    findings.add(FOUND)
    findings.add(Diagnostic("T1", Phase.TYPE, "unknown type", Span(0, 5)))
    findings.add(Diagnostic("L201", Phase.LINT, "only a warning", severity=Severity.WARNING))
    with pytest.raises(DiagnosticsError) as caught:
        findings.raise_if_errors()
    error = caught.value
    assert isinstance(error, CompileError)
    assert [found.code for found in error.diagnostics] == ["T1", "T6"]
    assert str(error) == "people.gq:1:1: type error: T1: unknown type (and 1 more)"
    assert error.render().count("-->") == 2


def test_a_very_long_line_is_cut_around_the_place():
    source = Source("x" * 5_000 + "!" + "y" * 5_000)
    shown = render(source, Diagnostic("P010", Phase.PARSE, "odd", Span(5_000, 5_001)))
    assert max(len(line) for line in shown.splitlines()) < 200
    line, caret = shown.splitlines()[3:5]
    assert line[caret.index("^")] == "!"


def test_hints_name_the_closest_known_word_whatever_its_case():
    assert did_you_mean("person", ["Company", "Person"]) == "did you mean `Person`?"
    assert did_you_mean("zzz", ["Company", "Person"]) is None


def test_positions_count_characters_and_lines_from_one():
    source = Source("a\r\nbé\n")
    assert source.position(0) == Position(1, 1)
    assert source.position(4) == Position(2, 2)
    assert source.position(6) == Position(3, 1)
    assert source.line(1) == "a"
