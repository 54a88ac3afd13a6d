"""`@` items: arguments decoded, then read as an annotation, a constraint or a cardinality.

Knows one item at a time; where items may stand is `tree`'s business.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, Phase
from omnigraph.compiler.schema.ast import (
    Annotation,
    Cardinality,
    Check,
    ColumnsConstraint,
    Constraint,
    Form,
    Index,
    Key,
    Name,
    Range,
    Unique,
)
from omnigraph.compiler.schema.fills import FILLS, NOW
from omnigraph.compiler.source import Span
from omnigraph.compiler.syntax import unescape

if TYPE_CHECKING:
    from lark import Token, Tree

COLUMN_CONSTRAINTS: dict[str, type[ColumnsConstraint]] = {
    "key": Key,
    "unique": Unique,
    "index": Index,
}
CONSTRAINT_WORDS = frozenset({*COLUMN_CONSTRAINTS, "range", "check"})

_MAX_CARD = 2**32 - 1
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


@dataclass(frozen=True, slots=True)
class Reporter:
    """Adds findings of the parse class."""

    findings: DiagnosticList

    def __call__(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Report an error at a place."""
        self.findings.add(Diagnostic(code, Phase.PARSE, message, span, hint))


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number or truth value; `text` is the decoded string or the digits as written."""

    text: str
    is_string: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Bounds:
    """`lo..hi`; a missing side is None. `starred` when the upper side was written `*`."""

    min: int | float | None
    max: int | float | None
    starred: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Setting:
    """`key = value`."""

    key: str
    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """`name()`."""

    name: Name
    span: Span


Arg = Name | Literal | Bounds | Setting | Call


@dataclass(frozen=True, slots=True)
class Item:
    """`@name` or `@name(args)`; `args` is None without parentheses."""

    name: Name
    args: tuple[Arg, ...] | None
    span: Span


def children(tree: Tree[Any]) -> list[Any]:
    """Return the children of a parse tree; which are tokens and which trees, the grammar says."""
    return tree.children


def read_item(tree: Tree[Any], report: Reporter) -> Item | None:
    """Decode an `@` item; None when an argument was reported."""
    at, word, args_tree = children(tree)
    start: int = at.start_pos
    name = Name(str(word), token_span(word))
    span = Span(start, name.span.end)
    if args_tree is None:
        return Item(name, None, span)
    signed = name.text in FILLS
    args = [_read_arg(arg, report, signed=signed) for arg in children(args_tree)]
    sound = tuple(arg for arg in args if arg is not None)
    return Item(name, sound, span) if len(sound) == len(args) else None


def read_annotation(item: Item, report: Reporter) -> Annotation | None:
    """Return a kept annotation: at most one value, then settings."""
    value: str | None = None
    form: Form = "string"
    kwargs: dict[str, str] = {}
    for place, arg in enumerate(item.args or ()):
        match arg:
            case Setting() if place > 0 and arg.key not in kwargs:
                kwargs[arg.key] = arg.value
            case Setting() if place > 0:
                report("S010", f"`{arg.key}` is given twice", arg.span)
                return None
            case Name() if place == 0:
                value, form = arg.text, "word"
            case Literal() if place == 0:
                value, form = arg.text, "string" if arg.is_string else "literal"
            case Call() if place == 0 and item.name.text in FILLS and arg.name.text == "now":
                value, form = NOW, "call"
            case Call():
                hint = "@default and @backfill take now()"
                report("S011", f"@{item.name} takes no `{arg.name}()`", arg.name.span, hint)
                return None
            case Bounds():
                report("S011", f"@{item.name} takes no range", arg.span)
                return None
            case _:
                report(
                    "S011",
                    f"@{item.name} takes one value, then `key = value` settings",
                    arg.span,
                )
                return None
    return Annotation(item.name.text, value, tuple(sorted(kwargs.items())), item.span, form)


def read_constraint(item: Item, report: Reporter) -> Constraint | None:
    """Return the body constraint an item with parentheses spells."""
    args = item.args or ()
    match item.name.text:
        case "range":
            return _range(item, args, report)
        case "check":
            return _check(item, args, report)
        case word:
            return _columns(word, item, args, report)


def read_cardinality(item: Item, report: Reporter) -> Cardinality | None:
    """Return the cardinality of `@card(min..max)`."""
    match item.args:
        case (Bounds(min=int(low), max=int() | None as high),):
            if not (0 <= low <= _MAX_CARD and (high is None or 0 <= high <= _MAX_CARD)):
                report("S013", f"@card counts from 0 to {_MAX_CARD}", item.span)
                return None
            if high is not None and low > high:
                report("S013", f"@card minimum {low} is above its maximum {high}", item.span)
                return None
            return Cardinality(low, high)
        case _:
            report(
                "S013",
                "@card takes one range of whole numbers",
                item.span,
                "write @card(0..1), @card(1..) or @card(0..*)",
            )
            return None


def _columns(word: str, item: Item, args: tuple[Arg, ...], report: Reporter) -> Constraint | None:
    columns: list[Name] = []
    for arg in args:
        if not isinstance(arg, Name):
            report(
                "S006",
                f"expected property name in constraint @{word}",
                arg.span,
                f"write @{word} without parentheses behind a property, or name its columns",
            )
            return None
        if arg in columns:
            report("S010", f"`{arg}` is repeated in @{word}", arg.span)
            return None
        columns.append(arg)
    return COLUMN_CONSTRAINTS[word](tuple(columns), item.span)


def _range(item: Item, args: tuple[Arg, ...], report: Reporter) -> Range | None:
    match args:
        case (Name() as prop, Bounds() as bounds) if not bounds.starred:
            low, high = bounds.min, bounds.max
            if low is not None and high is not None and low > high:
                report("S014", f"range minimum {low} is above its maximum {high}", bounds.span)
                return None
            return Range(prop, low, high, item.span)
        case _:
            report(
                "S006",
                "@range takes a property name and a range",
                item.span,
                "write @range(age, 0..150), @range(age, 0..) or @range(age, ..150)",
            )
            return None


def _check(item: Item, args: tuple[Arg, ...], report: Reporter) -> Check | None:
    match args:
        case (Name() as prop, Literal(is_string=True) as pattern):
            return Check(prop, pattern.text, item.span)
        case _:
            report(
                "S006",
                "@check takes a property name and a pattern",
                item.span,
                'write @check(code, "^[A-Z]{3}$")',
            )
            return None


def _read_arg(tree: Tree[Any], report: Reporter, *, signed: bool) -> Arg | None:
    match str(tree.data):
        case "word":
            token = children(tree)[0]
            if token in ("true", "false"):
                return Literal(str(token), is_string=False, span=token_span(token))
            return Name(str(token), token_span(token))
        case "string":
            return _string(children(tree)[0], report)
        case "call":
            token = children(tree)[0]
            return Call(Name(str(token), token_span(token)), token_span(token))
        case "number":
            return _bare_number(tree, report, signed=signed)
        case "range":
            return _bounds(tree, report)
        case _:
            return _setting(tree, report)


def _string(token: Token, report: Reporter) -> Literal | None:
    span = token_span(token)
    try:
        return Literal(unescape(str(token)), is_string=True, span=span)
    except ValueError as error:
        at = span.start + int(error.args[0])
        report(
            "P011",
            f"unsupported escape sequence `\\{token[at + 1 - span.start]}`",
            Span(at, at + 2),
            r"the escapes are \" \\ \n \r \t",
        )
        return None


def _bare_number(tree: Tree[Any], report: Reporter, *, signed: bool) -> Literal | None:
    minus, digits = children(tree)
    if minus is not None and signed:
        start = token_span(minus).start
        return Literal(f"-{digits}", is_string=False, span=Span(start, token_span(digits).end))
    if minus is not None:
        report("S011", "a negative number is only allowed in a range", token_span(minus))
        return None
    return Literal(str(digits), is_string=False, span=token_span(digits))


def _setting(tree: Tree[Any], report: Reporter) -> Setting | None:
    key, value = children(tree)
    if value.type == "STRING":
        literal = _string(value, report)
        return None if literal is None else Setting(str(key), literal.text, token_span(key))
    if value.type == "NAME" and value not in ("true", "false"):
        report("S011", f"`{key}` takes a string, a number, true or false", token_span(value))
        return None
    return Setting(str(key), str(value), token_span(key))


def _bounds(tree: Tree[Any], report: Reporter) -> Bounds | None:
    """Return the two sides; which side a number is on depends on the dots, not on its place."""
    sides: list[int | float | None] = [None, None]
    side = 0
    starred = False
    span = Span(0, 0)
    for child in filter(None, children(tree)):
        match getattr(child, "type", "number"):
            case "DOTS":
                side, span = 1, token_span(child)
            case "STAR":
                starred = True
            case _:
                sides[side] = _number(child, report)
                if sides[side] is None:
                    return None
    low, high = sides
    return Bounds(low, high, starred, span)


def _number(tree: Tree[Any], report: Reporter) -> int | float | None:
    """Return a bound as the number it spells, if a column could hold it."""
    minus, digits = children(tree)
    text = ("-" if minus is not None else "") + str(digits)
    value: int | float
    if "." in text:
        value = float(text)
        fits = math.isfinite(value)
    else:
        # Comparing lengths first: a number of a million digits is not worth converting.
        significant = digits.lstrip("0") or "0"
        fits = len(significant) <= 20
        value = int(significant) * (1 if minus is None else -1) if fits else 0
        fits = fits and _MIN_INT <= value <= _MAX_INT
    if not fits:
        report("S014", "this bound is larger than any column can hold", token_span(digits))
        return None
    return value


def token_span(token: Token) -> Span:
    """Return the place of a token in the whole text."""
    assert token.start_pos is not None
    return Span(token.start_pos, token.start_pos + len(token))
