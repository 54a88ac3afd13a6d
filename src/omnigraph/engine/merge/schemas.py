"""Both schemas of a merge first: one for both sides, or what keeps them apart.

Rows are merged under the schema that both come to. If the target does not have it yet it gets it by
a commit of its own, once it is known that nothing else stands in the way: the target is sound with
it, so a merge that dies in between is one to repeat.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow.compute as pc

from omnigraph.api.merges import ConflictKind, MergeConflict
from omnigraph.api.violations import Rule
from omnigraph.base.ids import CommitId, TableKey
from omnigraph.compiler.catalog.build import LoadedSchema, catalog_of, load_schema
from omnigraph.compiler.catalog.ir_json import schema_hash
from omnigraph.compiler.catalog.model import Catalog, EdgeType
from omnigraph.compiler.catalog.reconcile import reconcile
from omnigraph.compiler.catalog.schema_ir import SchemaIr
from omnigraph.compiler.catalog.spell import spell_schema
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.source import Source
from omnigraph.engine.contract import IR_FILE, SCHEMA_FILE, accepted_ir, contract_files
from omnigraph.engine.merge.align import Views
from omnigraph.engine.merge.base import Bases
from omnigraph.engine.merge.check import KIND_OF_RULE
from omnigraph.engine.merge.rows import TableMerge
from omnigraph.engine.schema.apply import Change
from omnigraph.engine.schema.rules import NewRules
from omnigraph.engine.schema.tables import GraphType, stored_properties, type_changes
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.validate import find_broken
from omnigraph.engine.write.violations import Broken
from omnigraph.errors import InternalError
from omnigraph.storage.delta.side import ColumnPair
from omnigraph.storage.delta.table import TableDelta, table_delta
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Agreement:
    """The schema of a merge, and how states are seen under it."""

    catalog: Catalog
    views: Views
    theirs: Snapshot
    ours: Snapshot
    bases: Bases
    change: Change | None
    """What the target needs to get it; None if it has it."""
    files: Mapping[str, bytes]
    rules: Sequence[NewRules]
    """Rules that rows of the source were never held to."""
    conflicts: tuple[MergeConflict, ...]

    def takes_whole(self, key: TableKey) -> bool:
        """Whether files of the source mean on the target what they mean there, unlooked at."""
        table = self.theirs.tables[key]
        return not self.holds(key) and self.views.is_as_seen(table, self.theirs.handle(key))

    def holds(self, key: TableKey) -> bool:
        """Whether rows of a table are held to rules that they never were held to."""
        return key in {rule.values.table_key for rule in self.rules}


def have_one_schema(*states: Snapshot) -> bool:
    """Whether states have the same schema, ids included."""
    return len({state.files.get(IR_FILE) for state in states}) == 1


def agree(store: GraphStore, bases: Bases, theirs: Snapshot, ours: Snapshot) -> Agreement:
    """Return the schema that both sides come to, and what stands in its way.

    Raises:
        MergeBaseExpiredError: the state both began from is gone.
    """
    began = [bases.snapshot(commit) for commit in bases.commits]
    old = [accepted_ir(store, one) for one in began]
    mine, here = accepted_ir(store, theirs), accepted_ir(store, ours)
    found = reconcile(old, mine, here)
    conflicts = [_of_schema(one.entity, one.message) for one in found.conflicts]
    texts = [store.read_file(SCHEMA_FILE, one).decode() for one in (theirs, ours)]
    if conflicts:
        return _disagreement(bases, theirs, ours, catalog_of(here), conflicts)
    try:
        text, loaded = _spelled(found.ir, texts)
    except DiagnosticsError as error:
        wrong = [f"both schemas together are none: {one.message}" for one in error.diagnostics]
        told = [_of_schema("schema", one) for one in wrong]
        return _disagreement(bases, theirs, ours, catalog_of(here), told)
    views = Views(loaded.catalog)
    own = catalog_of(here)
    known = [(state, catalog_of(ir)) for state, ir in zip(began, old, strict=True)]
    for state, ir in ((theirs, mine), (ours, here)):
        lost = (_lost_rows(one, state, catalog_of(ir), loaded.catalog) for one in known)
        # Several bases: what differs from any of them may be new. Told twice, it is one conflict.
        conflicts += dict.fromkeys(itertools.chain.from_iterable(lost))
    seen: dict[CommitId, Snapshot] = {}

    def view_at(commit: CommitId) -> Snapshot:
        if commit not in seen:
            state = bases.snapshot(commit)
            seen[commit] = views.of(state, catalog_of(accepted_ir(store, state)))
        return seen[commit]

    is_new = schema_hash(loaded.ir) != schema_hash(here)
    change = Change.brought(here, loaded) if is_new else None
    if change is not None:
        conflicts += [told for rule in change.rules for told in _broken(rule.broken(ours))]
    return Agreement(
        loaded.catalog,
        views,
        views.of(theirs, catalog_of(mine)),
        views.of(ours, own),
        bases.seen(view_at, views.pairs),
        change,
        contract_files(text, loaded) if is_new else {},
        Change.brought(mine, loaded).rules,
        tuple(conflicts),
    )


def broken_by_new_rules(
    agreement: Agreement, tables: Mapping[TableKey, TableMerge]
) -> Iterator[MergeConflict]:
    """Yield the rules of the common schema that rows of the source break on the target.

    Ends of edges are no new rule, and nodes may come by files that nobody looks into.
    """
    held = {rule.values.table_key for rule in agreement.rules}
    changes = ChangeSet(
        {
            key: TableChange(table.upserts, table.own_deletes)
            for key, table in tables.items()
            if key in held
        }
    )
    if not changes.is_empty:
        found = find_broken(changes, agreement.ours, agreement.catalog)
        yield from _broken(one for one in found if one.rule is not Rule.ENDPOINT)


def _disagreement(
    bases: Bases,
    theirs: Snapshot,
    ours: Snapshot,
    catalog: Catalog,
    conflicts: Sequence[MergeConflict],
) -> Agreement:
    """Return why there is no common schema; rows cannot be compared then."""
    views = Views(catalog)
    return Agreement(catalog, views, theirs, ours, bases, None, {}, (), tuple(conflicts))


def _spelled(ir: SchemaIr, texts: Sequence[str]) -> tuple[str, LoadedSchema]:
    """Return a text that means a schema, compiled: one that somebody wrote, if that does.

    Raises:
        DiagnosticsError: no text can mean it.
    """
    for text in texts:
        try:
            loaded = load_schema(Source(text), ir)
        except DiagnosticsError:
            continue
        if loaded.ir == ir:
            return text, loaded
    text = spell_schema(ir)
    loaded = load_schema(Source(text), ir)
    if loaded.ir != ir:
        raise InternalError("a schema that was put together is not what its text says")
    return text, loaded


def _lost_rows(
    began: tuple[Snapshot, Catalog], state: Snapshot, own: Catalog, merged: Catalog
) -> Iterator[MergeConflict]:
    """Yield what one side put into rows or columns that the common schema does not have."""
    base, bases = began[0], {one.type_id: one for one in _types(began[1])}
    for change in type_changes(own, merged):
        mine = change.before
        was = None if mine is None else bases.get(mine.type_id)
        if mine is None or was is None:
            continue
        pairs = _pairs(was, mine)
        delta = partial(
            table_delta, base.kernel, base.table(was.table_key), state.table(mine.table_key)
        )
        if change.after is None:
            ids = _put(delta(columns=[*pairs.values(), *_ends(mine)]), None)
            if ids:
                text = f"{mine.table_key} was dropped on one side and has new rows on the other"
                yield _of_schema(mine.table_key, f"{text}: {_listed(ids)}")
            continue
        kept = stored_properties(change.after)
        for pair in (pair for prop_id, pair in pairs.items() if prop_id not in kept):
            ids = _put(delta(columns=[pair]), pair.name)
            if ids:
                entity = f"{mine.table_key}.{pair.name}"
                text = f"{entity} was dropped on one side and has new values on the other"
                yield _of_schema(mine.table_key, f"{text}: {_listed(ids)}")


def _put(delta: TableDelta, about: str | None) -> list[str]:
    """Return the ids of rows that came or changed; of a column, with a value in it."""
    found: list[str] = []
    for piece in delta.batches():
        for rows in (piece.inserted, piece.after):
            kept = rows if about is None else rows.filter(pc.is_valid(rows[about]))
            found += kept["id"].to_pylist()
    return found


def _pairs(base: GraphType, mine: GraphType) -> dict[int, ColumnPair]:
    old, new = stored_properties(base), stored_properties(mine)
    return {
        one: ColumnPair(new[one].name, old[one].name, new[one].name) for one in new if one in old
    }


def _ends(kind: GraphType) -> list[ColumnPair]:
    names = ("src", "dst") if isinstance(kind, EdgeType) else ()
    return [ColumnPair(name, name, name) for name in names]


def _types(catalog: Catalog) -> list[GraphType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(f"'{one}'" for one in sorted(ids)[:_NAMED]) + more


def _broken(rules: Iterable[Broken]) -> Iterator[MergeConflict]:
    for broken in rules:
        for violation in broken:
            kind = KIND_OF_RULE.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
            row_id = None if violation.rule is Rule.CARDINALITY else violation.row_id
            yield MergeConflict(broken.table_key, row_id, kind, violation.message)


def _of_schema(entity: str, message: str) -> MergeConflict:
    return MergeConflict(entity, None, ConflictKind.SCHEMA, message)
