"""Keywords that calls share, for who passes them on: named once, explained where they are used."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from omnigraph.api.progress import Progress
from omnigraph.api.words import ChangeOp, Engine, EntityKind, Images, OnError
from omnigraph.base.budget import Limits


class QueryKeywords(TypedDict, total=False):
    """How a query runs."""

    limits: Limits | None
    cancel: threading.Event | None


class MutateKeywords(TypedDict, total=False):
    """How a mutation runs, who does it, and under which conditions."""

    actor: str | None
    message: str | None
    if_head: str | None
    idempotency_key: str | None
    limits: Limits | None
    cancel: threading.Event | None


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
