"""`.gq` text to AST. Every declaration is parsed on its own, so all broken ones are reported.

The grammar is loaded on first use: importing this module does not import Lark. Knows no catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, Phase, Severity
from omnigraph.compiler.grammars import parser_of
from omnigraph.compiler.query import ast
from omnigraph.compiler.source import Source, Span
from omnigraph.compiler.syntax import check_text, split_declarations

if TYPE_CHECKING:
    from lark.exceptions import UnexpectedToken

    from omnigraph.compiler.query.lexer import QueryToken

_KEYWORDS = frozenset({"query"})

# Space and comments between two words that the lexer must look at together. Written so that a
# text can match in one way only: alternatives that overlap would backtrack exponentially.
_TRIVIA = r"(?:[ \t\r\n\ufeff]|\/\/[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*"

MAX_BROKEN = 100
"""A text with more broken declarations is not a query file; reporting all helps nobody."""

_MAX_EXPECTED = 6


def parse_queries(source: Source) -> ast.QueryFile:
    """Return every query of a text; an empty text has none.

    Raises:
        DiagnosticsError: every broken declaration, in source order.
    """
    check_text(source)
    findings = DiagnosticList(source)
    queries: list[ast.Query] = []
    parse = _parser()
    broken = 0
    for start, end in split_declarations(source, _KEYWORDS, findings):
        parsed = parse(source.text, start, end)
        match parsed:
            case Diagnostic():
                findings.add(parsed)
                broken += 1
            case ast.Query():
                queries.append(parsed)
            case None:  # only comments and space
                pass
        if broken == MAX_BROKEN:
            message = f"more than {MAX_BROKEN} broken declarations; the rest was not read"
            findings.add(Diagnostic("P012", Phase.PARSE, message, Span(start, start + 1)))
            break
    _refuse_duplicates(queries, findings)
    findings.raise_if_errors()
    return ast.QueryFile(tuple(queries))


def _refuse_duplicates(queries: Iterable[ast.Query], findings: DiagnosticList) -> None:
    seen: set[str] = set()
    for query in queries:
        if query.name in seen:
            message = f"query `{query.name}` is declared twice"
            findings.add(
                Diagnostic(
                    "P017", Phase.PARSE, message, query.name_span, "give each query its own name"
                )
            )
        seen.add(query.name)


def grammar() -> tuple[tuple[str, dict[str, str]], dict[str, Any]]:
    """Return where the grammar is, what stands for what in it, and what Lark is told."""
    from omnigraph.compiler.query.build import AstBuilder
    from omnigraph.compiler.query.lexer import QueryLexer

    return (__package__, {"__": _TRIVIA}), {
        "lexer": QueryLexer,
        "transformer": AstBuilder(),
        "propagate_positions": False,
        "maybe_placeholders": False,
    }


@cache
def _parser() -> Callable[[str, int, int], ast.Query | Diagnostic | None]:
    """Load the LALR tables once; return a function from a slice of text to what it means."""
    from lark import TextSlice
    from lark.exceptions import UnexpectedToken

    from omnigraph.compiler.query.build import RefusedError
    from omnigraph.compiler.query.lexer import UnknownCharacterError

    lark = parser_of(*grammar()[0], **grammar()[1])

    def parse(text: str, start: int, end: int) -> ast.Query | Diagnostic | None:
        try:
            # The builder turns the start rule into a query; no tree is built.
            return lark.parse(TextSlice(text, start, end))  # type: ignore[return-value] # see above
        except UnexpectedToken as error:
            return _unexpected(error.token, _accepted(error), text, end)
        except UnknownCharacterError as error:
            return _unknown_character(text, error.offset)
        except RefusedError as error:
            return error.found

    return parse


_SIGNS = {
    "VAR": "a variable",
    "TYPE": "a type name",
    "IDENT": "a name",
    "INT": "an integer",
    "STRING": "a string",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "QMARK": "`?`",
    "AT": "`@`",
    "STAR": "`*`",
    "UNDIRECTED": "`<edge>`",
    "$END": "the end of the query",
}
_WORDS = {
    "QUERY": "`query`",
    "MATCH": "`match {`",
    "RETURN": "`return {`",
    "ORDER": "`order {`",
    "LIMIT": "`limit`",
    "OFFSET": "`offset`",
    "DISTINCT": "`distinct`",
    "NOT": "`not {`",
    "AS": "`as`",
    "ASC": "`asc`",
    "DESC": "`desc`",
    "INSERT": "`insert`",
    "UPDATE": "`update`",
    "DELETE": "`delete`",
    "SET": "`set {`",
    "WHERE": "`where`",
    "AND": "`and`",
    "IN": "`in`",
    "IS_NULL": "`is null`",
    "CONTAINS": "`contains`",
    "STARTS_WITH": "`starts_with`",
}
_CALLS = {
    "NEAREST": "`nearest(`",
    "APPROXIMATE": "`approximate`",
    "BM25": "`bm25(`",
    "RRF": "`rrf(`",
    "TEXT": "a text function",
    "AGGREGATE": "an aggregate",
}
_READABLE = _SIGNS | _WORDS | _CALLS
_COMPARISONS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"})
_VALUES = frozenset({"FLOAT", "TRUE", "FALSE", "DATE", "NOW"})


def _accepted(error: UnexpectedToken) -> set[str]:
    """Return the terminals that could really follow; `expected` also has those of merged states."""
    return set(error.interactive_parser.accepts())  # type: ignore[no-untyped-call] # Lark's gap


def _unexpected(token: QueryToken, expected: set[str], text: str, end: int) -> Diagnostic:
    if token.type == "$END":
        message, span = "the query ends too early", _last_character(text, end)
    else:
        shown = token.value if len(token.value) <= 40 else token.value[:37] + "…"
        message, span = f"unexpected `{shown}`", Span(token.start_pos, token.end_pos)
    wanted = _describe(expected)
    found = f"{message}, expected {wanted}" if wanted else message
    return Diagnostic("P010", Phase.PARSE, found, span, severity=Severity.ERROR)


def _describe(expected: set[str]) -> str:
    """Return what could have stood there, as a short list in a fixed order."""
    if "QUERY" in expected and "IDENT" not in expected:
        expected = {"QUERY"}
    elif "IDENT" in expected:  # any keyword is a name there too
        expected -= _WORDS.keys()
    parts = ["a comparison"] if expected & _COMPARISONS else []
    if expected & _VALUES:
        parts.append("a value")
        expected -= {"STRING", "INT", "LSQB", *_CALLS}
    parts += [text for name, text in _READABLE.items() if name in expected]
    parts = parts[:_MAX_EXPECTED]
    return " or ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _last_character(text: str, end: int) -> Span:
    """Return the place of the last character in front of `end` that is not space."""
    at = len(text[:end].rstrip())
    return Span(max(0, at - 1), max(1, at))


def _unknown_character(text: str, offset: int) -> Diagnostic:
    char = text[offset]
    hint = None
    if char == "#":
        hint = "comments start with `//`"
    elif char == "'":
        hint = "strings stand in double quotes"
    elif char == "$" or char.isalpha():
        hint = "names use the letters a-z, A-Z, digits and `_`"
    shown = char if char.isprintable() else f"U+{ord(char):04X}"
    span = Span(offset, offset + 1)
    return Diagnostic("P010", Phase.PARSE, f"unexpected character `{shown}`", span, hint)
