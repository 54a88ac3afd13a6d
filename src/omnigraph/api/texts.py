"""What is said of texts: plans of queries and schemas, drafts, checks, layouts of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from omnigraph.api.wire import Shape, ShapeError, Wire


@dataclass(frozen=True, slots=True)
class QueryPlan(Shape):
    """The operators a query runs as, one per line."""

    name: str
    plan: str


@dataclass(frozen=True, slots=True)
class QueryPlans(Shape):
    """The plans of several queries."""

    queries: tuple[QueryPlan, ...]


@dataclass(frozen=True, slots=True)
class SchemaStep(Shape):
    """One step of a migration. Its facts stand beside its kind on the wire."""

    kind: str
    facts: Mapping[str, Any]
    text: str
    """The step as one line for people."""
    hint: str | None = None
    """What to do instead of a step that is not supported."""

    def to_json_value(self) -> dict[str, Any]:
        """Return the step as an object tagged by its kind."""
        hint = {} if self.hint is None else {"hint": self.hint}
        return {"kind": self.kind, **self.facts, "text": self.text, **hint}

    @classmethod
    def from_json_value(cls, value: object) -> Self:
        """Return the step a tagged object stands for.

        Raises:
            ShapeError: it has no kind.
        """
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            raise ShapeError("a step of a migration is an object with a kind")
        facts = {name: one for name, one in value.items() if name not in ("kind", "text", "hint")}
        return cls(value["kind"], facts, str(value.get("text", value["kind"])), value.get("hint"))


@dataclass(frozen=True, slots=True)
class SchemaPlan(Shape):
    """The steps from the accepted schema to another one, in the order they are applied."""

    uri: str
    supported: bool
    """Whether every step can be applied."""
    steps: tuple[SchemaStep, ...]

    def _derived(self) -> dict[str, Any]:
        return {"step_count": len(self.steps)}


@dataclass(frozen=True, slots=True)
class SchemaText(Shape):
    """The accepted schema."""

    schema_source: str


@dataclass(frozen=True, slots=True)
class SchemaCheck(Shape):
    """What a check of a schema file found; counts are there if it is sound."""

    status: Literal["ok", "error"]
    schema_path: str
    interfaces: Annotated[int | None, Wire(omit_empty=True)] = None
    nodes: Annotated[int | None, Wire(omit_empty=True)] = None
    edges: Annotated[int | None, Wire(omit_empty=True)] = None
    schema_hash: Annotated[str | None, Wire(omit_empty=True)] = None
    findings: tuple[Mapping[str, Any], ...] = ()
    """Diagnostics, as the compiler words them."""


@dataclass(frozen=True, slots=True)
class SchemaDraft(Shape):
    """A schema that the rows of some files fit."""

    schema: str
    output: str | None
    """The file it was written to."""
    rows: int
    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    notes: tuple[str, ...]
    """What the draft cannot say."""
    mapping: Annotated[str | None, Wire(omit_empty=True)] = None
    """The file that says what columns are called in it, if one was written."""


@dataclass(frozen=True, slots=True)
class Initialized(Shape):
    """A graph that was created."""

    uri: str
    graph_commit_id: str
    config_path: str | None
    """The settings file that was written beside it."""


@dataclass(frozen=True, slots=True)
class FormattedFile(Shape):
    """One file, and whether its layout was the standard one."""

    path: str
    status: str


@dataclass(frozen=True, slots=True)
class FormattedFiles(Shape):
    """What became of the layout of some files."""

    files: tuple[FormattedFile, ...]


@dataclass(frozen=True, slots=True)
class ProgramVersion(Shape):
    """Which program this is."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class HealthCheck(Shape):
    """One thing this package needs of a machine, or can use."""

    name: str
    status: Literal["ok", "off", "failed"]
    """`off` is what is not there, and only needed by who uses it."""
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis(Shape):
    """What a look at this machine found."""

    checks: tuple[HealthCheck, ...]

    @property
    def failed(self) -> tuple[HealthCheck, ...]:
        """What is needed and does not work."""
        return tuple(one for one in self.checks if one.status == "failed")

    def _derived(self) -> dict[str, Any]:
        return {"status": "error" if self.failed else "ok"}
