"""No text, however broken, does anything but report itself."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import compile_file
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.query.format import format_queries
from omnigraph.compiler.query.lint import SchemaSource, lint_queries
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.errors import CompileError
from tests.support.cases import CASES, read_case

CATALOG = load_schema(Source((CASES / "social.pg").read_text(encoding="utf-8"))).catalog
TEXTS = [read_case(path).text for path in sorted(CASES.glob("*/*.gq"))]
ONE = "query q() { match { $p: Person } return { $p.name } }"


def problems(text: str) -> list[str]:
    error = None
    try:
        compile_file(CATALOG, Source(text))
    except DiagnosticsError as caught:
        error = caught
    if error is None:
        return []
    assert error.render(color=True)
    assert len(error.to_json()) == len(error.diagnostics)
    assert all(found.span.end > found.span.start for found in error.diagnostics)
    return [found.code for found in error.diagnostics]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param("", [], id="empty"),
        pytest.param(" \t\r\n", [], id="only space"),
        pytest.param("\ufeff" + ONE, [], id="byte order mark"),
        pytest.param(ONE.replace(" ", "\r\n"), [], id="CRLF"),
        pytest.param(ONE.replace(" ", "\t"), [], id="tabs"),
        pytest.param("\x00\x01\x02", ["P003"], id="binary"),
        pytest.param("x" * 10_000_000, ["P002"], id="ten megabytes"),
        pytest.param("query q() " + "{" * 1000 + "}" * 1000, ["P004"], id="1000 deep"),
        pytest.param(ONE.replace("Person", "Pérson"), ["P010"], id="unicode type"),
        pytest.param('query q() { match { $p: Person { name: "x', ["P005"], id="torn string"),
        pytest.param("query q() { /* match", ["P005"], id="torn comment"),
        pytest.param(ONE + ONE, ["P017"], id="duplicate names"),
        pytest.param(ONE.replace("Person", "Ghost"), ["T1"], id="unknown type"),
        pytest.param("# comment", ["P010"], id="hash comment"),
        pytest.param("}", ["P010"], id="stray closer"),
        pytest.param("query", ["P010"], id="one word"),
        pytest.param("select * from person", ["P010"], id="another language"),
        pytest.param(ONE.replace("$p.name", "9" * 5000), ["P013"], id="5000 digits"),
        pytest.param(ONE.replace("$p.name", "9" * 500 + ".0"), ["P013"], id="huge float"),
    ],
)
def test_broken_texts_are_reported_with_their_place(text, codes):
    assert problems(text) == codes


def test_bytes_that_are_not_text_are_reported():
    with pytest.raises(DiagnosticsError, match="P001"):
        decode(b"query q\xff", "x.gq")


def test_a_file_of_garbage_is_given_up_early():
    assert problems("query ! " * 50_000).count("P010") == 100


def test_many_comments_between_two_words_are_read_in_linear_time():
    comments = "/* a */" * 20_000
    text = f"query q() {{ match {{ $p: Person $p.age is {comments} nul }} return {{ $p.name }} }}"
    assert problems(text) == ["P010"]


def test_a_long_query_compiles():
    filters = "\n".join(f"$p.age != {number}" for number in range(5_000))
    assert problems(f"query q() {{ match {{ $p: Person {filters} }} return {{ $p.name }} }}") == []


def attempt(text: str) -> None:
    """Everything that takes text raises `CompileError` or nothing."""
    source = Source(text)
    for use in (parse_queries, format_queries, lambda found: compile_file(CATALOG, found)):
        with contextlib.suppress(CompileError):
            use(source)
    lint_queries(CATALOG, source, "x.gq", SchemaSource.file("x.pg"))


@given(st.text(max_size=80))
def test_any_text_parses_or_is_refused(text):
    attempt(text)


words = st.sampled_from(
    "query match return order limit offset not insert update delete set where and in is null as "
    'distinct contains starts_with count ( ) { } [ ] : , . $p $_ $w Person knows name age "x" 1 -2 '
    '1.5 = != < > <= >= <knows> nearest( rrf( bm25( search( now() date("2020-01-01") true '
    "@ ? *".split()
)


@given(st.lists(words, max_size=25))
def test_any_words_parse_or_are_refused(found):
    attempt(" ".join(found))
    attempt("query q() { match { $p: Person " + " ".join(found) + " } return { $p.name } }")


@given(st.sampled_from(TEXTS), st.data())
def test_damaged_examples_parse_or_are_refused(text, data):
    at = data.draw(st.integers(0, len(text)))
    upto = data.draw(st.integers(at, min(len(text), at + 12)))
    piece = data.draw(st.one_of(words, st.text(max_size=4), st.just("")))
    attempt(text[:at] + piece + text[upto:])


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_checking_twice_finds_the_same(text):
    def found() -> str:
        try:
            return repr(compile_file(CATALOG, Source(text)))
        except DiagnosticsError as error:
            return repr(error.diagnostics)

    assert found() == found()


def test_importing_the_parser_does_not_import_lark():
    import subprocess
    import sys

    script = (
        "import sys, omnigraph.compiler.compile, omnigraph.compiler.query.lint, "
        "omnigraph.compiler.query.format; assert 'lark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[3])
