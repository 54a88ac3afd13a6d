"""Texts and trees: printing, parsing and formatting lose nothing, in any layout."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.schema.format import format_schema
from omnigraph.compiler.schema.parser import parse_schema
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import tokens
from tests.support.schemas import schemas, text_of

LAYOUTS = st.integers(0, 2**32).map(random.Random)


def comments(text: str) -> list[str]:
    return [
        token.text.rstrip().replace("\r\n", "\n")
        for token in tokens(text)
        if token.kind.endswith("comment")
    ]


@pytest.mark.property
@given(schemas(), LAYOUTS)
def test_a_printed_tree_parses_to_itself(ast, layout) -> None:
    assert parse_schema(Source(text_of(ast, layout))) == ast


@pytest.mark.property
@given(schemas(), LAYOUTS)
def test_formatting_keeps_the_meaning_and_every_comment(ast, layout) -> None:
    text = text_of(ast, layout)
    formatted = format_schema(Source(text))
    assert parse_schema(Source(formatted)) == ast
    assert comments(formatted) == comments(text)


@pytest.mark.property
@given(schemas(), LAYOUTS)
def test_formatting_twice_changes_nothing(ast, layout) -> None:
    once = format_schema(Source(text_of(ast, layout)))
    assert format_schema(Source(once)) == once


@pytest.mark.property
@given(schemas(), LAYOUTS)
def test_formatted_text_has_no_stray_space(ast, layout) -> None:
    formatted = format_schema(Source(text_of(ast, layout)))
    assert "\n\n\n" not in formatted
    assert not formatted.startswith("\n")
    assert not formatted or (formatted.endswith("\n") and not formatted.endswith("\n\n"))


@pytest.mark.property
@given(schemas())
def test_layout_without_comments_does_not_show_in_the_format(ast) -> None:
    one_line = format_schema(Source(text_of(ast)))
    assert format_schema(Source(text_of(ast, gap="\n"))) == one_line
    assert format_schema(Source(text_of(ast, gap="\r\n\t"))) == one_line
