"""From two states and what they began from to one commit, or to all that stands in its way.

Everything is computed outside the lock. If the target moves meanwhile, what it did is compared with
what the merge does: if both go together the merge is committed on top, else it is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.merges import Outcome
from omnigraph.base.budget import checkpoint, unstoppable
from omnigraph.base.ids import CommitId, TableKey
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.merge.base import Bases
from omnigraph.engine.merge.check import Other, broken_together
from omnigraph.engine.merge.conflicts import Conflicts
from omnigraph.engine.merge.images import ID, changed_ids, columns_of, joined
from omnigraph.engine.merge.large import BY_ITSELF, Large, Means, large_tables
from omnigraph.engine.merge.resolve import Resolutions, settle
from omnigraph.engine.merge.rows import InRanges, TableMerge, merge_rows
from omnigraph.engine.merge.schemas import (
    Agreement,
    agree,
    broken_by_new_rules,
    have_one_schema,
)
from omnigraph.engine.merge.spaces import merged_records
from omnigraph.engine.schema.apply import commit_change
from omnigraph.engine.write.validate import key_columns
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.storage.commit.session import (
    Committed,
    CommitWindow,
    ExpectedVersionMismatch,
    SchemaChangedError,
    WriteSession,
)
from omnigraph.storage.delta.table import table_delta
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Commit, Place, TableVersion
from omnigraph.storage.manifest.ancestry import Parents, ancestors
from omnigraph.storage.manifest.merging import MergeSides, bases_moved
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.foreign import same_columns

_ATTEMPTS = 6
SCHEMA_OF_MERGE = "schema for the merge of"
"""What a commit says that brings a target the schema of a merge, right before the merge."""
_PINNED_FROM = 50_000
"""Rows to look at from which on a merge may outlast the time that cleanup leaves all alone."""

CatalogAt = Callable[[Snapshot], Catalog]
T = TypeVar("T")


class MergeOvertakenError(ConflictError):
    """The target changed what a merge does, faster than it could be computed again."""


class _TargetMovedError(Exception):
    """What the target did meanwhile does not go together with what was computed."""


@dataclass(frozen=True, slots=True)
class Combined:
    """What one state's changes since a base do to another state."""

    tables: Mapping[TableKey, TableMerge]
    conflicts: Conflicts

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many rows come, change and go, by table."""
        counted = {key: table.counts for key, table in self.tables.items()}
        return {key: counts for key, counts in counted.items() if any(counts.values())}


@dataclass(frozen=True, slots=True)
class Merge:
    """What became of a merge."""

    outcome: Outcome
    source: str
    target: str
    bases: tuple[CommitId, ...] = ()
    commit: Commit | None = None
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    conflicts: Conflicts | None = None
    """What a preview found; without one they are raised."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a merge."""

    source: str
    target: str
    said: Resolutions = field(default_factory=Resolutions)
    base: str | None = None
    actor: str | None = None
    message: str | None = None
    preview: bool = False


def merge(
    store: GraphStore, catalog_at: CatalogAt, request: Request, means: Means = BY_ITSELF
) -> Merge:
    """Merge one branch, as it is now, into another.

    Raises:
        MergeConflictError: both sides changed what does not go together; nothing was written.
        MergeBaseExpiredError: the rows both began from are gone.
        MergeOvertakenError: others wrote the same rows again and again meanwhile.
    """
    source = layout.parse_branch(request.source, operation="merge")
    if source == layout.parse_branch(request.target, operation="merge"):
        raise BadRequestError(
            f"branch_merge requires distinct source and target branches, not '{source}' twice",
            hint="say into which other branch",
        )
    return again_if_moved(partial(_merge_once, store, catalog_at, request, means))


def again_if_moved(attempt: Callable[[], T]) -> T:
    """Compute something again when its target moved in a way that matters, a few times."""
    for _ in range(_ATTEMPTS):
        try:
            return attempt()
        except (_TargetMovedError, ExpectedVersionMismatch, SchemaChangedError) as error:
            last = error
    raise MergeOvertakenError(
        f"the target was changed {_ATTEMPTS} times while this was computed: {last}",
        hint="try again when others write less",
    )


