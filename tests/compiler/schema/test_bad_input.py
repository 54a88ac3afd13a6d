"""Whatever arrives as a schema: a positioned error, quickly, and never another exception."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.schema.format import format_schema
from omnigraph.compiler.schema.parser import MAX_BROKEN, parse_schema
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.errors import CompileError
from tests.support.cases import CASES

EXAMPLE = (Path(__file__).parents[3] / "examples" / "company.pg").read_text(encoding="utf-8")
SNIPPETS = sorted(path.read_text(encoding="utf-8") for path in (CASES / "schema").glob("*.pg"))

MANY = "node A { a: String }\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("\x00\x01\x02", "P003", id="binary"),
        pytest.param("node A {}\x07", "P003", id="bell"),
        pytest.param("node A {} // \ud800", "P003", id="surrogate"),
        pytest.param(MANY * 500_000, "P002", id="ten megabytes"),
        pytest.param("node " * 200_000, "P010", id="keywords only"),
        pytest.param("node A { a: " + "[" * 1000 + "String" + "]" * 1000 + " }", "P004", id="deep"),
        pytest.param("{" * 1000, "P004", id="braces"),
        pytest.param("(" * 500_000, "P004", id="parens"),
        pytest.param("}" * 100_000, "P010", id="closers"),
        pytest.param('node A @d("' + "x" * 500_000, "P005", id="unclosed string"),
        pytest.param("/* " * 300_000, "P005", id="unclosed comment"),
        pytest.param("node A { " + "a: String " * 50_000, "P006", id="unclosed brace"),
        pytest.param("node Ünïcode {}", "P010", id="unicode type"),
        pytest.param("node A { größe: I32 }", "P010", id="unicode property"),
        pytest.param("node A { a: Vector(" + "9" * 500_000 + ") }", "S003", id="long width"),
        pytest.param("node A { a: Vector(" + "0" * 500_000 + ") }", "S003", id="long zero"),
        pytest.param("node A { a: I32 @range(a, 0.." + "9" * 500_000 + ") }", "S014", id="bound"),
        pytest.param(
            "node A { a: I32 @range(a, 0.0.." + "9" * 500_000 + ".0) }", "S014", id="decimal bound"
        ),
        pytest.param("node A {} edge E: A -> A @card(0.." + "9" * 9_999 + ")", "S014", id="card"),
        pytest.param(
            'node A { a: String @check(a, "' + "(" * 100_000 + '") }', "C007", id="deep pattern"
        ),
        pytest.param("x", "P010", id="one letter"),
        pytest.param("🙂", "P010", id="emoji"),
        pytest.param('"', "P005", id="quote"),
        pytest.param("node A { a: String } node A { a: String }", "C001", id="duplicate"),
        pytest.param("node A { a: Nope }", "S001", id="unknown type"),
    ],
)
def test_bad_texts_are_refused_at_a_place(text: str, code: str) -> None:
    with pytest.raises(DiagnosticsError) as caught:
        load_schema(Source(text))
    caught.value.render()
    caught.value.to_json()
    found = caught.value.diagnostics[0]
    assert found.code == code
    assert found.span is not None


def test_bytes_that_are_no_text_are_refused_at_their_place() -> None:
    with pytest.raises(DiagnosticsError) as caught:
        decode(b"node A {}\n\xff", "x.pg")
    assert str(caught.value).startswith("x.pg:2:1: parse error: P001")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeffnode A { a: String }", id="byte-order mark"),
        pytest.param("node A {\r\n  a: String\r\n}\r\n", id="crlf"),
        pytest.param("node\tA\t{\ta:\tString\t}", id="tabs"),
        pytest.param("node A{a:String}", id="no space"),
    ],
)
def test_harmless_texts_mean_the_same(text: str) -> None:
    assert parse_schema(Source(text)) == parse_schema(Source("node A { a: String }"))
    assert format_schema(Source(text)) == "node A {\n  a: String\n}\n"


@pytest.mark.parametrize("text", ["", " \n\t", "// only\n", "/* only */", "\ufeff"])
def test_a_text_without_declarations_is_an_empty_schema(text: str) -> None:
    assert parse_schema(Source(text)).declarations == ()
    assert load_schema(Source(text)).catalog.nodes == {}


def test_every_broken_declaration_is_reported() -> None:
    text = "\n".join(f"node N{at} {{ a: Nope }}" for at in range(20))
    with pytest.raises(DiagnosticsError) as caught:
        parse_schema(Source(text))
    lines = [
        caught.value.source.position(found.span.start).line for found in caught.value.diagnostics
    ]
    assert lines == list(range(1, 21))


def test_a_hopeless_file_stops_after_a_bounded_number_of_errors() -> None:
    with pytest.raises(DiagnosticsError) as caught:
        parse_schema(Source("node a {}\n" * 10_000))
    assert len(caught.value.diagnostics) == MAX_BROKEN + 1
    assert caught.value.diagnostics[-1].code == "P012"


def compile_anything(text: str) -> None:
    source = Source(text)
    try:
        loaded = load_schema(source)
    except CompileError as error:
        error.render()
        error.to_json()
        return
    formatted = format_schema(source)
    assert load_schema(Source(formatted)) == loaded
    assert format_schema(Source(formatted)) == formatted


@pytest.mark.property
@given(st.text())
def test_any_text_compiles_or_is_refused(text: str) -> None:
    compile_anything(text)


@pytest.mark.property
@given(st.text(alphabet='node{}()[]:@,.?"/*\\ \nABab01-_='))
def test_any_text_of_the_alphabet_compiles_or_is_refused(text: str) -> None:
    compile_anything(text)


WORDS = st.sampled_from(
    "node edge interface implements enum A B String I32 Vector a b id @key @card @range @embed "
    '@ ( ) { } [ ] : , .. -> ? = * - 0 1.5 "x" "\\q" // /* */ \n'.split(" ")
)


@pytest.mark.property
@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_any_soup_of_words_compiles_or_is_refused(text: str) -> None:
    compile_anything(text)


@pytest.mark.property
@given(st.sampled_from([EXAMPLE, *SNIPPETS]), st.data())
def test_mutated_schemas_compile_or_are_refused(text: str, data) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        end = min(len(text), at + data.draw(st.integers(0, 12)))
        text = text[:at] + data.draw(WORDS | st.text(max_size=3)) + text[end:]
    compile_anything(text)


def test_importing_the_schema_package_does_not_load_the_parser_or_arrow() -> None:
    code = (
        "import sys, omnigraph.compiler.schema.parser, omnigraph.compiler.catalog.build;"
        "print(sorted({'lark', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
