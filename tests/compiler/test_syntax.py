import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.diagnostics import DiagnosticList, DiagnosticsError
from omnigraph.compiler.source import MAX_SOURCE_CHARS, Source
from omnigraph.compiler.syntax import (
    MAX_DEPTH,
    check_text,
    decode,
    quote,
    split_declarations,
    tokens,
    unescape,
)

KEYWORDS = frozenset({"node", "edge", "query"})


def pieces(text: str) -> tuple[list[str], list[str]]:
    source = Source(text)
    findings = DiagnosticList(source)
    cut = split_declarations(source, KEYWORDS, findings)
    return [text[a:b].strip() for a, b in cut], [found.code for found in findings.items]


def test_declarations_are_cut_at_keywords_outside_brackets():
    cut, codes = pieces("node A { node: String }\nedge E: A -> A\nquery q() { match { } }")
    assert cut == ["node A { node: String }", "edge E: A -> A", "query q() { match { } }"]
    assert codes == []


def test_keywords_in_strings_and_comments_do_not_cut():
    cut, _ = pieces('node A @x("query") /* edge */ { } // node\n')
    assert len(cut) == 1


def test_comments_before_the_first_declaration_stay_with_it():
    assert pieces("// about A\nnode A {}")[0] == ["// about A\nnode A {}"]


def test_code_before_the_first_declaration_is_a_piece_of_its_own():
    assert pieces("junk here\nnode A {}")[0] == ["junk here", "node A {}"]


def test_a_declaration_may_be_named_like_its_keyword():
    assert pieces("query query() { } query b() { }")[0] == ["query query() { }", "query b() { }"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param('node A { s: "never closed', "P005", id="string"),
        pytest.param("node A { } /* never closed", "P005", id="comment"),
        pytest.param("node A { ", "P006", id="brace"),
        pytest.param("node A " + "{" * (MAX_DEPTH + 1), "P004", id="too deep"),
    ],
)
def test_torn_text_is_reported_with_its_place(text, code):
    source = Source(text)
    findings = DiagnosticList(source)
    split_declarations(source, KEYWORDS, findings)
    assert [found.code for found in findings.items] == [code]
    with pytest.raises(DiagnosticsError) as caught:
        findings.raise_if_errors()
    assert caught.value.diagnostics[0].span is not None


def test_an_unclosed_declaration_does_not_hide_the_ones_before_it():
    cut, codes = pieces("node A {}\nnode B {")
    assert cut == ["node A {}"]
    assert codes == ["P006"]


def test_bytes_that_are_not_utf8_are_positioned():
    with pytest.raises(DiagnosticsError) as caught:
        decode(b"node A {\n  \xff", "bad.pg")
    assert str(caught.value).startswith("bad.pg:2:3: parse error: P001")


def test_too_long_and_binary_texts_are_refused_at_once():
    with pytest.raises(DiagnosticsError, match="P002"):
        check_text(Source("x" * (MAX_SOURCE_CHARS + 1)))
    with pytest.raises(
        DiagnosticsError, match=r"1:2: parse error: P003: control character U\+0000"
    ):
        check_text(Source("a\x00b"))


def test_tokens_keep_comments_and_offsets():
    text = 'a // c\n"s" $v 1.5 ->'
    assert [(token.kind, text[token.start : token.end]) for token in tokens(text)] == [
        ("word", "a"),
        ("line_comment", "// c"),
        ("string", '"s"'),
        ("variable", "$v"),
        ("number", "1.5"),
        ("symbol", "->"),
    ]


@given(st.text())
def test_quote_and_unescape_are_inverse(value):
    assert unescape(quote(value)) == value


def test_an_unsupported_escape_is_refused_at_its_index():
    with pytest.raises(ValueError, match="2"):
        unescape(r'"a\q"')


@given(st.text(alphabet='node{}()[]"/*\\ \n$@x', max_size=60))
def test_cutting_never_raises_and_pieces_cover_disjoint_ranges(text):
    source = Source(text)
    cut = split_declarations(source, KEYWORDS, DiagnosticList(source))
    assert all(a <= b for a, b in cut)
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(cut))
