"""Schema text to syntax tree, with every independent error of the file reported at once.

Each declaration is parsed on its own by one LALR parser, so a broken one hides nothing. What
the grammar cannot say is left to `tree` (the shape of one declaration) and `check` (its meaning).
The parser library is loaded by the first parse, not by importing this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, Phase, did_you_mean
from omnigraph.compiler.grammars import parser_of
from omnigraph.compiler.schema.ast import Declaration, SchemaAst, Unread
from omnigraph.compiler.schema.check import check_schema
from omnigraph.compiler.schema.items import children
from omnigraph.compiler.schema.tree import read_declaration
from omnigraph.compiler.source import Source, Span
from omnigraph.compiler.syntax import check_text, split_declarations, tokens

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedCharacters, UnexpectedToken

KEYWORDS = frozenset({"interface", "node", "edge"})

MAX_BROKEN = 50
"""Broken declarations reported before giving up: more would only bury the first one."""

_SPELLING = {
    "TYPE_NAME": "a type name",
    "NAME": "a name",
    "ENUM_VALUE": "an enum value",
    "NUMBER": "a number",
    "STRING": "a string",
    "INTERFACE": "`interface`",
    "NODE": "`node`",
    "EDGE": "`edge`",
    "ENUM": "`enum`",
    "_LBRACE": "`{`",
    "_RBRACE": "`}`",
    "_LPAR": "`(`",
    "_RPAR": "`)`",
    "_LSQB": "`[`",
    "_RSQB": "`]`",
    "_COLON": "`:`",
    "_COMMA": "`,`",
    "_EQUALS": "`=`",
    "_ARROW": "`->`",
    "QUESTION": "`?`",
    "AT": "`@`",
    "MINUS": "`-`",
    "STAR": "`*`",
    "DOTS": "`..`",
    "$END": "the end of the declaration",
}
_ORDER = {name: place for place, name in enumerate(_SPELLING)}


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read; `unread` are the names that the rest may declare."""

    ast: SchemaAst
    unread: Unread


def parse_schema(source: Source) -> SchemaAst:
    """Return the checked syntax tree of a schema.

    Raises:
        DiagnosticsError: everything that is wrong with the text.
    """
    findings = DiagnosticList(source)
    reading = read_schema(source, findings)
    findings.raise_if_errors()
    return reading.ast


def read_schema(source: Source, findings: DiagnosticList) -> Reading:
    """Read and check every sound declaration; report what is wrong with the others."""
    check_text(source)
    declarations: list[Declaration] = []
    pieces = split_declarations(source, KEYWORDS, findings)
    torn = findings.has_errors
    broken: list[tuple[int, int]] = []
    for start, end in pieces:
        before = len(findings.items)
        tree = _parse(source, start, end, findings)
        declaration = None if tree is None else read_declaration(tree, findings)
        if len(findings.items) > before:
            broken.append((start, end))
        elif declaration is not None:
            declarations.append(declaration)
        if len(broken) == MAX_BROKEN:
            findings.add(
                Diagnostic(
                    "P012",
                    Phase.PARSE,
                    f"more than {MAX_BROKEN} broken declarations; the rest was not read",
                    Span(end, end),
                )
            )
            torn = True
            break
    names = [_declared_name(source, start, end) for start, end in broken]
    unread = Unread(frozenset(filter(None, names)), anything=torn or None in names)
    reading = Reading(SchemaAst(tuple(declarations)), unread)
    check_schema(reading.ast, findings, unread)
    return reading


def _declared_name(source: Source, start: int, end: int) -> str | None:
    """Return the name a broken declaration seems to give, or None when it cannot be told."""
    words = [
        token
        for token in tokens(source.text[start:end])
        if token.kind not in ("line_comment", "block_comment")
    ]
    if len(words) < 2 or words[0].text not in KEYWORDS or words[1].kind != "word":
        return None
    return words[1].text


def grammar() -> tuple[tuple[str, dict[str, str]], dict[str, Any]]:
    """Return where the grammar is, what stands for what in it, and what Lark is told."""
    return (__package__, {}), {"lexer": "contextual", "maybe_placeholders": True}


@cache
def _lark() -> Lark:
    return parser_of(*grammar()[0], **grammar()[1])


def _parse(source: Source, start: int, end: int, findings: DiagnosticList) -> Tree[Any] | None:
    """Return the declaration's tree, or None when the piece is empty or was reported."""
    from lark import TextSlice, UnexpectedCharacters, UnexpectedToken

    try:
        tree = _lark().parse(TextSlice(source.text, start, end))
    except UnexpectedToken as error:
        findings.add(_unexpected_token(error, end))
        return None
    except UnexpectedCharacters as error:
        findings.add(_unexpected_character(source, error))
        return None
    return next(iter(children(tree)), None)


def _unexpected_token(error: UnexpectedToken, end: int) -> Diagnostic:
    token = error.token
    at_end = token.type == "$END"
    # The end token sits where the last real token starts; the error is behind that one.
    start = min(token.end_pos or end, end) if at_end else token.start_pos or 0
    accepts = set(error.accepts or error.expected)
    found = "end of the declaration" if at_end else f"`{token}`"
    return Diagnostic(
        "P010",
        Phase.PARSE,
        f"unexpected {found}, expected {_one_of(accepts)}",
        Span(start, start if at_end else start + len(token)),
        hint=_hint(token.type, str(token), accepts),
    )


def _unexpected_character(source: Source, error: UnexpectedCharacters) -> Diagnostic:
    at: int = error.pos_in_stream  # type: ignore[assignment]  # lark declares a bare None
    char = source.text[at]
    hint = None
    if char == "#":
        hint = "comments start with `//`"
    elif char.isalnum():
        hint = "names use ASCII letters, digits and `_`"
    elif char == "'":
        hint = 'strings stand in double quotes: "…"'
    elif char == ";":
        hint = "nothing ends a declaration or a property; remove the `;`"
    return Diagnostic(
        "P010",
        Phase.PARSE,
        f"unexpected `{char}`, expected {_one_of(error.allowed or ())}",
        Span(at, at + 1),
        hint=hint,
    )


def _one_of(terminals: Iterable[str]) -> str:
    """Return `a, b or c` in a fixed order; the end is named only when nothing else fits."""
    known = sorted((name for name in terminals if name in _SPELLING), key=_ORDER.__getitem__)
    if len(known) > 1 and known[-1] == "$END":
        known = known[:-1]
    words = [_SPELLING[name] for name in known or ("$END",)]
    if "NAME" in known and "_LBRACE" in known:  # only a node header lets a word stand there
        words[words.index(_SPELLING["NAME"])] = "`implements`"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _hint(kind: str, text: str, accepts: set[str]) -> str | None:
    if "NODE" in accepts or accepts == {"$END"}:
        close = did_you_mean(text, KEYWORDS)
        return close or "a file holds `interface`, `node` and `edge` declarations"
    if kind == "NAME" and "TYPE_NAME" in accepts:
        return f"type names start with an upper-case letter: `{text[:1].upper()}{text[1:]}`"
    if kind == "TYPE_NAME" and "NAME" in accepts:
        return (
            f"property names start with a lower-case letter or `_`: `{text[:1].lower()}{text[1:]}`"
        )
    if kind == "_COMMA" and "NAME" in accepts:
        return "properties are separated by space or new lines, not by commas"
    if kind == "AT" and "_LBRACE" in accepts:
        return "annotations come before `implements`"
    return None
