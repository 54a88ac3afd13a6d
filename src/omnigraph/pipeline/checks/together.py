"""The second stage: what the rows of a load break together and against what is committed.

The rules are the shared validator's. Who finds what is broken is a `Checks`: this process with
Arrow, or Spark with joins; both name rows by number, so the report is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.violations import Rule, Violation
from omnigraph.api.words import Mode
from omnigraph.base.budget import checkpoint
from omnigraph.base.table_keys import node_key, type_of
from omnigraph.compiler.catalog.model import ID, SRC
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.validate import find_broken
from omnigraph.engine.write.violations import Broken, ConstraintError, Violations
from omnigraph.pipeline.inputs.row_ids import Ints
from omnigraph.pipeline.inputs.rows import AT
from omnigraph.pipeline.stages.loaded import Gone, Loaded, Places, joined
from omnigraph.pipeline.stages.tasks import ROW_BITS, Parsed
from omnigraph.storage.manifest.snapshot import Snapshot

_NEEDS_OTHER_ROWS = (Rule.ENDPOINT, Rule.CARDINALITY)


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows of one table with an id that an earlier row has."""

    table_key: str
    at: Ints
    first: Ints
    """The number of the earlier row, for each."""


class Checks(Protocol):
    """Finds what rows break together; rows are named by number, and reported by it."""

    def repeats(self) -> Iterator[Repeats]:
        """Yield the ids that are given more than once."""
        ...

    def across(self, gone: Gone) -> Iterator[Broken]:
        """Yield every rule across rows that is broken once some rows are left out."""
        ...


class InlineChecks:
    """The shared validator over the mapped key columns, in this process."""

    def __init__(self, loaded: Loaded, mode: Mode, base: Snapshot) -> None:
        self._loaded = loaded
        self._mode = mode
        self._base = base

    def repeats(self) -> Iterator[Repeats]:
        """Yield the ids that are given more than once."""
        for key in self._loaded.keys:
            if not self._loaded.generated(key):
                yield from _repeats(key, self._loaded.key_rows(key, {}))

    def across(self, gone: Gone) -> Iterator[Broken]:
        """Yield every rule across rows that is broken once some rows are left out."""
        rows = {key: self._loaded.key_rows(key, gone) for key in self._loaded.keys}
        # The keys are mapped files; comparing them makes tables of about their size.
        checkpoint("check", 2 * sum(found.nbytes for found in rows.values()))
        changes = ChangeSet(
            {
                key: change_of(found, self._mode, self._loaded.generated(key))
                for key, found in rows.items()
                if len(found)
            }
        )
        catalog = self._loaded.catalog
        for broken in find_broken(changes, self._base, catalog, values_are_checked=True):
            yield numbered(broken, rows.get(broken.table_key))


def _repeats(key: str, rows: pa.Table) -> Iterator[Repeats]:
    if pc.count_distinct(rows[ID]).as_py() == len(rows):
        return
    numbers = rows[AT].to_numpy()
    codes = pc.dictionary_encode(one_array(rows[ID])).indices.to_numpy()
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(codes)))
    yield Repeats(key, numbers[again], numbers[first[inverse[again]]])


def change_of(rows: pa.Table, mode: Mode, generated: bool) -> TableChange:
    """Return what a mode does with the rows of a table."""
    match mode:
        case Mode.OVERWRITE:
            return TableChange(rows, replaces=True)
        case Mode.APPEND:
            return TableChange(rows, inserts_new=generated, must_be_new=not generated)
        case Mode.MERGE:
            return TableChange(rows, inserts_new=generated)


def numbered(broken: Broken, rows: pa.Table | None) -> Broken:
    """Return a finding about rows by position as one about rows by number."""
    if rows is None or not len(rows):  # then it is about rows that are committed already
        return broken
    found = rows[AT].to_numpy()[broken.rows]
    found[broken.rows < 0] = -1
    return replace(broken, rows=found)


def compared_rows(loaded: Loaded, mode: Mode, base: Snapshot) -> int:
    """Return how many rows the rules of a load look at: its own, and committed ones."""
    committed = sum(base.table(key).row_count for key in compared_tables(loaded, mode))
    return committed + sum(loaded.count(key) for key in loaded.keys)


