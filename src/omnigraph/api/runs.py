"""Runs: writes on a branch of their own, which reach their target together or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from omnigraph.api.wire import Shape

RunStatus = Literal["running", "published", "failed", "aborted"]


@dataclass(frozen=True, slots=True)
class Run(Shape):
    """One run, as it is recorded."""

    run_id: str
    target_branch: str
    """Where it is to be published."""
    run_branch: str
    """The hidden branch that has what it wrote."""
    base_snapshot_id: str
    """The commit of the target it began from."""
    base_manifest_version: int
    operation_hash: str | None
    """What a client calls its request, to know it again."""
    actor_id: str | None
    status: RunStatus
    published_snapshot_id: str | None
    """The commit of the target that has what it wrote."""
    created_at: int
    """Microseconds since the epoch, as `updated_at`."""
    updated_at: int


@dataclass(frozen=True, slots=True)
class RunList(Shape):
    """All runs of a graph, oldest first."""

    runs: tuple[Run, ...]
