"""The third stage and the end of a load: fragments are written, the driver commits them all once.

Rows that replace committed ones by id are the exception: up to a fragment's worth of them go
through the kernel as rows, which keeps their row ids; more are deleted and come anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.api.progress import Progress
from omnigraph.api.words import Mode
from omnigraph.base.budget import checkpoint, unstoppable
from omnigraph.base.runner import Runner
from omnigraph.compiler.catalog.model import ID, Catalog
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.search.spaces import Filled, check_filled
from omnigraph.engine.write.commit import record_fills
from omnigraph.engine.write.violations import Violations
from omnigraph.errors import ConflictError, InternalError
from omnigraph.pipeline.checks.recheck import Recheck
from omnigraph.pipeline.checks.together import report
from omnigraph.pipeline.inputs.rows import AT
from omnigraph.pipeline.model import LoadOptions
from omnigraph.pipeline.stages.fragments import WriteTask, plan_writes, write_part
from omnigraph.pipeline.stages.loaded import NONE, Gone, Loaded, without
from omnigraph.storage.commit.bulk_load import BulkLoad
from omnigraph.storage.commit.session import (
    UNCONDITIONAL,
    Committed,
    CommitWindow,
    Preconditions,
    WriteSession,
)
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.foreign import ForeignFragment

Stage = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Commitment:
    """What is to be committed: checked rows, and on top of what they were checked."""

    session: WriteSession
    loaded: Loaded
    gone: Gone
    rows: Mapping[str, int]
    """How many rows each table must get."""
    options: LoadOptions
    catalog_of: Callable[[Snapshot], Catalog]
    fills: tuple[Filled, ...] = ()
    """Columns whose vectors were made from text."""
    preconditions: Preconditions = UNCONDITIONAL
    result: Mapping[str, Any] = field(default_factory=dict)
    """What the commit says of the load, for whoever asks again."""

    def replacing(self, key: str) -> bool:
        """Whether rows of a table may replace committed ones."""
        return (
            self.options.mode is Mode.MERGE
            and not self.loaded.generated(key)
            and self.session.base.table(key).row_count > 0
        )


def commit_rows(work: Commitment, runner: Runner, progress: Progress, stage: Stage) -> Committed:
    """Write all rows and make them visible at once, unless the request was carried out before.

    Raises:
        ConstraintError: the branch moved, and the rows break a rule on top of what it is now.
        CollidedError: the branch moved, and new ids are not new any more; check again.
    """
    session = work.session
    with session.load(work.rows) as load:
        largest = session.max_rows_per_file
        as_rows = [key for key in work.rows if work.replacing(key) and work.rows[key] <= largest]
        with stage("write"):
            written = _write_fragments(
                work, load, [key for key in work.rows if key not in as_rows], runner, progress
            )
        with stage("commit"):
            progress.stage("commit", 1)
            _plan(work, written, as_rows)
            record_fills(session, work.fills)
            checkpoint("commit")
            fresh = frozenset(written)
            with unstoppable():
                made = session.commit(
                    lambda window: _recheck(work, fresh, window),
                    work.preconditions,
                    result=dict(work.result),
                )
            progress.done(sum(work.rows.values()), 0)
    return made


def _write_fragments(
    work: Commitment, load: BulkLoad, keys: list[str], runner: Runner, progress: Progress
) -> dict[str, list[ForeignFragment]]:
    tasks: list[WriteTask] = []
    for key in keys:
        gone = work.gone.get(key, NONE)
        share = max(runner.parallelism, 1)
        tasks += plan_writes(key, load.target(key), work.loaded.spills[key], gone, share)
    progress.stage("write", len(tasks))
    written: dict[str, list[ForeignFragment]] = {key: [] for key in keys}
    for one in runner.map(write_part, tasks):
        written[one.table_key] += one.fragments
        progress.done(one.rows, 0)
    for key, fragments in written.items():
        found = sum(fragment.rows for fragment in fragments)
        if found != work.rows[key]:
            raise InternalError(f"{found} rows of {key} were written, not {work.rows[key]}")
    return written


def _plan(
    work: Commitment, written: Mapping[str, list[ForeignFragment]], as_rows: list[str]
) -> None:
    """Tell the session what to do; rows that fragments replace are deleted by id."""
    session = work.session
    for key, fragments in written.items():
        if work.options.mode is Mode.OVERWRITE:
            session.overwrite_fragments(key, fragments)
            continue
        session.append_fragments(key, fragments)
        if work.replacing(key):
            existing = _existing(work, key)
            if len(existing):
                session.delete(key, existing, strict=False)
    for key in as_rows:
        rows = without(work.loaded.rows(key), work.gone.get(key))
        session.upsert(key, rows.drop_columns(AT))


def _existing(work: Commitment, key: str) -> pa.Array:
    """Return the committed ids that rows of the load replace."""
    ids = one_array(work.session.base.open(key).scan([ID])[ID])
    return ids.filter(pa.array(work.loaded.has(key, ids, work.gone)))


def _recheck(work: Commitment, written: frozenset[str], window: CommitWindow) -> None:
    if work.catalog_of(window.head).schema_hash != work.loaded.catalog.schema_hash:
        raise ConflictError("the schema changed meanwhile", hint="load again")
    for one in work.fills:
        check_filled(window.head, one)
    found = Violations(work.options.max_errors)
    for broken in Recheck(work.loaded, work.gone, work.options.mode, written, window).find():
        report(broken, work.loaded, found)
    found.raise_if_any()