def _merge_once(
    store: GraphStore,
    catalog_at: CatalogAt,
    request: Request,
    means: Means,
    prepared: Merge | None = None,
) -> Merge:
    """Merge, or bring the target the schema of the merge and begin again: `prepared` says so."""
    session = None
    if not request.preview:
        begin = partial(store.begin, writer_kind="BranchMerge", message=request.message)
        session = begin(request.target, request.actor)
    ours = store.snapshot(request.target) if session is None else session.base
    sides = store.merge_sides(request.source, ours)
    theirs = sides.theirs
    names = (str(theirs.branch), str(ours.branch))
    known = ancestors(sides.parents, ours.commit_id)
    if theirs.logical_commit_id in known:
        return Merge("already_up_to_date", *names, sides.bases)
    bases = _bases(store, request.base, sides.bases, sides.parents, names)
    is_behind = ours.logical_commit_id in ancestors(sides.parents, theirs.commit_id)
    if prepared is not None and prepared.commit is not None:
        is_behind |= prepared.outcome == "fast_forward" and prepared.commit.id == ours.commit_id
    outcome: Outcome = "fast_forward" if is_behind and request.base is None else "merged"
    with ExitStack() as held:
        if session is not None:
            pin(held, bases, theirs, ours)
        agreement = _agreement(store, bases, theirs, ours)
        is_last = agreement is None or agreement.change is None  # else it is computed again
        large = large_tables(store, session if is_last else None, means, request.said)
        how = held.enter_context(large)
        if agreement is None:
            found = combine(bases, theirs, ours, catalog_at(ours), request.said, how)
        else:
            found = combine_under(agreement, request.said, how)
        if session is None:
            return Merge(outcome, *names, bases.commits, None, found.counts, found.conflicts)
        if found.conflicts.total:
            raise found.conflicts.error()
        if agreement is not None and agreement.change is not None:
            commit = _bring_schema(store, agreement, request, names[0])
            brought = Merge(outcome, *names, commit=commit)
            return _merge_once(store, catalog_at, request, means, brought)
        told = {"merge": outcome, "source": names[0], "resolved": request.said.as_json()}
        made = commit_combined(
            session,
            found,
            bases,
            theirs,
            catalog_at(ours),
            told,
            merged=sides,
            alone=outcome == "fast_forward",  # else it is none any more
        )
    return Merge(outcome, *names, bases.commits, made.commit, found.counts)


def _agreement(
    store: GraphStore, bases: Bases, theirs: Snapshot, ours: Snapshot
) -> Agreement | None:
    """Return the schema of a merge if its sides have, or began with, different ones."""
    began = [bases.snapshot(commit) for commit in bases.commits]
    return None if have_one_schema(theirs, ours, *began) else agree(store, bases, theirs, ours)


def _bring_schema(store: GraphStore, agreement: Agreement, request: Request, source: str) -> Commit:
    """Give the target the schema of the merge, as a commit of its own."""
    message = f"{SCHEMA_OF_MERGE} '{source}'" + (f": {request.message}" if request.message else "")
    begin = partial(store.begin, writer_kind="SchemaApply", message=message)
    session = begin(request.target, request.actor)
    if session.base.commit_id != agreement.ours.commit_id:
        raise _TargetMovedError("others wrote to it")
    assert agreement.change is not None
    told = {"schema_of_merge": source}
    made = commit_change(store, session, agreement.change, agreement.files, told)
    return made.commit


def _bases(
    store: GraphStore,
    wanted: str | None,
    found: tuple[CommitId, ...],
    parents: Parents,
    names: tuple[str, str],
) -> Bases:
    """Return what both sides began from, or what an operator says they did."""
    if wanted is not None:
        found = (store.snapshot_at(commit_id=wanted).commit_id,)
    if not found:
        raise ConflictError(
            f"branches '{names[0]}' and '{names[1]}' have no common ancestor",
            hint="name the commit both began from",
        )
    return Bases(found, parents, lambda commit: store.snapshot_at(commit_id=commit))


def pin(pins: ExitStack, bases: Bases, theirs: Snapshot, ours: Snapshot) -> None:
    """Keep what a long computation reads; cleanup leaves a short one alone anyway.

    How long it takes follows the rows that may differ, which fragment lists tell, and not the size
    of the tables: three pins cost more than a small merge.
    """
    states = (theirs, ours, *(bases.snapshot(commit) for commit in bases.commits))
    began = bases.first.tables
    moved = [
        key
        for key in sorted({*began, *theirs.tables})
        if _place(theirs.tables.get(key)) != _place(began.get(key))
    ]
    asked = (
        sum(bases.delta(key, state.tables.get(key)).candidates)
        for state in (theirs, ours)
        for key in moved
    )
    if sum(asked) >= _PINNED_FROM:
        for state in states:
            pins.enter_context(state.pin())


