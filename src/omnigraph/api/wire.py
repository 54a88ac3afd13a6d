"""How a value becomes JSON, and comes back.

A `Shape` is a frozen dataclass whose fields are its JSON: nothing is written twice. A field that is
called otherwise on the wire, or may be left out, says so in its type. What a reader does not know
is ignored, so a newer writer may say more; what is missing has its default, or is null.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Protocol,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from omnigraph.errors import FormatError


class ShapeError(FormatError):
    """JSON that came from elsewhere is not what it is said to be."""


@dataclass(frozen=True, slots=True)
class Wire:
    """What a field's type does not say of its JSON."""

    name: str | None = None
    """Another name than the field's."""
    omit_empty: bool = False
    """Whether null and empty lists are left out instead of being written."""
    digits: int | None = None
    """How many digits of a fraction are written."""
    hidden: bool = False
    """Whether the field is of this process alone."""


class JsonValue(Protocol):
    """Anything that has a JSON form."""

    def to_json_value(self) -> dict[str, Any]:
        """Return the JSON object."""
        ...


class Shape:
    """A frozen dataclass that is an object on the wire, by its fields."""

    __slots__ = ()

    def to_json_value(self) -> dict[str, Any]:
        """Return the JSON object: every field, then what is derived from them."""
        found = {}
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            if not (field.wire.omit_empty and (value is None or value == ())):
                found[field.key] = _encode(value, field.wire.digits)
        return found | self._derived()

    @classmethod
    def from_json_value(cls, value: object) -> Self:
        """Return the value a JSON object stands for.

        Raises:
            ShapeError: it is no such object.
        """
        if not isinstance(value, Mapping):
            raise ShapeError(f"{cls.__name__} is an object, not {_kind(value)}")
        given: dict[str, Any] = {}
        for field in _fields(cls):
            if field.key in value:
                given[field.name] = _decode(
                    field.hint, value[field.key], f"{cls.__name__}.{field.key}"
                )
            elif not field.has_default:
                if not _is_nullable(field.hint):
                    raise ShapeError(f"{cls.__name__} lacks '{field.key}'")
                given[field.name] = None
        return cls(**given)

    def _derived(self) -> dict[str, Any]:
        """Return what the wire states beside the fields; it is not read back."""
        return {}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    key: str
    hint: Any
    wire: Wire
    has_default: bool


_KNOWN: dict[type, tuple[_Field, ...]] = {}
"""Looked up once per shape; two threads that do so at once find the same."""


def _fields(shape: type) -> tuple[_Field, ...]:
    found = _KNOWN.get(shape)
    if found is None:
        found = _KNOWN[shape] = tuple(_look_up(shape))
    return found


def _look_up(shape: type) -> Iterator[_Field]:
    assert dataclasses.is_dataclass(shape), "a shape is a dataclass"
    hints = get_type_hints(shape, include_extras=True)
    for field in dataclasses.fields(shape):
        hint, wire = hints[field.name], Wire()
        if get_origin(hint) is Annotated:
            hint, wire = get_args(hint)
        has_default = (field.default, field.default_factory) != (dataclasses.MISSING,) * 2
        if not wire.hidden:
            yield _Field(field.name, wire.name or field.name, hint, wire, has_default)


def _encode(value: Any, digits: int | None = None) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case Shape():
            return value.to_json_value()
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _encode(one, digits) for key, one in value.items()}
        case tuple() | list():
            return [_encode(one, digits) for one in value]
        case float() if digits is not None:
            return round(value, digits) if digits else round(value)
        case _:
            return value


def _decode(hint: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - by the hint
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if isinstance(hint, NewType):
        return _decode(hint.__supertype__, value, where)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        (kept,) = (part for part in parts if part is not type(None))
        return _decode(kept, value, where)
    if origin is Literal:
        return _require(value in parts, value, value, where)
    if origin is tuple:
        _require(isinstance(value, Sequence) and not isinstance(value, str), value, value, where)
        return tuple(_decode(parts[0], one, where) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        _require(isinstance(value, Mapping), value, value, where)
        return {str(key): _decode(parts[1], one, where) for key, one in value.items()}
    return _decode_plain(hint, value, where)


def _decode_plain(hint: type, value: Any, where: str) -> Any:  # noqa: ANN401 - by the hint
    if issubclass(hint, Shape):
        return hint.from_json_value(value)
    if issubclass(hint, Enum):
        known = {str(one.value): one for one in hint}
        return _require(value in known, value, known.get(value), where)
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(_require(number, value, value, where))
    is_number_by_chance = hint is int and isinstance(value, bool)
    return _require(isinstance(value, hint) and not is_number_by_chance, value, value, where)


def _require(holds: bool, value: object, found: Any, where: str) -> Any:  # noqa: ANN401 - passed on
    if not holds:
        shown = repr(value) if isinstance(value, str | int | float) else _kind(value)
        raise ShapeError(f"{where} cannot be {shown}", hint="another version may have sent it")
    return found


def _is_nullable(hint: Any) -> bool:  # noqa: ANN401 - any type
    return hint is Any or type(None) in get_args(hint)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
