"""Values, words and their order, plainly: the part of the oracle that knows no queries."""

from __future__ import annotations

import math
import struct
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, TypeVar, assert_never

import Stemmer

from omnigraph.compiler.operations import CompareOp

T = TypeVar("T")


def compared(left: Any, op: CompareOp, right: Any) -> bool:
    """Compare two values; Python compares numbers of any kind exactly."""
    if left is None or right is None:
        return False
    match op:
        case CompareOp.EQ:
            return left == right
        case CompareOp.NE:
            return left != right
        case CompareOp.LT:
            return left < right
        case CompareOp.LE:
            return left <= right
        case CompareOp.GT:
            return left > right
        case CompareOp.GE:
            return left >= right
        case CompareOp.CONTAINS:
            if isinstance(left, str):
                return right in left
            return any(one is not None and one == right for one in left)
        case CompareOp.STARTS_WITH:
            return left[: len(right)] == right
        case CompareOp.IN:
            return any(one is not None and left == one for one in right)
        case _:
            assert_never(op)


def narrowed(value: Any) -> Any:
    """Return a constant as a single-precision column would have stored it; integers are exact."""
    if isinstance(value, float):
        return to_f32(value)
    return tuple(map(narrowed, value)) if isinstance(value, list | tuple) else value


def to_f32(value: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def sorted_by(keyed: list[tuple[list[Any], T]], descending: Sequence[bool]) -> list[T]:
    """Return the items in order of their keys; keys without a direction ascend."""

    def order(left: tuple[list[Any], T], right: tuple[list[Any], T]) -> int:
        for at, (a, b) in enumerate(zip(left[0], right[0], strict=True)):
            sign = three_way(a, b)
            if sign:
                return -sign if at < len(descending) and descending[at] else sign
        return 0

    return [item for _, item in sorted(keyed, key=cmp_to_key(order))]


def three_way(left: Any, right: Any) -> int:
    """Return the order of two values of one type: null first, lists item by item."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, list | tuple):
        for a, b in zip(left, right, strict=False):
            sign = three_way(a, b)
            if sign:
                return sign
        return (len(left) > len(right)) - (len(left) < len(right))
    return (left > right) - (left < right)


def frozen(value: Any) -> Any:
    """Return a hashable stand-in; truth values stay apart from numbers."""
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    return (type(value) is bool, value)


def exact_sum(values: Sequence[float]) -> float:
    """Return the sum as a double: rounded once, whatever the order of the values."""
    if all(isinstance(one, int) for one in values):
        return float(sum(values))
    return float(sum(map(Fraction, values)))


# Text

STOP_WORDS = {
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is"),
    *("it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there"),
    *("these", "they", "this", "to", "was", "will", "with"),
}
_english = Stemmer.Stemmer("english")


def terms(text: str) -> list[str]:
    """Return the terms of a text: words lowered, folded, without stop words, stemmed."""
    words: list[str] = []
    word = ""
    for char in text + " ":
        if char.isalnum():
            word += char
        elif word:
            words.append(word)
            word = ""
    found: list[str] = []
    for word in words:
        plain = "".join(
            char
            for char in unicodedata.normalize("NFKD", word.lower())
            if not unicodedata.combining(char)
        )
        if len(word) <= 40 and plain and plain not in STOP_WORDS:
            found.append(_english.stemWord(plain))
    return found


def edit_distance(left: str, right: str) -> int:
    """Return the least number of inserted, deleted and replaced letters."""
    row = list(range(len(right) + 1))
    for done, a in enumerate(left, 1):
        before, row = row, [done]
        for at, b in enumerate(right, 1):
            row.append(min(before[at] + 1, row[at - 1] + 1, before[at - 1] + (a != b)))
    return row[-1]