def combine(
    bases: Bases,
    theirs: Snapshot,
    ours: Snapshot,
    catalog: Catalog,
    said: Resolutions,
    large: Large | None = None,
) -> Combined:
    """Return what the changes of `theirs` since the bases do to `ours`, and what conflicts."""
    return _combined(bases, theirs, ours, catalog, said, None, large)


def combine_under(agreement: Agreement, said: Resolutions, large: Large | None) -> Combined:
    """Return the same for sides that are seen under the schema both come to."""
    one = agreement
    if one.conflicts:
        return Combined({}, Conflicts({}, one.conflicts))
    found = _combined(one.bases, one.theirs, one.ours, one.catalog, said, one, large)
    if found.conflicts.total:
        return found
    return Combined(found.tables, Conflicts({}, list(broken_by_new_rules(one, found.tables))))


def _combined(
    bases: Bases,
    theirs: Snapshot,
    ours: Snapshot,
    catalog: Catalog,
    said: Resolutions,
    agreement: Agreement | None,
    large: Large | None,
) -> Combined:
    tables: dict[TableKey, TableMerge] = {}
    for key in sorted({*theirs.tables, *ours.tables}):
        checkpoint("merging")
        found = _table(key, bases, theirs, ours, catalog, agreement, large)
        if found is not None:
            settle(found, said, _kind(catalog, key))
            if found.conflicts is not None or not found.is_empty or len(found.agreed):
                tables[key] = found
    _refuse_unknown(said, {*theirs.tables, *ours.tables})
    rows = {key: one.conflicts for key, one in tables.items() if one.conflicts is not None}
    rules = []
    if not rows:
        other = partial(_since_base, bases, ours, catalog)
        rules = list(broken_together(tables, other, ours, catalog))
    return Combined(tables, Conflicts(rows, rules))


def _refuse_unknown(said: Resolutions, known: set[TableKey]) -> None:
    for key in (*said.tables, *(key for key, _ in said.rows)):
        if key not in known:
            raise BadRequestError(
                f"a resolution is for '{key}', which is no table", hint="as in 'node:Person'"
            )


def _table(
    key: TableKey,
    bases: Bases,
    theirs: Snapshot,
    ours: Snapshot,
    catalog: Catalog,
    agreement: Agreement | None,
    large: Large | None,
) -> TableMerge | None:
    """Return what happens to one table; None if nothing can."""
    mine, here = theirs.tables.get(key), ours.tables.get(key)
    began = [bases.snapshot(commit).tables.get(key) for commit in bases.commits]
    if all(_place(mine) == _place(one) for one in began):
        return None
    if _place(mine) == _place(here):
        return _alike(key, bases, mine)
    if mine is None or here is None:
        return merge_rows(key, bases, mine, here)
    in_ranges: InRanges | None = None
    if large is not None and not (agreement is not None and agreement.holds(key)):
        in_ranges = partial(large.merged, _kind(catalog, key), (began[0], mine, here))
    if agreement is not None and not agreement.takes_whole(key):
        return merge_rows(key, bases, mine, here, in_ranges=in_ranges)
    untouched = len(began) == 1 and _place(here) == _place(began[0])
    is_shared = layout.fork_owner(here.branch) != ours.branch
    if untouched and mine.branch is None and is_shared and mine.version > here.version:
        names = _key_columns(catalog, key)
        pieces = (columns_of(piece, names) for piece in bases.delta(key, mine).batches())
        changed = joined(pieces)
        if changed is None:
            return None  # rewritten, not changed
        return TableMerge(key, pointer=mine, elsewhere=[changed])
    may_link = same_columns(theirs.handle(key), ours.handle(key))
    by_link = _key_columns(catalog, key) if may_link else None
    return merge_rows(key, bases, mine, here, by_link=by_link, in_ranges=in_ranges)


def _alike(key: TableKey, bases: Bases, table: TableVersion | None) -> TableMerge:
    """Return that both sides have the same rows, and which of them neither had at the base."""
    pieces = (columns_of(piece, [ID]) for piece in bases.delta(key, table).batches())
    changed = joined(pieces)
    ids = [bases.disputed(key), *([] if changed is None else [changed_ids(changed)])]
    return TableMerge(key, agreed=pc.unique(pa.concat_arrays(ids)))


