"""Rules that a change of schema brings, and the rows that are there already.

Only what is new is looked at, and only the columns it is about: rows satisfy the old schema. Rows
are read in pieces; of unique values, whose rows have to be compared with each other, only the
columns are held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.base.budget import checkpoint
from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.catalog.model import (
    Cardinality,
    Catalog,
    EdgeType,
    NodeType,
    Property,
    Range,
)
from omnigraph.engine.schema.tables import GraphType, TableChanges, stored_properties, type_changes
from omnigraph.engine.write.cardinality import broken_cardinality
from omnigraph.engine.write.change_set import ID, ChangeSet, TableChange
from omnigraph.engine.write.validate import broken_uniqueness
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import Broken, Violations
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.compute import Computed

_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class NewRules:
    """What the rows of one table were never held to."""

    table: TableKey
    """The key it has before."""
    values: GraphType
    """The type as it will be, with nothing but rules that one row can break."""
    together: GraphType
    """The same, with nothing but rules that rows break together."""
    names: Mapping[str, str]
    """Columns by the names they will have, and what they are called before."""
    made: Mapping[str, Computed]
    """Columns that rows do not have yet, and how they come to be."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to look at."""
        return not (self._about_values or self.together.unique or self._counts)

    @property
    def _about_values(self) -> list[str]:
        kind = self.values
        named = [*kind.properties]
        if isinstance(kind, NodeType):
            named += [*(rule.prop for rule in kind.ranges), *(rule.prop for rule in kind.checks)]
        return list(dict.fromkeys(named))

    @property
    def _counts(self) -> bool:
        return isinstance(self.together, EdgeType) and (
            self.together.cardinality.min > 0 or self.together.cardinality.max is not None
        )

    def broken(self, snapshot: Snapshot) -> Iterator[Broken]:
        """Yield the rules that rows of a state break."""
        if not snapshot.table(self.table).row_count:
            return
        reader, about = snapshot.open(self.table), self._about_values
        if about:
            for batch in reader.batches(self._stored(about), batch_size=_ROWS):
                rows = self._under_new_names(pa.Table.from_batches([batch]), about)
                yield from broken_values(self.values, rows)
        kind = self.together
        named = [name for group in kind.unique for name in group]
        named += ["src"] if self._counts else []
        if named:
            found = reader.scan(self._stored(named))
            checkpoint("checking rows against the new schema", found.nbytes)
            rows = self._under_new_names(found, named)
            every = ChangeSet({kind.table_key: TableChange(rows, replaces=True)})
            yield from broken_uniqueness(kind, rows, every, snapshot)
            if isinstance(kind, EdgeType):
                yield from broken_cardinality(kind, every, snapshot)

    def _stored(self, names: Sequence[str]) -> list[str]:
        """Return the columns to read, as they are called now."""
        read = [ID]
        for name in names:
            if (made := self.made.get(name)) is not None:
                read += made.reads
            elif name in self.names:
                read.append(self.names[name])
        return list(dict.fromkeys(read))

    def _under_new_names(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return columns as they will be; one that nobody fills is null."""
        columns = {ID: rows[ID]}
        for name in names:
            if (made := self.made.get(name)) is not None:
                columns[name] = pa.chunked_array([made.compute(rows)])
            elif name in self.names:
                columns[name] = rows[self.names[name]]
            else:
                kind = arrow_type(self.values.properties[name].type)
                columns[name] = pa.chunked_array([pa.nulls(len(rows), kind)])
        return pa.table(columns)


def new_rules(before: Catalog, after: Catalog, changes: TableChanges) -> list[NewRules]:
    """Return the rules of a schema that rows of another one were never held to.

    A column that is new and not filled is null in all rows: that breaks no rule but the one that
    it must not be.
    """
    found = []
    for change in type_changes(before, after):
        if change.before is not None and change.after is not None:
            made = changes.computed(change.after.table_key)
            rules = _of_type(change.before, change.after, made)
            if not rules.is_empty:
                found.append(rules)
    return found


def check_rows(
    rules: Collection[NewRules], snapshot: Snapshot, tables: Collection[TableKey] | None = None
) -> None:
    """Return only if the rows of a state satisfy new rules; of all tables, or only of some.

    Raises:
        ConstraintError: with the first 100 violations.
    """
    found = Violations()
    for rule in rules:
        if tables is None or rule.table in tables:
            for broken in rule.broken(snapshot):
                found.report(broken, lambda *_: None)
    found.raise_if_any()


def _of_type(before: GraphType, after: GraphType, made: Mapping[str, Computed]) -> NewRules:
    old, new = stored_properties(before), stored_properties(after)
    names = {new[prop_id].name: old[prop_id].name for prop_id in new if prop_id in old}
    names |= {name: name for name in after.properties if name in before.properties}
    names |= (
        {name: name for name in (ID, "src", "dst")} if isinstance(after, EdgeType) else {ID: ID}
    )
    now = {was: name for name, was in names.items()}
    required = {
        name: replace(prop, type=replace(prop.type, enum_values=None))
        for name, prop in after.properties.items()
        if not prop.type.nullable
        and (name not in names or before.properties[names[name]].type.nullable)
        and not (name in made and not made[name].reads)  # one value for all, and never null
    }
    known = [{now.get(name) for name in group} for group in _unique(before)]
    unique = tuple(
        group
        for group in after.unique
        if {*names, *made} >= set(group) and not any(one <= set(group) for one in known)
    )
    return NewRules(
        TableKey(before.table_key),
        _with_values(before, after, required, now, made),
        _with_counts(before, after, unique),
        names,
        made,
    )


def _unique(kind: GraphType) -> list[tuple[str, ...]]:
    key = [kind.key] if isinstance(kind, NodeType) and kind.key else []
    return [*key, *kind.unique]


def _with_values(
    before: GraphType,
    after: GraphType,
    required: Mapping[str, Property],
    now: Mapping[str, str],
    made: Mapping[str, Computed],
) -> GraphType:
    """Return the later type with those of its rules that a row can break and that are new."""
    if isinstance(after, EdgeType) or isinstance(before, EdgeType):
        return replace(after, properties=required, unique=())
    ranges = [replace(one, prop=now[one.prop]) for one in before.ranges if one.prop in now]
    checks = [replace(one, prop=now[one.prop]) for one in before.checks if one.prop in now]
    old = {*now.values(), *made}
    return replace(
        after,
        properties=required,
        unique=(),
        ranges=tuple(
            one
            for one in after.ranges
            if one.prop in old and not any(_within(known, one) for known in ranges)
        ),
        checks=tuple(one for one in after.checks if one.prop in old and one not in checks),
    )


def _within(inner: Range, outer: Range) -> bool:
    """Whether everything one range allows is allowed by another, of the same property."""
    low = outer.min is None or (inner.min is not None and inner.min >= outer.min)
    high = outer.max is None or (inner.max is not None and inner.max <= outer.max)
    return inner.prop == outer.prop and low and high


def _with_counts(
    before: GraphType, after: GraphType, unique: tuple[tuple[str, ...], ...]
) -> GraphType:
    """Return the later type with those of its rules that rows break together and that are new."""
    if not (isinstance(after, EdgeType) and isinstance(before, EdgeType)):
        return replace(after, unique=unique)
    old, new = before.cardinality, after.cardinality
    wider = new.max is None or (old.max is not None and old.max <= new.max)
    kept = Cardinality() if wider and new.min <= old.min else new
    return replace(after, unique=unique, cardinality=kept)
