r"""Where a statement ends, and what it is. Pure text.

A statement is a `\` command on one line, one or more `query` declarations, or just the body of
one. A declaration ends with its closing brace; a body ends with `;` or an empty line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.source import Source, Span
from omnigraph.compiler.syntax import tokens

NAME = "<shell>"
BODY_NAME = "shell"
_OPENERS, _CLOSERS = ("{", "(", "["), ("}", ")", "]")
_COMMENTS = ("line_comment", "block_comment")
_TAKES_QUERY = re.compile(r"\\(?:explain|profile)\s+(?=\S)")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A text to compile; `added` characters in front of it were not typed."""

    source: Source
    typed: Source
    added: int

    def moved(self, error: DiagnosticsError) -> DiagnosticsError:
        """Return an error of the compiled text with its places in the typed one."""
        if not self.added:
            return error
        end = len(self.typed.text)

        def place(span: Span | None) -> Span | None:
            if span is None:
                return None
            start = min(max(span.start - self.added, 0), end)
            return Span(start, min(max(span.end - self.added, start), end))

        found = [replace(one, span=place(one.span)) for one in error.diagnostics]
        return DiagnosticsError(self.typed, found)


def is_complete(text: str) -> bool:
    """Whether a typed text is a whole statement (or nothing at all)."""
    stripped = text.lstrip()
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


def parse_statement(text: str, params: Mapping[str, Any]) -> Statement:
    """Return what to compile: declarations as they are, a body inside a declaration of its own.

    The parameters that a body mentions are declared by the values they have.
    """
    typed = Source(text.strip().removesuffix(";").rstrip(), NAME)
    words = [token.text for token in tokens(typed.text) if token.kind not in _COMMENTS]
    if not words or words[0] == "query":
        return Statement(typed, typed, 0)
    used = dict.fromkeys(_VARIABLE.findall(typed.text))
    declared = ", ".join(f"${name}: {_type_of(params[name])}" for name in used if name in params)
    head = f"query {BODY_NAME}({declared}) {{\n"
    return Statement(Source(f"{head}{typed.text}\n}}", NAME), typed, len(head))


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "Bool"
        case int():
            return "I64"
        case float():
            return "F64"
        case [first, *_]:
            return f"[{_type_of(first)}]"
        case _:
            return "String"
