"""Keywords that calls share, for who passes them on: named once, explained where they are used."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

from omnigraph.api.merges import Strategy
from omnigraph.api.progress import Progress
from omnigraph.api.words import ChangeOp, Engine, EntityKind, Images, OnError
from omnigraph.base.budget import Limits


class QueryKeywords(TypedDict, total=False):
    """How a query runs."""

    limits: Limits | None
    cancel: threading.Event | None


class LocalQueryKeywords(QueryKeywords, total=False):
    """How a query runs in this process, or who else runs it."""

    engine: Engine | None
    spark: object


class MutateKeywords(TypedDict, total=False):
    """How a mutation runs, who does it, and under which conditions."""

    actor: str | None
    message: str | None
    if_head: str | None
    idempotency_key: str | None
    preview: bool
    limits: Limits | None
    cancel: threading.Event | None


class StoredKeywords(QueryKeywords, total=False):
    """How a stored query runs; what a read cannot keep is refused."""

    actor: str | None
    message: str | None
    if_head: str | None
    idempotency_key: str | None
    preview: bool


class IngestKeywords(TypedDict, total=False):
    """How rows are brought in, who does it, and what becomes of bad ones."""

    engine: Engine | None
    actor: str | None
    on_error: OnError
    max_errors: int | None
    idempotency_key: str | None
    progress: Progress | None
    limits: Limits | None


class AnyLoadKeywords(IngestKeywords, total=False):
    """How a load runs, wherever the graph is."""

    message: str | None


class LoadKeywords(AnyLoadKeywords, total=False):
    """How a load runs in this process."""

    spark: object
    columns: Mapping[str, str] | None
    mapping: str | Path | None
    delimiter: str | None
    encoding: str | None


class EmbedKeywords(TypedDict, total=False):
    """How vectors are made, and who asks for them."""

    actor: str | None
    message: str | None
    progress: Progress | None
    limits: Limits | None


class OptimizeKeywords(TypedDict, total=False):
    """Which tables are compacted, for how long, and who hears of it."""

    tables: Sequence[str]
    preview: bool
    max_seconds: float | None
    progress: Progress | None


class CleanupKeywords(TypedDict, total=False):
    """What of the past may go, or whether only to tell what would."""

    keep: int | None
    older_than: str | float | timedelta | None
    preview: bool
    progress: Progress | None


class ExportKeywords(TypedDict, total=False):
    """What of a state is written out, and the limits of that."""

    types: Sequence[str]
    tables: Sequence[str]
    limits: Limits | None


class CommitListKeywords(TypedDict, total=False):
    """Which commits are wanted, and in which order."""

    limit: int | None
    since: str | datetime | None
    actor: str | None
    all: bool
    reverse: bool


class ResetKeywords(TypedDict, total=False):
    """Who changes a branch and why, or whether only to compute what would come of it."""

    actor: str | None
    message: str | None
    preview: bool


class SettledKeywords(ResetKeywords, total=False):
    """What becomes of rows that both sides changed."""

    strategy: Strategy
    resolve: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class MergeKeywords(SettledKeywords, total=False):
    """How two branches are merged."""

    columns: bool
    base: str | None
    delete_source: bool


class ReplayKeywords(SettledKeywords, total=False):
    """Where a commit is undone or repeated, and how."""

    branch: str
    parent: int | None


class SchemaApplyKeywords(ResetKeywords, total=False):
    """Which branch gets a schema, and what may be lost."""

    allow_data_loss: bool
    branch: str


class DiffKeywords(TypedDict, total=False):
    """What of a diff is wanted, and its limits."""

    types: Sequence[str] | None
    kinds: Sequence[EntityKind] | None
    ops: Sequence[ChangeOp] | None
    images: Images
    columns: Sequence[str] | None
    limits: Limits | None


class FeedKeywords(TypedDict, total=False):
    """From where a feed goes on, what of it is wanted, and in which portions."""

    since: str | None
    types: Sequence[str] | None
    kinds: Sequence[EntityKind] | None
    ops: Sequence[ChangeOp] | None
    images: Images
    columns: Sequence[str] | None
    max_rows: int | None
    max_bytes: int | None
    follow: bool
    cancel: threading.Event | None
