"""The grammar itself: no ambiguity is settled silently."""

from __future__ import annotations

import logging
from importlib import resources

from lark import Lark, logger

from omnigraph.compiler.query import parser
from omnigraph.compiler.query.lexer import QueryLexer


def build(grammar: str, caplog) -> list[str]:
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = True
    try:
        with caplog.at_level(logging.DEBUG, logger=logger.name):
            Lark(grammar.replace("__", parser._TRIVIA), parser="lalr", lexer=QueryLexer, debug=True)
    finally:
        logger.setLevel(level)
        logger.propagate = propagate
    return [record.message for record in caplog.records if "onflict" in record.message]


def text() -> str:
    folder = resources.files("omnigraph.compiler.query")
    return (folder / "grammar.lark").read_text(encoding="utf-8")


def test_no_shift_is_preferred_to_a_reduction(caplog):
    assert build(text(), caplog) == []


def test_the_check_above_would_notice_a_conflict(caplog):
    ambiguous = text().replace("?left: operand | nearest", "?left: operand | nearest | VAR")
    assert build(ambiguous, caplog)
