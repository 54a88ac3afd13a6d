r"""One layout for schema texts. Only white space changes; every token and comment stays.

The style: two spaces of indent; a header on one line, or, past 100 columns, each annotation and
`implements` on a line of its own; one property per line with its annotations behind it, one
constraint per line; at most one blank line where the text had some, none after `{` or before
`}`, exactly one around a declaration with a body. A comment stays on its line: behind what
precedes it, or alone. Line ends become `\n`; a byte-order mark goes.

Works on the tokens of a text that parses, so it needs no grammar of its own beyond where
declarations and members begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from omnigraph.compiler.schema.items import CONSTRAINT_WORDS
from omnigraph.compiler.schema.parser import KEYWORDS, parse_schema
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import Token, tokens

MAX_HEADER = 100

_COMMENTS = frozenset({"line_comment", "block_comment"})
_TIGHT_AFTER = frozenset({"(", "[", "@", "..", "-"})
_TIGHT_BEFORE = frozenset({")", "]", "(", ",", ":", "?", ".."})


class _Gap(IntEnum):
    """What stands before a token; a line break is wider than a space."""

    NONE = 0
    SPACE = 1
    LINE = 2
    BLANK = 3


@dataclass(frozen=True, slots=True)
class _Place:
    """The gap a token wants before it, and its indent when it starts a line."""

    token: Token
    gap: _Gap
    indent: int

    @property
    def closes(self) -> bool:
        """Whether this is the end of a body."""
        return self.token.kind == "symbol" and self.token.text == "}"


def format_schema(source: Source) -> str:
    """Return the text in the one layout; formatting it again changes nothing.

    Raises:
        DiagnosticsError: the text does not parse.
    """
    parse_schema(source)
    pieces = list(tokens(source.text))
    places = _plan([piece for piece in pieces if piece.kind not in _COMMENTS])
    return _Printer(source.text, places).print(pieces)


# Where every token goes


def _plan(code: Sequence[Token]) -> list[_Place]:
    """Return the places of all code tokens, declaration by declaration."""
    places: list[_Place] = []
    body_before = False
    start = 0
    for end in [*_declaration_starts(code)[1:], len(code)]:
        declaration = code[start:end]
        body = any(_is(token, "{") for token in declaration)
        first = _Gap.BLANK if start and (body or body_before) else _Gap.LINE
        places += _plan_declaration(declaration, first)
        body_before, start = body, end
    return places


def _declaration_starts(code: Sequence[Token]) -> list[int]:
    """Return where keywords stand outside all brackets; elsewhere they are names."""
    starts: list[int] = []
    depth = 0
    for at, token in enumerate(code):
        if token.kind == "symbol":
            depth += (token.text in "{([") - (token.text in "})]")
        elif depth == 0 and token.text in KEYWORDS and not (at and _is(code[at - 1], "@")):
            starts.append(at)
    return starts


def _plan_declaration(code: Sequence[Token], first: _Gap) -> list[_Place]:
    layout = _Declaration(code, wrapped=False)
    header = layout.header()
    width = sum(len(place.token.text) + (place.gap is _Gap.SPACE) for place in header)
    if width > MAX_HEADER:
        layout = _Declaration(code, wrapped=True)
        header = layout.header()
    places = [*header, *layout.body(len(header))]
    return [_Place(code[0], first, 0), *places[1:]] if code else []


@dataclass(frozen=True, slots=True)
class _Declaration:
    code: Sequence[Token]
    wrapped: bool

    def header(self) -> list[_Place]:
        """Return the places up to and including `{`."""
        places: list[_Place] = []
        depth = 0
        for at, token in enumerate(self.code):
            depth += _is(token, "(") - _is(token, ")")
            breaks = depth == 0 and (_is(token, "@") or token.text == "implements")
            gap = _Gap.LINE if breaks and self.wrapped else self.gap(at, in_enum=False)
            places.append(_Place(token, gap, 1))
            if _is(token, "{"):
                break
        return places

    def body(self, start: int) -> list[_Place]:
        """Return the places behind `{`."""
        places: list[_Place] = []
        depth = 0
        in_enum = False
        for at in range(start, len(self.code)):
            token = self.code[at]
            if _is(token, "}"):
                empty = _is(self.code[at - 1], "{")
                places.append(_Place(token, _Gap.NONE if empty else _Gap.LINE, 0))
            elif depth == 0 and self.starts_member(at):
                places.append(_Place(token, _Gap.LINE, 1))
            else:
                places.append(_Place(token, self.gap(at, in_enum), 2))
            if _is(token, "("):
                depth += 1
                in_enum = depth == 1 and self.code[at - 1].text == "enum"
            elif _is(token, ")"):
                depth -= 1
                in_enum = False
        return places

    def starts_member(self, at: int) -> bool:
        """Whether a property or a constraint begins here."""
        token = self.code[at]
        following = self.code[at + 1 : at + 3]
        if token.kind == "word":
            return _is(following[0], ":") and not _is(self.code[at - 1], "@")
        return (
            _is(token, "@")
            and following[0].text in CONSTRAINT_WORDS
            and len(following) == 2
            and _is(following[1], "(")
        )

    def gap(self, at: int, in_enum: bool) -> _Gap:
        """Return the gap inside a line."""
        if at == 0:
            return _Gap.NONE
        before, token = self.code[at - 1], self.code[at]
        if in_enum and not _is(before, ","):
            return _Gap.NONE  # `in-review` is one value but three tokens
        tight = (before.kind == "symbol" and before.text in _TIGHT_AFTER) or (
            token.kind == "symbol" and token.text in _TIGHT_BEFORE
        )
        return _Gap.NONE if tight else _Gap.SPACE


# Printing, with the comments in between


@dataclass(slots=True)
class _Printer:
    text: str
    places: list[_Place]
    out: list[str] = field(default_factory=list)
    separated: int = -1  # the place whose blank line a comment before it has already got

    def print(self, pieces: Sequence[Token]) -> str:
        """Return the laid-out text of all tokens and comments."""
        at = 0
        previous: Token | None = None
        for piece in pieces:
            following = self.places[at] if at < len(self.places) else None
            is_code = piece.kind not in _COMMENTS
            if previous is not None:
                gap = self.gap(previous, piece, at, is_code)
                indent = self.indent(following, is_code)
                self.out.append(_white(gap, indent))
            self.out.append(piece.text if is_code else _clean(piece))
            previous = piece
            at += is_code
        return "".join(self.out) + "\n" if self.out else ""

    def gap(self, previous: Token, piece: Token, at: int, is_code: bool) -> _Gap:
        """Return the gap before a piece, from what it wants and what the text had."""
        newlines = self.text.count("\n", previous.end, piece.start)
        following = self.places[at] if at < len(self.places) else None
        wanted = following.gap if following is not None else _Gap.LINE
        if not is_code:
            if newlines == 0:
                return _Gap.SPACE
            gap = _Gap.LINE
        elif previous.kind == "line_comment" or (previous.kind == "block_comment" and newlines):
            gap = max(_Gap.LINE, wanted)
        elif previous.kind == "block_comment":
            gap = max(_Gap.SPACE, wanted)
        else:
            gap = wanted
        if wanted is _Gap.BLANK:
            first, self.separated = self.separated != at, at
            if first:
                return _Gap.BLANK
            gap = min(gap, _Gap.LINE)
        opened = _is(previous, "{")
        closed = is_code and following is not None and following.closes
        if gap is _Gap.LINE and newlines > 1 and not opened and not closed:
            return _Gap.BLANK
        return gap

    def indent(self, following: _Place | None, is_code: bool) -> int:
        """Return the indent of a piece that starts a line; a comment stands like what follows."""
        if following is None:
            return 0
        return 1 if following.closes and not is_code else following.indent


def _white(gap: _Gap, indent: int) -> str:
    if gap < _Gap.LINE:
        return " " * gap
    return "\n" * (gap - 1) + "  " * indent


def _clean(comment: Token) -> str:
    if comment.kind == "line_comment":
        return comment.text.rstrip()
    return comment.text.replace("\r\n", "\n")


def _is(token: Token, symbol: str) -> bool:
    return token.kind == "symbol" and token.text == symbol
