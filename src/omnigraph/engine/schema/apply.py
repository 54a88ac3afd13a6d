"""A new schema for a branch: planned, checked and written as one commit, or refused as a whole.

All tables and the contract become visible together. What is metadata costs no more for a million
rows than for none; rules that rows may break are held against them before anything is written.
Others may write meanwhile: what they bring is checked under the lock, and who changes the schema
first makes the other plan again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from omnigraph.api.schemas import LoadsRunningError, SchemaUnsupportedError
from omnigraph.api.texts import SchemaStep
from omnigraph.base.budget import unstoppable
from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.build import LoadedSchema, catalog_of, load_schema
from omnigraph.compiler.catalog.migration import backfill_of, plan_schema_migration
from omnigraph.compiler.catalog.schema_ir import Backfill, IrProperty, IrType, SchemaIr
from omnigraph.compiler.source import Source
from omnigraph.engine.contract import accepted_ir, contract_files, schema_step
from omnigraph.engine.schema.fill import default_scalar
from omnigraph.engine.schema.rules import NewRules, check_rows, new_rules
from omnigraph.engine.schema.tables import Fills, GraphType, TableChanges, table_changes
from omnigraph.errors import ConflictError
from omnigraph.storage.commit.session import (
    Committed,
    CommitWindow,
    ExpectedVersionMismatch,
    SchemaChangedError,
    WriteSession,
)
from omnigraph.storage.files.records import Commit
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore

_ATTEMPTS = 6


class SchemaOvertakenError(ConflictError):
    """Others changed the schema, or dropped tables, faster than a change of it could be written."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    source: Source
    branch: str
    allow_data_loss: bool = False
    preview: bool = False
    actor: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of it; without a commit there was nothing to do, or it was only tried."""

    steps: tuple[SchemaStep, ...]
    state: Snapshot
    commit: Commit | None


def apply_schema(store: GraphStore, request: Request) -> Applied:
    """Make a text the schema of a branch.

    Raises:
        DiagnosticsError: the text is wrong.
        SchemaUnsupportedError: the change cannot be made; nothing was written.
        ConstraintError: rows break a rule of the new schema; nothing was written.
        LoadsRunningError: loads are writing to tables it would change.
        SchemaOvertakenError: others changed the schema again and again meanwhile.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _apply_once(store, request)
        except (SchemaChangedError, ExpectedVersionMismatch) as error:
            last = error
    raise SchemaOvertakenError(
        f"the schema of '{request.branch}' was changed {_ATTEMPTS} times while this was planned: "
        f"{last}",
        hint="read it again; somebody else is changing it",
    )


def _apply_once(store: GraphStore, request: Request) -> Applied:
    session = None
    if not request.preview:
        begin = partial(store.begin, writer_kind="SchemaApply", message=request.message)
        session = begin(request.branch, request.actor)
    base = store.snapshot(request.branch) if session is None else session.base
    accepted = accepted_ir(store, base)
    desired = load_schema(request.source, accepted)
    plan = plan_schema_migration(accepted, desired.ir, request.allow_data_loss)
    steps = tuple(map(schema_step, plan.steps))
    if not plan.supported:
        raise SchemaUnsupportedError(one for one in steps if one.kind == "unsupported_change")
    if not steps:
        return Applied(steps, base, None)
    change = Change.between(accepted, desired, store.kernel.clock.now_us() // 1_000)
    change.check(base)
    if session is None:
        return Applied(steps, base, None)
    told = {"schema": [step.text for step in steps]}
    made = commit_change(store, session, change, contract_files(request.source.text, desired), told)
    return Applied(steps, made.snapshot, made.commit)


@dataclass(frozen=True, slots=True)
class Change:
    """What a new schema does to tables, and what it demands of their rows."""

    tables: TableChanges
    rules: Sequence[NewRules]

    @classmethod
    def between(cls, accepted: SchemaIr, desired: LoadedSchema, now_ms: int) -> Change:
        """Return what turns one schema into another, as somebody wants it now."""
        fills = {at: fill for at, prop in _places(desired.ir) if (fill := backfill_of(prop))}
        return cls._with(accepted, desired, fills, now_ms)

    @classmethod
    def brought(cls, accepted: SchemaIr, desired: LoadedSchema) -> Change:
        """Return the same for a schema that a merge brings: values are made of defaults alone.

        A moment, or what was taken from another property, the other side has made by itself:
        made here once more it would be another value.
        """
        kinds: list[GraphType] = [*desired.catalog.nodes.values(), *desired.catalog.edges.values()]
        fills = {
            (kind.type_id, prop.prop_id): Backfill(prop.default)
            for kind in kinds
            for prop in kind.properties.values()
            if prop.default is not None and default_scalar(prop) is not None
        }
        return cls._with(accepted, desired, fills, 0)

    @classmethod
    def _with(cls, accepted: SchemaIr, desired: LoadedSchema, fills: Fills, now_ms: int) -> Change:
        before, after = catalog_of(accepted), desired.catalog
        tables = table_changes(before, after, fills, now_ms)
        return cls(tables, new_rules(before, after, tables))

    def check(self, state: Snapshot) -> None:
        """Return only if all rows of a state may stay.

        Raises:
            ConstraintError: some break a rule.
        """
        check_rows(self.rules, state)


def _places(ir: SchemaIr) -> Iterator[tuple[tuple[int, int], IrProperty]]:
    """Yield every property that has a column, by the ids of its type and its own."""
    kinds: list[IrType] = [*ir.nodes, *ir.edges]
    for one in kinds:
        for prop in one.properties:
            yield (one.type_id, prop.prop_id), prop


def commit_change(
    store: GraphStore,
    session: WriteSession,
    change: Change,
    files: Mapping[str, bytes],
    told: object,
) -> Committed:
    """Write a change of schema whose rules the session's base was checked for.

    Raises:
        LoadsRunningError: loads are writing to tables it would change.
    """
    tables = change.tables
    _refuse_loads(store, session, tables.touched)
    for key in tables.dropped:
        session.drop_table(key)
    for new, old in tables.renamed.items():
        session.rename_table(old, new)
    for spec in tables.created:
        session.create_table(spec)
    for key, columns in tables.altered.items():
        session.alter(key, columns)
    for name, content in files.items():
        session.replace_file(name, content)

    def still_fits(window: CommitWindow) -> None:
        check_rows(change.rules, window.head, window.moved)

    with unstoppable():
        return session.commit(still_fits, result=told)


def _refuse_loads(store: GraphStore, session: WriteSession, keys: Sequence[TableKey]) -> None:
    """Refuse to change tables that somebody has been writing files for, for minutes maybe.

    One that registers from now on is refused itself, when it commits.
    """
    running = {
        str(pin.load): sorted({*keys} & {TableKey(key) for key in pin.loading})
        for pin in store.pins()
        if pin.load is not None and pin.branch == session.branch
    }
    busy = {load: tables for load, tables in running.items() if tables}
    if busy:
        raise LoadsRunningError(busy)
