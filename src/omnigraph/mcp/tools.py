"""What a tool is: a name, what it takes, what it does to the graph; and checking a call of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.errors import BadRequestError
from omnigraph.mcp.desk import Turn

Kind = Literal["string", "integer", "number", "boolean", "object", "array"]
Group = Literal["core", "more", "stored"]
_PYTHON: Mapping[Kind, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool."""

    name: str
    kind: Kind
    about: str = ""
    required: bool = False
    item: Kind | None = None
    words: Sequence[str] = ()
    """What a text may be, if not anything."""
    least: int | None = None
    nullable: bool = False

    def schema(self) -> dict[str, Any]:
        """Return the argument as JSON Schema has it."""
        found: dict[str, Any] = {"type": [self.kind, "null"] if self.nullable else self.kind}
        if self.about:
            found["description"] = self.about
        if self.item is not None:
            found["items"] = {"type": self.item}
        if self.words:
            found["enum"] = list(self.words)
        if self.least is not None:
            found["minimum"] = self.least
        return found

    def check(self, value: object) -> None:
        """Return only if a value is one of this argument.

        Raises:
            BadRequestError: it is not.
        """
        wanted = _PYTHON[self.kind]
        is_odd_bool = isinstance(value, bool) and self.kind != "boolean"
        if not isinstance(value, wanted) or is_odd_bool:
            raise BadRequestError(f"`{self.name}` is {self.kind}, not {_named(value)}")
        if self.words and value not in self.words:
            raise BadRequestError(
                f"`{self.name}` cannot be '{value}'", hint=f"use {', '.join(self.words)}"
            )
        if self.least is not None and isinstance(value, int) and value < self.least:
            raise BadRequestError(f"`{self.name}` is at least {self.least}")
        if self.item is not None and isinstance(value, list):
            for one in value:
                Argument(f"{self.name}[]", self.item).check(one)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. It says truly what it does to the graph."""

    name: str
    about: str
    arguments: tuple[Argument, ...]
    run: Callable[[Turn], str]
    group: Group = "core"
    writes: bool = False
    destroys: bool = False
    """Whether what was there may be gone or be another afterwards."""

    def schema(self) -> dict[str, Any]:
        """Return what it takes as JSON Schema has it."""
        return {
            "type": "object",
            "properties": {one.name: one.schema() for one in self.arguments},
            "required": [one.name for one in self.arguments if one.required],
            "additionalProperties": False,
        }

    def checked(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments of a call; null is the same as nothing.

        Raises:
            BadRequestError: one is missing, unknown, or not what it should be.
        """
        known = {one.name: one for one in self.arguments}
        found = {}
        for name, value in (given or {}).items():
            argument = known.get(name)
            if argument is None:
                hint = did_you_mean(name, known) or f"it takes {', '.join(known) or 'nothing'}"
                raise BadRequestError(f"{self.name} has no argument `{name}`", hint=hint)
            if value is not None:
                argument.check(value)
                found[name] = value
        missing = [one.name for one in self.arguments if one.required and one.name not in found]
        if missing:
            raise BadRequestError(f"{self.name} needs `{missing[0]}`")
        return found


def _named(value: object) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}
    return next((name for kind, name in names.items() if type(value) is kind), "array")


BRANCH = Argument("branch", "string", "which branch; main if none is named")
CURSOR = Argument("cursor", "string", "next_cursor of the page before; all else as it was")
MAX_ROWS = Argument("max_rows", "integer", "at most 50", least=1)
QUERY = Argument("query", "string", "text in .gq", required=True)
NAME = Argument("name", "string", "which query of the text, if it has several")
PARAMS = Argument("params", "object", "values by name, without $")
MESSAGE = Argument("message", "string", "why; stands on the commit")
KEY = Argument("key", "string", "the same key writes once; unless given, the same call does")
OWN_BRANCH = Argument("branch", "string", "a branch of yours, from start_work")
TYPE = Argument("type", "string", "a node or edge type", required=True)
ID = Argument("id", "string", "its id; the key, where there is one", required=True)
