"""The types of the 0.3 contract: what `/openapi.json` describes, and nothing else.

Answers are made from the values of `api`, which say at least what stands here; a test compares the
two. Names, requiredness and order are those that generated clients were made from.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
"""How many of something."""
Int64 = Annotated[int, Meta(extra_json_schema={"format": "int64"})]
"""A version, or microseconds since the epoch."""


class BranchMergeOutcome(enum.Enum):
    """What a merge came to."""

    already_up_to_date = "already_up_to_date"
    fast_forward = "fast_forward"
    merged = "merged"


class LoadMode(enum.Enum):
    """What happens to the rows that a touched table has."""

    overwrite = "overwrite"
    append = "append"
    merge = "merge"


class ErrorCode(enum.Enum):
    """What kind of refusal it is; errors of other kinds have none."""

    unauthorized = "unauthorized"
    forbidden = "forbidden"
    bad_request = "bad_request"
    not_found = "not_found"
    conflict = "conflict"
    internal = "internal"


class MergeConflictKindOutput(enum.Enum):
    """What two branches do not agree on."""

    divergent_insert = "divergent_insert"
    divergent_update = "divergent_update"
    delete_vs_update = "delete_vs_update"
    orphan_edge = "orphan_edge"
    unique_violation = "unique_violation"
    cardinality_violation = "cardinality_violation"
    value_constraint_violation = "value_constraint_violation"


class HealthOutput(Struct):
    """The server answers."""

    status: str
    version: str
    source_version: str | None = None


class SnapshotTableOutput(Struct):
    """One table at its version."""

    table_key: str
    table_path: str
    table_version: Int64
    row_count: Count
    table_branch: str | None = None


class SnapshotOutput(Struct):
    """Every table of a branch, by its key."""

    branch: str
    manifest_version: Int64
    tables: list[SnapshotTableOutput]


class ReadTargetOutput(Struct):
    """What was read: a branch as it is, or a commit."""

    branch: str | None = None
    snapshot: str | None = None


class ReadRequest(Struct):
    """A read query; of several in the text `query_name` chooses one."""

    query_source: str
    query_name: str | None = None
    params: Any = None
    branch: str | None = None
    snapshot: str | None = None


class ReadOutput(Struct):
    """The rows of a query, in order."""

    query_name: str
    target: ReadTargetOutput
    row_count: Count
    rows: Any
    columns: list[str] = []


class ChangeRequest(Struct):
    """A mutation: one commit, or nothing."""

    query_source: str
    query_name: str | None = None
    params: Any = None
    branch: str | None = None


class ChangeOutput(Struct):
    """What a mutation did."""

    branch: str
    query_name: str
    affected_nodes: Count
    affected_edges: Count
    actor_id: str | None = None


class ExportRequest(Struct):
    """Which tables to write out; all of them if none is named."""

    branch: str | None = None
    type_names: list[str] = []
    table_keys: list[str] = []


class SchemaOutput(Struct):
    """The accepted schema."""

    schema_source: str


class SchemaApplyRequest(Struct):
    """The schema the graph is to have."""

    schema_source: str


class SchemaApplyOutput(Struct):
    """What became of a new schema."""

    uri: str
    supported: bool
    applied: bool
    step_count: Count
    manifest_version: Int64
    steps: list[Any]


class IngestRequest(Struct):
    """JSON lines to load into a branch, which is made from another one if it is not there."""

    data: str
    branch: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    mode: LoadMode | None = None


class IngestTableOutput(Struct):
    """How many rows of one table were loaded."""

    table_key: str
    rows_loaded: Count


class IngestOutput(Struct):
    """What a load did."""

    uri: str
    branch: str
    base_branch: str
    branch_created: bool
    mode: LoadMode
    tables: list[IngestTableOutput]
    actor_id: str | None = None


class BranchListOutput(Struct):
    """The names of all branches, sorted."""

    branches: list[str]


class BranchCreateRequest(Struct):
    """A branch to be made from what another one is."""

    name: str
    from_: str | None = msgspec.field(default=None, name="from")


class BranchCreateOutput(Struct):
    """A branch that was made."""

    uri: str
    from_: str = msgspec.field(name="from")
    name: str
    actor_id: str | None = None


class BranchDeleteOutput(Struct):
    """A branch that is gone."""

    uri: str
    name: str
    actor_id: str | None = None


class BranchMergeRequest(Struct):
    """Two branches to be merged; the target is main unless said."""

    source: str
    target: str | None = None


class BranchMergeOutput(Struct):
    """What a merge came to."""

    source: str
    target: str
    outcome: BranchMergeOutcome
    actor_id: str | None = None


class RunOutput(Struct):
    """One run, as it is recorded."""

    run_id: str
    target_branch: str
    run_branch: str
    base_snapshot_id: str
    base_manifest_version: Int64
    status: str
    created_at: Int64
    updated_at: Int64
    operation_hash: str | None = None
    actor_id: str | None = None
    published_snapshot_id: str | None = None


class RunListOutput(Struct):
    """All runs, oldest first."""

    runs: list[RunOutput]


class CommitOutput(Struct):
    """One commit; a `manifest_branch` of null is main."""

    graph_commit_id: str
    manifest_version: Int64
    created_at: Int64
    manifest_branch: str | None = None
    parent_commit_id: str | None = None
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None


class CommitListOutput(Struct):
    """The commits of a branch, newest first."""

    commits: list[CommitOutput]


class MergeConflictOutput(Struct):
    """One thing two branches do not agree on."""

    table_key: str
    kind: MergeConflictKindOutput
    message: str
    row_id: str | None = None


class ErrorOutput(Struct):
    """Why a request was refused."""

    error: str
    code: ErrorCode | None = None
    merge_conflicts: list[MergeConflictOutput] = []
