"""Tokens for the query grammar: one regular expression built from the grammar's own terminals.

Lark's stock lexer counts lines and builds a `str` subclass for every token; a query needs
neither. Knows the terminals only, not the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lark.lexer import Lexer, LexerState

if TYPE_CHECKING:
    from lark.common import LexerConf
    from lark.parsers.lalr_parser_state import ParserState


class QueryToken:
    """A piece of text with its offsets; carries the attributes Lark reads from a token."""

    __slots__ = ("end_pos", "start_pos", "type", "value")

    # Lark copies these to its end-of-input token; places here are offsets only.
    line = column = end_line = end_column = None

    def __init__(self, kind: str, value: str, start: int, end: int) -> None:
        self.type = kind
        self.value = value
        self.start_pos = start
        self.end_pos = end


class UnknownCharacterError(Exception):
    """No terminal matches at `offset`."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        super().__init__(offset)


class QueryLexer(Lexer):
    """Runs over the text once; ties go to priority, then to the longer pattern."""

    __future_interface__ = 2  # the form that also takes slices of a text

    def __init__(self, conf: LexerConf) -> None:
        ranked = sorted(
            conf.terminals,
            key=lambda term: (-term.priority, -len(term.pattern.value), term.name),
        )
        parts = [f"(?P<{term.name}>{term.pattern.to_regexp()})" for term in ranked]
        self._match = re.compile("|".join(parts)).match
        self._ignored = frozenset(conf.ignore)

    def lex(self, lexer_state: LexerState, parser_state: ParserState[Any]) -> Iterator[Any]:  # noqa: ARG002 - Lark's signature
        """Yield the tokens of the slice; offsets are those of the whole text."""
        text, at, end = lexer_state.text.text, lexer_state.text.start, lexer_state.text.end
        match, ignored = self._match, self._ignored
        while at < end:
            found = match(text, at, end)
            if found is None:
                raise UnknownCharacterError(at)
            kind, start, at = found.lastgroup, at, found.end()
            if kind not in ignored:
                assert kind is not None
                yield QueryToken(kind, found.group(), start, at)
