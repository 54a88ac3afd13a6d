"""Under the lock: what a load breaks on a branch that moved since it was checked.

Only rows that moved meanwhile are looked at, against the kept keys of the load, so that a long
load beside a busy writer neither starves nor holds the lock for as long as its first check took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.violations import Rule, Violation
from omnigraph.api.words import Mode
from omnigraph.base.table_keys import node_key
from omnigraph.compiler.catalog.model import DST, ID, SRC, EdgeType
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.write.cardinality import wrong_count
from omnigraph.engine.write.validate import (
    already_there,
    key_columns,
    left_alone,
    no_such_end,
    not_unique,
)
from omnigraph.engine.write.violations import Broken
from omnigraph.errors import ConflictError
from omnigraph.pipeline.inputs.rows import AT, Kind, group_texts
from omnigraph.pipeline.stages.loaded import Gone, Loaded
from omnigraph.storage.commit.session import CommitWindow
from omnigraph.storage.delta.table import table_delta
from omnigraph.storage.manifest.snapshot import Snapshot

Describe: TypeAlias = Callable[[dict[str, Any]], Violation]
"""Puts a broken row into words, given its key cells."""


class CollidedError(ConflictError):
    """Somebody else added a row with an id that the load adds too; checking again settles it."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """Rows of one table that differ between two snapshots, by their key columns."""

    before: pa.Table
    after: pa.Table

    @property
    def added(self) -> pa.Array:
        """Ids that are new."""
        return _minus(self.after, self.before)

    @property
    def deleted(self) -> pa.Array:
        """Ids that are gone."""
        return _minus(self.before, self.after)


class Recheck:
    """Finds what a load breaks on top of what others did meanwhile."""

    def __init__(
        self, loaded: Loaded, gone: Gone, mode: Mode, written: frozenset[str], window: CommitWindow
    ) -> None:
        self._loaded = loaded
        self._gone = gone
        self._mode = mode
        self._written = written
        """Tables whose new rows are fragments: they replace nothing that came meanwhile."""
        self._window = window
        self._moved: dict[str, _Moved] = {}

    def find(self) -> Iterator[Broken]:
        """Yield what is broken, table by table.

        Raises:
            CollidedError: an id was added that the load took for new.
        """
        catalog = self._loaded.catalog
        for node in catalog.nodes.values():
            if self._is_loaded(node.table_key) and self._has_moved(node.table_key):
                yield from self._rows(node)
        for edge in catalog.edges.values():
            if self._is_loaded(edge.table_key):
                if self._has_moved(edge.table_key):
                    yield from self._rows(edge)
                    yield from self._cardinality(edge)
                yield from self._endpoints(edge)
            elif self._has_moved(edge.table_key) and self._mode is Mode.OVERWRITE:
                yield from self._left_behind(edge)

    def _is_loaded(self, key: str) -> bool:
        return key in self._loaded.spills

    def _has_moved(self, key: str) -> bool:
        return key in self._window.moved

    def _difference(self, key: str) -> _Moved:
        if key not in self._moved:
            kind = self._loaded.catalog.type_named(key)
            self._moved[key] = _moved(self._window.base, self._window.head, key, key_columns(kind))
        return self._moved[key]

    def _rows(self, kind: Kind) -> Iterator[Broken]:
        key = kind.table_key
        moved = self._difference(key)
        if not self._loaded.generated(key):
            again = self._loaded.where(key, ID, moved.added, self._gone)
            if self._mode is Mode.APPEND and len(again):
                yield _broken(Rule.KEY, kind, again, lambda row: already_there(kind.name, row[ID]))
            if self._mode is Mode.MERGE and key in self._written and len(again):
                raise CollidedError(f"rows of {kind.name} were added meanwhile", hint="load again")
        for group in kind.unique:
            yield from self._uniqueness(kind, group, moved.after)

    def _uniqueness(self, kind: Kind, group: tuple[str, ...], after: pa.Table) -> Iterator[Broken]:
        stays = after.filter(
            pa.array(~self._loaded.has(kind.table_key, one_array(after[ID]), self._gone))
        )
        texts = group_texts(kind, group, stays)
        for rows in self._loaded.pieces(kind.table_key, key_columns(kind)):
            mine = group_texts(kind, group, rows)
            same = rows.filter(pc.and_(pc.is_valid(mine), pc.is_in(mine, value_set=texts)))
            kept = same.filter(pa.array(~np.isin(same[AT], self._gone.get(kind.table_key, ()))))
            if not len(kept):
                continue
            owners = pc.index_in(group_texts(kind, group, kept), value_set=texts)
            others = stays[ID].take(owners)

            def tell(number: int, kept: pa.Table = kept, others: pa.Array = others) -> Violation:
                row = kept.slice(number, 1).to_pylist()[0]
                values = [row[name] for name in group]
                return not_unique(kind.name, group, values, row[ID], others[number].as_py())

            yield Broken(Rule.UNIQUE, kind.table_key, kept[AT].to_numpy(), tell)

    def _endpoints(self, edge: EdgeType) -> Iterator[Broken]:
        for end, node in ((SRC, edge.from_type), (DST, edge.to_type)):
            key = node_key(node)
            if not self._has_moved(key):
                continue
            lost = self._difference(key).deleted
            if self._is_loaded(key):
                lost = lost.filter(pa.array(~self._loaded.has(key, lost, self._gone)))
            rows = self._loaded.where(edge.table_key, end, lost, self._gone)
            if len(rows):
                yield _broken(
                    Rule.ENDPOINT,
                    edge,
                    rows,
                    partial(_no_such_end, edge.name, end, node),
                )

    def _left_behind(self, edge: EdgeType) -> Iterator[Broken]:
        after = self._difference(edge.table_key).after
        for end, node in ((SRC, edge.from_type), (DST, edge.to_type)):
            key = node_key(node)
            if not self._is_loaded(key):
                continue
            known = self._loaded.has(key, one_array(after[end]), self._gone)
            lost = after.filter(pa.array(~known)).sort_by(ID)
            if len(lost):
                yield _broken(
                    Rule.ENDPOINT,
                    edge,
                    lost.append_column(AT, pa.array(np.full(len(lost), -1))),
                    partial(_left_alone, edge.name, end),
                )

    def _cardinality(self, edge: EdgeType) -> Iterator[Broken]:
        """Count again the edges of sources whose committed edges moved."""
        low, high = edge.cardinality.min, edge.cardinality.max
        if low == 0 and high is None:
            return
        moved, key = self._difference(edge.table_key), edge.table_key
        sources = pc.unique(
            pa.concat_arrays([one_array(moved.before[SRC]), one_array(moved.after[SRC])])
        )
        mine = self._loaded.where(key, SRC, sources, self._gone)
        touched = pc.unique(pa.concat_arrays([one_array(mine[SRC]), self._moved_away(key, moved)]))
        committed = self._window.head.open(key).scan([ID, SRC])
        committed = committed.filter(pc.is_in(committed[SRC], value_set=touched))
        shadowed = self._loaded.has(key, one_array(committed[ID]), self._gone)
        theirs = committed.filter(pa.array(~shadowed))
        counted = pc.value_counts(
            pa.concat_arrays([one_array(theirs[SRC]), one_array(mine[SRC])])
        ).to_pylist()
        counts = dict.fromkeys(touched.to_pylist(), 0)
        counts |= {one["values"]: one["counts"] for one in counted}
        wrong = sorted(
            source
            for source in touched.to_pylist()
            if counts[source] < low or (high is not None and counts[source] > high)
        )
        if wrong:
            first = pc.fill_null(pc.index_in(pa.array(wrong), value_set=one_array(mine[SRC])), -1)
            numbers = np.append(mine[AT].to_numpy(), -1)[np.asarray(first)]
            yield Broken(
                Rule.CARDINALITY,
                key,
                numbers,
                lambda number: wrong_count(edge, wrong[number], counts[wrong[number]]),
            )

    def _moved_away(self, key: str, moved: _Moved) -> pa.Array:
        """Return the sources that lose a moved edge to the load's version of it."""
        taken = self._loaded.has(key, one_array(moved.after[ID]), self._gone)
        return one_array(moved.after.filter(pa.array(taken))[SRC])


