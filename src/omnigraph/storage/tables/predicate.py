"""Row filters as values, turned into Lance's filter text in one place.

Callers never build filter strings: quoting of names and literals happens here and nowhere
else. Lance reads double quotes as a *string*, so names are quoted with backticks.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from omnigraph.errors import BadRequestError

Value = str | int | float | bool | dt.date | dt.datetime | decimal.Decimal
CompareOp = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Compare:
    """A column against a value."""

    column: str
    op: CompareOp
    value: Value


@dataclass(frozen=True, slots=True)
class IsIn:
    """A column equals one of some values; no values match no rows."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null."""

    column: str


@dataclass(frozen=True, slots=True)
class Contains:
    """A list column holds a value."""

    column: str
    value: Value


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A text column starts with a prefix."""

    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite, by SQL's rules for null."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; no parts hold always."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; no parts hold never."""

    parts: tuple[Predicate, ...]


Predicate = Compare | IsIn | IsNull | Contains | StartsWith | Not | AllOf | AnyOf


def equals(column: str, value: Value) -> Compare:
    """Return the filter `column = value`."""
    return Compare(column, "=", value)


def is_in(column: str, values: Iterable[Value]) -> IsIn:
    """Return the filter `column in values`."""
    return IsIn(column, tuple(values))


def renamed(predicate: Predicate, names: Mapping[str, str | None]) -> Predicate:
    """Return a filter whose columns are called otherwise; of one without a name all is null."""
    match predicate:
        case Not(part):
            return Not(renamed(part, names))
        case AllOf(parts):
            return AllOf(tuple(renamed(part, names) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(renamed(part, names) for part in parts))
        case _:
            stored = names[predicate.column]
            if stored is not None:
                return replace(predicate, column=stored)
            return AllOf(()) if isinstance(predicate, IsNull) else AnyOf(())


def to_sql(predicate: Predicate) -> str:
    """Return the filter text Lance understands."""
    match predicate:
        case Compare(column, op, value):
            return f"{_name(column)} {op} {literal(value)}"
        case IsIn(column, values):
            listed = ", ".join(map(literal, values))
            return f"{_name(column)} IN ({listed})" if values else "false"
        case IsNull(column):
            return f"{_name(column)} IS NULL"
        case Contains(column, value):
            return f"array_has({_name(column)}, {literal(value)})"
        case StartsWith(column, prefix):
            return f"starts_with({_name(column)}, {literal(prefix)})"
        case Not(part):
            return f"NOT ({to_sql(part)})"
        case AllOf(parts):
            return " AND ".join(f"({to_sql(part)})" for part in parts) or "true"
        case AnyOf(parts):
            return " OR ".join(f"({to_sql(part)})" for part in parts) or "false"
        case _:
            assert_never(predicate)


def literal(value: Value) -> str:
    """Return a value as filter text."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() | decimal.Decimal():
            return str(value)
        case float():
            if not math.isfinite(value):
                raise BadRequestError(f"{value} cannot be compared in a stored filter")
            return repr(value)
        case dt.datetime():
            return f"timestamp '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"date '{value.isoformat()}'"
        case _:
            assert_never(value)


def _name(column: str) -> str:
    if "`" in column:
        raise BadRequestError(f"'{column}' is not a column name")
    return ".".join(f"`{part}`" for part in column.split("."))
