r"""Where a statement ends, and what it is. Pure text.

A statement is a `\` command on one line, one or more `query` declarations, or just the body of
one. A declaration ends with its closing brace; a body ends with `;` or an empty line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from omnigraph.compiler.query.bare import framed
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import tokens

NAME = "<shell>"
_OPENERS, _CLOSERS = ("{", "(", "["), ("}", ")", "]")
_WORDS = {"exit": "\\quit", "quit": "\\quit", "help": "\\help"}
_COMMENTS = ("line_comment", "block_comment")
_TAKES_QUERY = re.compile(r"\\(?:explain|profile)\s+(?=\S)")


def is_complete(text: str) -> bool:
    """Whether a typed text is a whole statement (or nothing at all)."""
    stripped = text.lstrip()
    if stripped.rstrip("; \n") in _WORDS:
        return True
    if found := _TAKES_QUERY.match(stripped):
        return is_complete(stripped[found.end() :])
    if not stripped or stripped.startswith("\\"):
        return True
    depth, first, last = 0, "", ""
    for token in tokens(text):
        if token.kind in _COMMENTS:
            continue
        if token.kind in ("open_comment", "open_string"):
            return False
        depth += (token.text in _OPENERS) - (token.text in _CLOSERS)
        first, last = first or token.text, token.text
    if depth > 0:
        return False
    if not first:
        return True
    if last == ";" or text.endswith("\n\n") or depth < 0:
        return True
    return first == "query" and last == "}"


def command_meant(text: str) -> str:
    """Return a whole statement; a word that other shells know is the command it means here."""
    return _WORDS.get(text.rstrip("; "), text)


def parse_statement(text: str, params: Mapping[str, Any]) -> Source:
    """Return what to compile: declarations as they are, a body inside a declaration of its own.

    The parameters that a body mentions are declared by the values they have.
    """
    return framed(Source(text.strip().removesuffix(";").rstrip(), NAME), params)
