"""Stored queries: what may be called by name, what they take, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from omnigraph.api.wire import Shape, Wire
from omnigraph.errors import BadRequestError, NotFoundError

ParamKind = Literal[
    "string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list"
]
"""What a value of a parameter is; a `bigint` may be more than a number of JavaScript can hold."""
PARAM_KINDS: tuple[ParamKind, ...] = get_args(ParamKind)
TOOL_PREFIX = "q_"
"""In front of the name of a query that is a tool for agents, so that it never hides another one."""


@dataclass(frozen=True, slots=True)
class StoredParam(Shape):
    """One parameter of a stored query."""

    name: str
    kind: ParamKind
    nullable: bool
    """Whether it may be left out."""
    item_kind: Annotated[ParamKind | None, Wire(omit_empty=True)] = None
    """What a list is of."""
    vector_dim: Annotated[int | None, Wire(omit_empty=True)] = None

    @property
    def spelled(self) -> str:
        """The parameter as one word for people."""
        kind = f"[{self.item_kind}]" if self.kind == "list" else self.kind
        wide = "" if self.vector_dim is None else f"({self.vector_dim})"
        return f"${self.name}: {kind}{wide}{'?' if self.nullable else ''}"


@dataclass(frozen=True, slots=True)
class StoredQuery(Shape):
    """A query that is called by its name."""

    name: str
    tool_name: str
    """What it is called among the tools of an agent."""
    description: str | None
    instruction: str | None
    mutation: bool
    params: tuple[StoredParam, ...]
    exposed: bool = True
    """Whether agents are given it as a tool; a write is only if the settings say so."""

    @property
    def signature(self) -> str:
        """The query as one line for people."""
        return f"{self.name}({', '.join(one.spelled for one in self.params)})"


@dataclass(frozen=True, slots=True)
class StoredQueryList(Shape):
    """The stored queries of a graph, by their names."""

    queries: tuple[StoredQuery, ...]


@dataclass(frozen=True, slots=True)
class BrokenQuery(Shape):
    """A stored query that means nothing under a schema, and why."""

    name: str
    error: str


@dataclass(frozen=True, slots=True)
class StoredChecked(Shape):
    """What a look at the stored queries of a graph found."""

    queries: int
    broken: tuple[BrokenQuery, ...]

    def _derived(self) -> dict[str, str]:
        return {"status": "error" if self.broken else "ok"}


class StoredQueryNotFoundError(NotFoundError):
    """There is no stored query of that name, or none for who asks: the two look the same."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"query '{name}' not found")


class StoredQueryError(BadRequestError):
    """A stored query cannot be used as it is written; `query` names it, if it has a name."""

    def __init__(self, message: str, *, query: str | None = None, hint: str | None = None) -> None:
        self.query = query
        super().__init__(message, hint=hint)
