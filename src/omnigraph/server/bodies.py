"""Requests as they are decoded: those of the contract with what was added since, and new ones.

Every optional field may be null, which is the same as leaving it out; unknown fields are ignored.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from omnigraph.server.contract import LoadMode


class CallLimits(Struct):
    """Limits of one call; they may be tighter than those of the server, never looser."""

    seconds: float | None = None
    rows: int | None = None
    bytes: int | None = None


class ReadBody(Struct):
    """A read query, in the words of the contract or as `query` and `name`."""

    query_source: str | None = None
    query_name: str | None = None
    query: str | None = None
    name: str | None = None
    params: Any = None
    branch: str | None = None
    snapshot: str | None = None
    limits: CallLimits | None = None
    shape: Literal["rows", "graph"] | None = None
    max_nodes: int | None = None


class ChangeBody(Struct):
    """A mutation, in the words of the contract or as `query` and `name`."""

    query_source: str | None = None
    query_name: str | None = None
    query: str | None = None
    name: str | None = None
    params: Any = None
    branch: str | None = None
    message: str | None = None
    preview: bool | None = None
    limits: CallLimits | None = None


class StoredBody(Struct):
    """What a stored query is called with; what only a write can keep is refused of a read."""

    params: Any = None
    branch: str | None = None
    snapshot: str | None = None
    message: str | None = None
    preview: bool | None = None
    limits: CallLimits | None = None


class LintBody(Struct):
    """A text to be looked at, and whose schema it is held against."""

    query_source: str
    branch: str | None = None
    snapshot: str | None = None


class ExportBody(Struct):
    """Which tables to write out, of a branch or of a commit."""

    branch: str | None = None
    type_names: list[str] | None = None
    table_keys: list[str] | None = None
    snapshot: str | None = None


class LoadBody(Struct):
    """JSON lines to load into a branch."""

    data: str
    branch: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    mode: LoadMode | None = None
    message: str | None = None
    on_error: str | None = None
    max_errors: int | None = None


class SchemaApplyBody(Struct):
    """The schema a branch is to have."""

    schema_source: str
    allow_data_loss: bool | None = None
    branch: str | None = None
    only_main: bool | None = None
    preview: bool | None = None
    message: str | None = None


class SchemaPlanBody(Struct):
    """A schema to be compared with the accepted one."""

    schema_source: str
    allow_data_loss: bool | None = None
    branch: str | None = None


class SchemaDiffBody(Struct):
    """Two schemas, each of a state of the graph or a text, and what to call the texts."""

    before: str | None = None
    before_source: str | None = None
    before_name: str | None = None
    after: str | None = None
    after_source: str | None = None
    after_name: str | None = None


class BranchCreateBody(Struct):
    """A branch to be made from what another one is, or was at a commit."""

    name: str
    from_: str | None = msgspec.field(default=None, name="from")
    at: str | None = None


class BranchMergeBody(Struct):
    """Two branches to be merged, and what becomes of conflicts."""

    source: str
    target: str | None = None
    strategy: str | None = None
    resolve: Any = None
    columns: bool | None = None
    base: str | None = None
    delete_branch: bool | None = None
    message: str | None = None
    preview: bool | None = None


class BranchResetBody(Struct):
    """Where a branch is to go back to."""

    to: str
    message: str | None = None
    preview: bool | None = None


class ReplayBody(Struct):
    """A commit to be undone, or repeated on a branch."""

    commit: str
    branch: str | None = None
    parent: int | None = None
    strategy: str | None = None
    resolve: Any = None
    message: str | None = None
    preview: bool | None = None


class TagCreateBody(Struct):
    """A commit to be named: the newest of a branch, or one of the past."""

    name: str
    at: str | int | None = None
    branch: str | None = None
    message: str | None = None


class RunEndBody(Struct):
    """Why a run is published."""

    message: str | None = None


class EmbedBody(Struct):
    """Which vectors to fill."""

    types: list[str] | None = None
    mode: str | None = None
    branch: str | None = None
    message: str | None = None


class UpkeepBody(Struct):
    """The branch to index."""

    branch: str | None = None


class OptimizeBody(Struct):
    """Which tables of which branch to compact, and for how long; a preview only tells."""

    branch: str | None = None
    tables: list[str] | None = None
    preview: bool | None = None
    max_seconds: float | None = None


class CleanupBody(Struct):
    """What may go; unless `dry_run` is false, nothing does."""

    keep_versions: int | None = None
    older_than_secs: float | None = None
    dry_run: bool | None = None


class RepairBody(Struct):
    """What to do about changes of other tools; unless `confirm` is true, nothing is."""

    branch: str | None = None
    confirm: bool | None = None
    force: bool | None = None