def _place(table: TableVersion | None) -> Place | None:
    return None if table is None else table.place


def _kind(catalog: Catalog, key: str) -> NodeType | EdgeType:
    kinds: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return next(kind for kind in kinds if kind.table_key == key)


def _key_columns(catalog: Catalog, key: str) -> list[str]:
    return key_columns(_kind(catalog, key))


def _since_base(bases: Bases, ours: Snapshot, catalog: Catalog, key: str) -> Other:
    """Return what the target did to a table since the base."""
    table, columns = TableKey(key), _key_columns(catalog, key)
    delta = bases.delta(table, ours.tables.get(table))
    found = Other.of(joined(delta.batches(columns=columns)), columns)
    disputed = bases.disputed(table)
    if not len(disputed):
        return found
    # Where the bases differ, what the first of them says is not what the target began from.
    now = ours.open(key).by_ids(disputed, columns)
    images = [columns_of(one, columns) for one in bases.changes_between(table, disputed)]
    return found.with_rows(now, disputed, images)


def commit_combined(
    session: WriteSession,
    found: Combined,
    bases: Bases,
    theirs: Snapshot,
    catalog: Catalog,
    told: Mapping[str, Any],
    *,
    merged: MergeSides | None = None,
    alone: bool = False,
) -> Committed:
    """Write what was combined as one commit; `alone`: only on the very state it was made for.

    Raises:
        _TargetMovedError: what others wrote meanwhile does not go together with it.
    """
    linked = [key for key, table in found.tables.items() if table.linked]
    digests = theirs.digests(linked) if linked else {}
    with session.load(linked) if linked else nullcontext() as load:
        for key in linked:
            assert load is not None
            parts = (load.take_over(key, part, digests) for part in found.tables[key].linked)
            session.append_fragments(key, parts)
        try:
            return _commit_rows(session, found, bases, theirs, catalog, told, merged, alone=alone)
        except SnapshotExpiredError as error:  # written to and cleaned up since it was read
            raise _TargetMovedError(str(error)) from error


def _commit_rows(
    session: WriteSession,
    found: Combined,
    bases: Bases,
    theirs: Snapshot,
    catalog: Catalog,
    told: Mapping[str, Any],
    merged: MergeSides | None,
    *,
    alone: bool,
) -> Committed:
    for key, table in found.tables.items():
        if table.pointer is not None:
            session.point(key, table.pointer)
            continue
        rows, gone = table.upserts, table.own_deletes
        if rows is not None and table.only_inserts:
            session.append(key, rows)
        elif rows is not None:
            session.upsert(key, rows)
        if table.written:
            session.append_fragments(key, table.written)
        if len(gone):
            session.delete(key, gone, strict=False)
    for name, content in merged_records(bases.first, theirs, session.base, catalog):
        session.replace_file(name, content)
    check = partial(_still_fits, found, catalog, merged, alone=alone)
    with unstoppable():
        stated = {**told, "rows": found.counts}
        source = None if merged is None else merged.source
        return session.commit(check, result=stated, merged=source)


def _still_fits(
    found: Combined,
    catalog: Catalog,
    merged: MergeSides | None,
    window: CommitWindow,
    *,
    alone: bool,
) -> None:
    """Compare what the target did since it was read with what the merge does; we hold its lock."""
    if alone and window.head.logical_commit_id != window.base.logical_commit_id:
        raise _TargetMovedError("others wrote to it")
    if merged is not None and bases_moved(merged, window.base, window.head):
        raise _TargetMovedError("both sides have more in common now")

    def since(key: str) -> Other:
        at, columns = TableKey(key), _key_columns(catalog, key)
        planned, now = window.base.tables.get(at), window.head.tables.get(at)
        delta = table_delta(window.head.kernel, planned, now)
        return Other.of(joined(delta.batches(columns=columns)), columns)

    for key in window.moved:
        table = found.tables.get(key)
        if table is None:
            continue
        planned, now = window.base.tables.get(key), window.head.tables.get(key)
        moved = table_delta(window.head.kernel, planned, now).touched().ids
        if pc.any(pc.is_in(moved, value_set=table.decided)).as_py():
            raise _TargetMovedError(f"{key} was changed in the same rows")
    for conflict in broken_together(found.tables, since, window.head, catalog):
        raise _TargetMovedError(conflict.message)
