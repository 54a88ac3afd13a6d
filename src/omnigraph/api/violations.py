"""What a broken rule of the schema looks like: one value for every rule and every write path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Self

from omnigraph.api.wire import Shape, Wire


class Rule(StrEnum):
    """Which rule was broken."""

    RECORD = "record"
    TYPE = "type"
    REQUIRED = "required"
    ENUM = "enum"
    RANGE = "range"
    CHECK = "check"
    UNIQUE = "unique"
    KEY = "key"
    ENDPOINT = "endpoint"
    CARDINALITY = "cardinality"


@dataclass(frozen=True, slots=True)
class Violation(Shape):
    """One broken rule. `place` says where the value came from: a statement or a line."""

    rule: Rule
    type_name: Annotated[str, Wire("type")]
    message: str
    prop: Annotated[str | None, Wire("property")] = None
    row_id: Annotated[str | None, Wire("id")] = None
    value: Annotated[Any, Wire(hidden=True)] = None
    place: str | None = None

    def to_json_value(self) -> dict[str, Any]:
        """Return the violation; one of no type in particular has none there, either."""
        return Shape.to_json_value(self) | {"type": self.type_name or None}

    @classmethod
    def from_json_value(cls, value: object) -> Self:
        """Return the violation a JSON object stands for; see `Shape`."""
        if isinstance(value, Mapping) and value.get("type") is None:
            value = {**value, "type": ""}
        return super(Violation, cls).from_json_value(value)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message
