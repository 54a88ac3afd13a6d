"""Changing a schema: what became of it, what stands in the way, what it was before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from omnigraph.api.stored import BrokenQuery
from omnigraph.api.texts import SchemaStep
from omnigraph.api.wire import Shape, Wire
from omnigraph.errors import BadRequestError, ConflictError


@dataclass(frozen=True, slots=True)
class SchemaApplied(Shape):
    """What became of a new schema; where nothing was written, `applied` is false."""

    uri: str
    supported: bool
    applied: bool
    manifest_version: int
    """Of the branch, as it is now."""
    steps: tuple[SchemaStep, ...]
    branch: str = "main"
    graph_commit_id: Annotated[str | None, Wire(omit_empty=True)] = None
    """The commit that brought it."""
    preview: bool = False
    """Whether nothing was written because that was asked for."""
    broken_queries: Annotated[tuple[BrokenQuery, ...], Wire(omit_empty=True)] = ()
    """Stored queries that mean nothing under it."""

    def _derived(self) -> dict[str, Any]:
        return {"step_count": len(self.steps)}


@dataclass(frozen=True, slots=True)
class SchemaDiff(Shape):
    """The steps from one schema to another, wherever they are from."""

    before: str
    """What was compared: a branch, a commit, a version or a file."""
    after: str
    steps: tuple[SchemaStep, ...]

    def _derived(self) -> dict[str, Any]:
        return {"step_count": len(self.steps)}


@dataclass(frozen=True, slots=True)
class SchemaVersion(Shape):
    """A commit that changed the schema of its branch, and how."""

    graph_commit_id: str
    manifest_version: int
    schema_hash: str
    created_at: int
    """Microseconds since the epoch."""
    actor_id: str | None
    steps: tuple[SchemaStep, ...]
    message: Annotated[str | None, Wire(omit_empty=True)] = None


@dataclass(frozen=True, slots=True)
class SchemaHistory(Shape):
    """The commits of a branch that changed its schema, newest first; the last one began it."""

    branch: str
    versions: tuple[SchemaVersion, ...]


class SchemaUnsupportedError(BadRequestError):
    """A change of schema that cannot be made; nothing was written. `steps` has every reason."""

    def __init__(self, steps: Iterable[SchemaStep]) -> None:
        self.steps = tuple(steps)
        told = (f"{step.facts['entity']}: {step.facts['reason']}" for step in self.steps)
        super().__init__("; ".join(told), hint=self.steps[0].hint if self.steps else None)


class LoadsRunningError(ConflictError):
    """Loads are writing to tables whose columns would change; `loads` names them."""

    def __init__(self, loads: Mapping[str, Sequence[str]]) -> None:
        self.loads = {load: tuple(tables) for load, tables in sorted(loads.items())}
        told = "; ".join(f"{load} into {', '.join(keys)}" for load, keys in self.loads.items())
        super().__init__(
            f"loads are writing to tables that this would change: {told}",
            hint="wait until they are done; one that died lapses within five minutes",
        )


class OnlyMainError(ConflictError):
    """There are other branches, and it was asked to insist on none."""

    def __init__(self, branches: Sequence[str]) -> None:
        self.branches = tuple(branches)
        super().__init__(
            "schema apply requires a repo with only main; found non-main branches: "
            + ", ".join(self.branches),
            hint="merge or delete them, or leave out only_main: branches keep their own schema",
        )


def require_only_main(branches: Iterable[str]) -> None:
    """Return only if a graph has no other branch than main.

    Raises:
        OnlyMainError: it has.
    """
    others = [name for name in branches if name != "main"]
    if others:
        raise OnlyMainError(others)
