"""The words of operators and functions, which texts, meaning and operators share."""

from __future__ import annotations

from enum import StrEnum


class CompareOp(StrEnum):
    """Operators of filters and mutation predicates; the value is the spelling."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    IN = "in"


class AggregateFn(StrEnum):
    """Aggregate functions; the value is the spelling."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class TextFn(StrEnum):
    """Functions that test a text property; the value is the spelling."""

    SEARCH = "search"
    FUZZY = "fuzzy"
    MATCH_TEXT = "match_text"
