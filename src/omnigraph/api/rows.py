"""The rows of a query as JSON has them: what goes over the wire and into every layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from omnigraph.api.wire import Shape, Wire


@dataclass(frozen=True, slots=True)
class ReadTarget(Shape):
    """What was asked for: the state of a branch, or a snapshot."""

    branch: str | None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class ReadHead(Shape):
    """A result without its rows: the first of the lines it is written as."""

    query_name: str
    target: ReadTarget
    row_count: int

    def to_json_value(self) -> dict[str, Any]:
        """Return the head, told apart from rows by its kind."""
        return {"kind": "metadata"} | Shape.to_json_value(self)


@dataclass(frozen=True, slots=True)
class ReadOutput(Shape):
    """A result as every surface shows it; the target says what was asked for."""

    query_name: str
    target: ReadTarget
    rows: tuple[Mapping[str, Any], ...]
    columns: Annotated[tuple[str, ...], Wire(omit_empty=True)] = ()

    @property
    def head(self) -> ReadHead:
        """Everything but rows and columns."""
        return ReadHead(self.query_name, self.target, len(self.rows))

    def to_json_value(self) -> dict[str, Any]:
        """Return the whole result; without columns they are left out."""
        columns = {"columns": list(self.columns)} if self.columns else {}
        return {
            "query_name": self.query_name,
            "target": self.target.to_json_value(),
            "row_count": len(self.rows),
            **columns,
            "rows": list(self.rows),
        }