def compared_tables(loaded: Loaded, mode: Mode) -> set[str]:
    """Return the tables whose committed rows matter to a load."""
    return set(_compared(loaded, mode))


def _compared(loaded: Loaded, mode: Mode) -> Iterator[str]:
    for key in loaded.spills:
        if mode is not Mode.OVERWRITE:
            yield key
    for edge in loaded.catalog.edges.values():
        ends = (node_key(edge.from_type), node_key(edge.to_type))
        if edge.table_key in loaded.spills:
            yield from (key for key in ends if key not in loaded.spills)
        elif mode is Mode.OVERWRITE and any(key in loaded.spills for key in ends):
            yield edge.table_key


def row_faults(parsed: Iterable[Parsed], places: Places, limit: int) -> Violations:
    """Return what the tasks found wrong, in input order."""
    found = Violations(limit)
    for one in parsed:
        for fault in one.faults:
            place = places.of((one.number << ROW_BITS) | fault.row)
            found.add(replace(fault.violation, place=place))
        found.total += one.fault_total - len(one.faults)
    return found


def check_all(checks: Checks, loaded: Loaded, found: Violations) -> None:
    """Return only if nothing is wrong; `found` has what is wrong with single rows.

    Raises:
        ConstraintError: with the first violations, each with its place.
    """
    gone: dict[str, Ints] = {}
    for repeats in checks.repeats():
        report(_given_twice(repeats, loaded), loaded, found)
        gone[repeats.table_key] = np.sort(repeats.at)
    # A row that was refused may be all that others lack.
    ignored = _NEEDS_OTHER_ROWS if found.total else ()
    for broken in checks.across(gone):
        if broken.rule not in ignored:
            report(broken, loaded, found)
    found.raise_if_any()


def sound_part(checks: Checks, loaded: Loaded, skipped: Violations) -> Gone:
    """Return which rows to leave out so that the others break no rule.

    Leaving out a node leaves out its edges, so this goes round until nothing is found. Edges of a
    source with a wrong number of them are left out together. `skipped` gets every reason.

    Raises:
        ConstraintError: leaving out loaded rows does not help.
    """
    gone: Gone = {}
    for repeats in checks.repeats():
        report(_given_twice(repeats, loaded), loaded, skipped)
        gone = joined(gone, {repeats.table_key: repeats.at})
    while True:
        found = list(checks.across(gone))
        if not found:
            return gone
        doomed: Gone = {}
        for broken in found:
            report(broken, loaded, skipped)
            doomed = joined(doomed, {broken.table_key: _doomed(broken, loaded)})
        fewer = joined(gone, doomed)
        if sum(map(len, fewer.values())) == sum(map(len, gone.values())):
            raise ConstraintError(skipped.items, skipped.total)
        gone = fewer


def _doomed(broken: Broken, loaded: Loaded) -> Ints:
    if broken.rule is not Rule.CARDINALITY:
        return broken.rows[broken.rows >= 0]
    sources = [broken.tell(number).value for number in range(len(broken.rows))]
    edges = loaded.where(broken.table_key, SRC, pa.array(sources, pa.string()), {})
    return np.asarray(edges[AT])


def _given_twice(repeats: Repeats, loaded: Loaded) -> Broken:
    name = type_of(repeats.table_key)

    def tell(number: int) -> Violation:
        value = loaded.find(repeats.table_key, int(repeats.at[number]))[ID]
        other = loaded.places.of(int(repeats.first[number]))
        text = f"{name} '{value}' is given twice (first at {other})"
        return Violation(Rule.KEY, name, text, ID, value, value)

    return Broken(Rule.KEY, repeats.table_key, repeats.at, tell)


def report(broken: Broken, loaded: Loaded, found: Violations) -> None:
    """Put into words, with places, what there is room for; count the rest."""
    shown = min(found.room, len(broken.rows))
    for number in range(shown):
        at = int(broken.rows[number])
        place = None if at < 0 else loaded.places.of(at)
        found.add(replace(broken.tell(number), place=place))
    found.total += len(broken.rows) - shown
