"""Scalar and property types: what a value may be, how it is spelled, what compares with what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

MAX_VECTOR_DIM = 2_147_483_647


class Scalar(StrEnum):
    """Every scalar of both languages; the value is its spelling in source text."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    VECTOR = "Vector"


INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMERIC = INTEGERS | FLOATS

INTEGER_BOUNDS: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class PropType:
    """The type of a property, parameter or expression.

    `enum_values` (sorted) is set only for enums, whose scalar is String; `dim` only for vectors.
    """

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dim: int | None = None

    def __str__(self) -> str:
        if self.enum_values is not None:
            core = f"enum({', '.join(self.enum_values)})"
        elif self.scalar is Scalar.VECTOR:
            core = f"Vector({self.dim})"
        elif self.is_list:
            core = f"[{self.scalar}]"
        else:
            core = str(self.scalar)
        return f"{core}?" if self.nullable else core

    @property
    def is_numeric(self) -> bool:
        """Whether this is a single number."""
        return self.scalar in NUMERIC and not self.is_list

    @property
    def is_plain_string(self) -> bool:
        """Whether this is a single String, enum included."""
        return self.scalar is Scalar.STRING and not self.is_list

    def required(self) -> PropType:
        """Return the same type without null."""
        return replace(self, nullable=False) if self.nullable else self

    def item(self) -> PropType:
        """Return the type of one element of a list."""
        return replace(self, is_list=False, nullable=False)


def compatible(left: PropType, right: PropType) -> bool:
    """Whether values of the two types may be compared or assigned.

    The one test used everywhere: equal list-ness, and the same scalar or both numeric. Enum
    counts as String, nullability never matters, vectors must have the same width.
    """
    if left.is_list != right.is_list:
        return False
    if left.scalar is Scalar.VECTOR or right.scalar is Scalar.VECTOR:
        return left.scalar is right.scalar and left.dim == right.dim
    return left.scalar is right.scalar or (left.scalar in NUMERIC and right.scalar in NUMERIC)


_WIDER = {
    (Scalar.I32, Scalar.I64),
    (Scalar.U32, Scalar.U64),
    (Scalar.U32, Scalar.I64),
    (Scalar.F32, Scalar.F64),
}


def widens(old: PropType, new: PropType) -> bool:
    """Whether every value of one type is one of the other, whatever may be null.

    A number in more bits, any text instead of some, a list of one instead of a single value.
    """
    new = replace(new, nullable=old.nullable)
    if old == new or Scalar.VECTOR in (old.scalar, new.scalar):
        return False
    if new == replace(old, is_list=True, enum_values=None):
        return old.scalar is not Scalar.BLOB and old.enum_values is None
    if old.enum_values is not None:
        return new == replace(old, enum_values=None)
    return (old.scalar, new.scalar) in _WIDER and replace(old, scalar=new.scalar) == new