def _no_such_end(edge: str, end: str, node: str, row: dict[str, Any]) -> Violation:
    return no_such_end(edge, end, node, row[ID], row[end])


def _left_alone(edge: str, end: str, row: dict[str, Any]) -> Violation:
    return left_alone(edge, end, row[ID], row[end], "replaced away")


def _broken(rule: Rule, kind: Kind, rows: pa.Table, describe: Describe) -> Broken:
    return Broken(
        rule,
        kind.table_key,
        rows[AT].to_numpy(),
        lambda number: describe(rows.slice(number, 1).to_pylist()[0]),
    )


def _moved(base: Snapshot, head: Snapshot, key: str, columns: list[str]) -> _Moved:
    """Return the rows whose key columns differ between two snapshots."""
    delta = table_delta(head.kernel, base.table(key), head.table(key))
    pieces = list(delta.batches(columns))
    stored = head.open(key).schema
    empty = pa.schema([(name, stored.field(name).type) for name in columns]).empty_table()
    before = [part for one in pieces for part in (one.before, one.deleted)]
    after = [part for one in pieces for part in (one.after, one.inserted)]
    return _Moved(
        pa.concat_tables([empty, *(part.select(columns) for part in before)]),
        pa.concat_tables([empty, *(part.select(columns) for part in after)]),
    )


def _minus(rows: pa.Table, others: pa.Table) -> pa.Array:
    ids = one_array(rows[ID])
    return ids.filter(pc.invert(pc.is_in(ids, value_set=one_array(others[ID]))))
