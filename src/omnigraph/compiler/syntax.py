"""What both languages share below their grammars: text checks, tokens, declarations, strings.

A file is first cut into top-level declarations by a scan that only knows strings, comments and
brackets. Each declaration is then parsed on its own, so one broken declaration does not hide the
errors of the next, and depth is bounded before any parser or tree walk sees the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, DiagnosticsError, Phase
from omnigraph.compiler.source import MAX_SOURCE_CHARS, Source, Span

MAX_DEPTH = 64
"""Deepest bracket nesting accepted; far above any real text, far below Python's stack."""

BOM = "\ufeff"

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # and lone surrogates
_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n\ufeff]+)
    | (?P<line_comment>//[^\n]*)
    | (?P<block_comment>/\*.*?\*/)
    | (?P<open_comment>/\*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<open_string>")
    | (?P<variable>\$[A-Za-z_][A-Za-z0-9_]*)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>[0-9]+(?:\.[0-9]+)?)
    | (?P<symbol>->|\.\.|>=|<=|!=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SKELETON = re.compile(
    r"""
      (?P<skip>//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*")
    | (?P<torn>/\*|")
    | (?P<open>[{(\[])
    | (?P<close>[})\]])
    | (?P<word>(?<![\w$@])[A-Za-z_][A-Za-z0-9_]*)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A lexical piece of either language; comments are tokens, white space is not.

    `kind` is one of `word`, `variable`, `number`, `string`, `symbol`, `line_comment`,
    `block_comment`.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset behind the last character."""
        return self.start + len(self.text)


def decode(data: bytes, name: str) -> Source:
    """Return the text of a file; bytes that are not UTF-8 are a positioned error."""
    try:
        return Source(data.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8")
        source = Source(good + "\ufffd", name)
        found = Diagnostic(
            "P001",
            Phase.PARSE,
            f"byte {error.start} is not valid UTF-8",
            Span(len(good), len(good) + 1),
            hint="save the file as UTF-8 text",
        )
        raise DiagnosticsError(source, [found]) from None


def check_text(source: Source) -> None:
    """Refuse texts no parser should see: far too long, or binary."""
    if len(source.text) > MAX_SOURCE_CHARS:
        found = Diagnostic(
            "P002",
            Phase.PARSE,
            f"the text has {len(source.text)} characters; at most {MAX_SOURCE_CHARS} are accepted",
            Span(MAX_SOURCE_CHARS, MAX_SOURCE_CHARS + 1),
            hint="split it into several files",
        )
        raise DiagnosticsError(source, [found])
    control = _CONTROL.search(source.text)
    if control:
        code = ord(control.group())
        found = Diagnostic(
            "P003",
            Phase.PARSE,
            f"control character U+{code:04X} in the text",
            Span(*control.span()),
            hint="is this a text file?",
        )
        raise DiagnosticsError(source, [found])


def split_declarations(
    source: Source, keywords: frozenset[str], findings: DiagnosticList
) -> list[tuple[int, int]]:
    """Cut the text before every keyword at bracket depth zero; return `(start, end)` pieces.

    The first piece starts at offset 0, so that anything before the first keyword is parsed (and
    refused) with it. Torn strings and comments, stray closers and too deep nesting are reported
    here, with their place; the piece they are in is left out.
    """
    text = source.text
    starts: list[int] = []
    broken_at: list[int] = []
    openers: list[re.Match[str]] = []
    name_from = 0
    for found in _SKELETON.finditer(text):
        match found.lastgroup:
            case "open":
                openers.append(found)
                if len(openers) > MAX_DEPTH:
                    _report(findings, "P004", f"nested deeper than {MAX_DEPTH} levels", found)
                    broken_at.append(found.start())
                    openers.clear()
                    break
            case "close":
                if openers:
                    openers.pop()
            case "word":
                if found.group() in keywords and not openers:
                    # `query query()`: a word right behind a keyword is its name.
                    if text[name_from : found.start()].strip() or not starts:
                        starts.append(found.start())
                    name_from = found.end()
            case "torn":
                what = "string" if found.group() == '"' else "comment"
                _report(findings, "P005", f"this {what} is never closed", found)
                broken_at.append(found.start())
                openers.clear()
                break
            case _:  # a whole string or comment: nothing inside it counts
                pass
    if openers:
        opener = openers[0]
        _report(findings, "P006", f"this `{opener.group()}` is never closed", opener)
        broken_at.append(opener.start())
    # Comments and space in front of the first declaration belong to it; code there is refused.
    if starts and not _has_code(text, 0, starts[0]):
        starts = starts[1:]
    bounds = [0, *starts]
    pieces = list(zip(bounds, [*bounds[1:], len(text)], strict=True))
    return [piece for piece in pieces if not any(piece[0] <= at < piece[1] for at in broken_at)]


def tokens(text: str) -> Iterator[Token]:
    """Yield every token of a text that already parses, comments included."""
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        assert kind is not None
        if kind != "space":
            yield Token(kind, found.group(), found.start())


def unescape(literal: str) -> str:
    """Return the value of a quoted string literal.

    Raises:
        ValueError: the index of an unsupported escape inside the literal, as its only argument.
    """
    body = literal[1:-1]
    if "\\" not in body:
        return body
    out: list[str] = []
    at = 0
    while at < len(body):
        if body[at] != "\\":
            out.append(body[at])
            at += 1
            continue
        escaped = body[at + 1]
        if escaped not in _ESCAPES:
            raise ValueError(at + 1)
        out.append(_ESCAPES[escaped])
        at += 2
    return "".join(out)


def quote(value: str) -> str:
    """Return `value` as a string literal; the inverse of `unescape`."""
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        value = value.replace(char, escape)
    return f'"{value}"'


def _has_code(text: str, start: int, end: int) -> bool:
    """Whether anything but space and comments stands between two offsets."""
    return any(
        token.kind not in ("line_comment", "block_comment") for token in tokens(text[start:end])
    )


def _report(findings: DiagnosticList, code: str, message: str, found: re.Match[str]) -> None:
    findings.add(Diagnostic(code, Phase.PARSE, message, Span(*found.span())))
