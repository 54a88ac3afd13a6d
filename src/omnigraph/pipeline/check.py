"""What the rows of a load break together, and where in the input the fault lies.

The rules are the shared validator's; here rows are told apart by place, ids given twice are found,
and, when asked for, bad rows are left out until the rest is sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.catalog.model import ID, SRC, Catalog
from omnigraph.engine.write.violations import ConstraintError, Rule, Violation, Violations
from omnigraph.pipeline.rows import AT
from omnigraph.pipeline.sources import LinesSource, Source
from omnigraph.pipeline.tasks import ROW_BITS, Parsed, Task

Tables = Mapping[str, pa.Table]
"""Loaded rows by table, with their `AT` column."""

_NEEDS_OTHER_ROWS = (Rule.ENDPOINT, Rule.CARDINALITY)


@dataclass(frozen=True, slots=True)
class Places:
    """Turns the number of a row into words: which input, which line."""

    sources: Sequence[Source]
    tasks: Sequence[Task]
    first: Sequence[int]
    """How many lines of the same source come before each task."""

    def of(self, at: int) -> str:
        """Return the place of a row by its `AT` value."""
        number, row = at >> ROW_BITS, at & ((1 << ROW_BITS) - 1)
        source = self.sources[self.tasks[number].source]
        if isinstance(source, LinesSource):
            return f"{source.name}:{self.first[number] + row}"
        return f"{source.name}: row {row}"


def places_of(sources: Sequence[Source], tasks: Sequence[Task], parsed: Sequence[Parsed]) -> Places:
    """Return the places of all rows; the lines of earlier tasks of a file come first."""
    first = [0] * len(tasks)
    for before, task in pairwise(tasks):
        if before.source == task.source:
            first[task.number] = first[before.number] + parsed[before.number].lines
    return Places(sources, tasks, first)


def row_faults(parsed: Iterable[Parsed], places: Places) -> Violations:
    """Return what the tasks found wrong, in input order."""
    found = Violations()
    for one in parsed:
        for fault in one.faults:
            place = places.of((one.number << ROW_BITS) | fault.row)
            found.add(replace(fault.violation, place=place))
        found.total += one.fault_total - len(one.faults)
    return found


def without_repeats(
    tables: Tables, generated: frozenset[str], places: Places, found: Violations
) -> dict[str, pa.Table]:
    """Return the rows with every id once; later rows with a known id are violations.

    Tables in `generated` have only ids that were made for their rows, each once.
    """
    kept: dict[str, pa.Table] = {}
    for key, rows in tables.items():
        ids = rows[ID]
        if key in generated or pc.count_distinct(ids).as_py() == len(rows):
            kept[key] = rows
            continue
        codes = pc.dictionary_encode(ids.combine_chunks()).indices.to_numpy()
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        again = first[inverse] != np.arange(len(codes))
        name = key.partition(":")[2]
        for at in np.flatnonzero(again):
            value = ids[int(at)].as_py()
            other = places.of(rows[AT][int(first[inverse[at]])].as_py())
            text = f"{name} '{value}' is given twice (first at {other})"
            place = places.of(rows[AT][int(at)].as_py())
            found.add(Violation(Rule.KEY, name, text, ID, value, value, place))
        kept[key] = rows.filter(pa.array(~again))
    return kept


def with_place(violation: Violation, tables: Tables, catalog: Catalog, places: Places) -> Violation:
    """Return a violation that says which line it is about, if a loaded row is to blame."""
    rows = tables.get(key_of(violation, catalog))
    if rows is None or violation.row_id is None or violation.place is not None:
        return violation
    at = pc.index(rows[ID], violation.row_id).as_py()
    return violation if at < 0 else replace(violation, place=places.of(rows[AT][at].as_py()))


def key_of(violation: Violation, catalog: Catalog) -> str:
    """Return the table a violation is about."""
    kind = catalog.nodes.get(violation.type_name) or catalog.edges.get(violation.type_name)
    return "" if kind is None else kind.table_key


def independent(violations: Iterable[Violation]) -> Iterable[Violation]:
    """Leave out what may only be broken because other rows were refused already."""
    return (one for one in violations if one.rule not in _NEEDS_OTHER_ROWS)


def sound_part(
    tables: Tables,
    find: Callable[[Tables], Iterable[Violation]],
    catalog: Catalog,
    places: Places,
    skipped: Violations,
) -> dict[str, pa.Table]:
    """Return the rows that break no rule once the others are left out.

    Leaving out a node leaves out its edges, so this goes round until nothing is found. Edges of a
    source with a wrong number of them are left out together. `skipped` gets every reason.

    Raises:
        ConstraintError: leaving out loaded rows does not help.
    """
    current = dict(tables)
    while True:
        doomed: dict[str, set[str]] = {}
        sources: dict[str, set[str]] = {}
        for violation in find(current):
            key = key_of(violation, catalog)
            if violation.rule is Rule.CARDINALITY:
                sources.setdefault(key, set()).add(violation.value)
            elif violation.row_id is not None:
                doomed.setdefault(key, set()).add(violation.row_id)
            skipped.add(with_place(violation, current, catalog, places))
        if not doomed and not sources:
            return current
        before = sum(map(len, current.values()))
        current = _left_out(_left_out(current, ID, doomed), SRC, sources)
        if sum(map(len, current.values())) == before:
            raise ConstraintError(skipped.items, skipped.total)


def _left_out(tables: Tables, column: str, doomed: Mapping[str, set[str]]) -> dict[str, pa.Table]:
    kept = dict(tables)
    for key, values in doomed.items():
        if key in kept:
            gone = pc.is_in(kept[key][column], value_set=pa.array(sorted(values), pa.string()))
            kept[key] = kept[key].filter(pc.invert(gone))
    return kept
