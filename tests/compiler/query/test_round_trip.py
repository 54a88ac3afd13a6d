"""Any query survives printing: text to AST, layout to layout."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.query.format import format_queries
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import tokens
from tests.support.queries import files, laid_out, tokens_of


@given(files)
def test_a_written_tree_parses_to_itself(file):
    assert parse_queries(Source(" ".join(tokens_of(file)))) == file


@given(files)
def test_formatting_keeps_the_tree(file):
    text = format_queries(Source(" ".join(tokens_of(file))))
    assert parse_queries(Source(text)) == file


@given(files.flatmap(laid_out))
def test_formatting_again_changes_nothing(text):
    once = format_queries(Source(text))
    assert format_queries(Source(once)) == once
    assert parse_queries(Source(once)) == parse_queries(Source(text))


@given(files.flatmap(laid_out))
def test_formatting_keeps_every_comment(text):
    def comments(of: str) -> list[str]:
        return [token.text.rstrip() for token in tokens(of) if token.kind.endswith("comment")]

    assert comments(format_queries(Source(text))) == comments(text)


@given(files, st.data())
def test_space_and_comments_do_not_change_the_tree(file, data):
    assert parse_queries(Source(data.draw(laid_out(file)))) == file


def test_formatted_lines_carry_no_space_at_their_end():
    text = "query q() { match { $p: Person // x   \n } return { $p.name } }   "
    assert all(line == line.rstrip() for line in format_queries(Source(text)).splitlines())


def test_line_ends_inside_strings_are_kept():
    text = 'query q() @description("a\r\n  b\n") { match { $p: Person } return { $p.name } }'
    (query,) = parse_queries(Source(format_queries(Source(text)))).queries
    assert query.description == "a\r\n  b\n"
