"""Rows of one type on their way into its table: typed columns, then ids, then a spillable table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ulid import ULID

from omnigraph.api.violations import Rule, Violation
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.model import DST, ID, SRC, EdgeType, NodeType
from omnigraph.compiler.schema.fills import fill_value
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.image.arrays import Mask, one_array
from omnigraph.engine.write.cells import column
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import Broken
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.row_ids import Ints, generated_ids, key_ids

AT = "_at"
"""The extra column of spilled rows: the row's number in its task's input, from 1."""

Kind: TypeAlias = NodeType | EdgeType
_TEXT = PropType(Scalar.STRING, nullable=True)


@dataclass(frozen=True, slots=True)
class Origin:
    """What the rows of one input have in common: enough to make their ids."""

    operation_id: str
    source: int


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Typed columns of one type, still without ids of their own.

    `ids` are the ids the input gave (null where it gave none); `at` numbers the rows within the
    task, `offsets` say where they stood in the input.
    """

    kind: Kind
    columns: Mapping[str, pa.Array]
    ids: pa.Array
    src: pa.Array | None
    dst: pa.Array | None
    at: Ints
    offsets: Ints
    misfits: Mapping[str, Mask] | None = None
    """Of rows that are refused already, which cells did not fit, by property. They stand here as
    null; what else is wrong with the rows is still to be told."""


def split(rows: TypedRows, misfits: Mapping[str, Mask], bad: Mask) -> list[TypedRows]:
    """Return sound rows and refused ones apart from each other."""
    if not bad.any():
        return [rows]
    refused = replace(_picked(rows, bad), misfits={name: one[bad] for name, one in misfits.items()})
    return [_picked(rows, ~bad), refused]


def tell_more(rows: TypedRows, origin: Origin, faults: Faults, *, filled: bool) -> None:
    """Report what refused rows break besides having values that do not fit."""
    rows = _with_defaults(rows, origin)
    kind, misfits = rows.kind, rows.misfits or {}
    ids = _key_ids(kind, rows) if isinstance(kind, NodeType) and kind.key else rows.ids
    table = _assembled(rows, ids)
    for broken in broken_values(kind, table, filled=filled):
        told = misfits.get(broken.columns[0]) if broken.rule is Rule.REQUIRED else None
        fresh = np.arange(len(broken.rows)) if told is None else np.flatnonzero(~told[broken.rows])
        faults.add_more(rows.at[broken.rows[fresh]], _told_by(broken, fresh))


def _told_by(broken: Broken, which: Ints) -> Callable[[int], Violation]:
    return lambda number: broken.tell(int(which[number]))


def to_table(rows: TypedRows, origin: Origin, faults: Faults) -> pa.Table:
    """Return whole rows under their ids; rows that cannot have one are faults."""
    rows = _with_defaults(rows, origin)
    kind = rows.kind
    bad = np.zeros(len(rows.at), dtype=bool)
    if isinstance(kind, EdgeType):
        ids = _given_or_generated(rows, origin)
        for word, ends in (("from", rows.src), ("to", rows.dst)):
            assert ends is not None
            bad |= _refuse_null_end(kind, word, ends, rows.at, bad, faults)
    elif kind.key:
        ids = _key_ids(kind, rows)
        bad |= _refuse_null_keys(kind, ids, rows.at, faults)
        bad |= _refuse_other_ids(kind, ids, rows, bad, faults)
    else:
        ids = _given_or_generated(rows, origin)
    table = _assembled(rows, ids)
    return table.filter(pa.array(~bad)) if bad.any() else table


def _with_defaults(rows: TypedRows, origin: Origin) -> TypedRows:
    """Return rows in which required properties that were left out have their default.

    A property that may be null keeps it: what was exported loads back as it was.
    """
    wanted = {
        name: prop
        for name, prop in rows.kind.properties.items()
        if prop.default is not None and not prop.type.nullable and rows.columns[name].null_count
    }
    if not wanted:
        return rows
    now_ms = ULID.from_str(origin.operation_id).milliseconds
    columns = dict(rows.columns)
    for name, prop in wanted.items():
        assert prop.default is not None
        value = column([fill_value(prop.type, prop.default, now_ms)], prop.type)
        columns[name] = pc.fill_null(columns[name], value.cast(columns[name].type)[0])
    return replace(rows, columns=columns)


def key_table(kind: Kind, rows: pa.Table) -> pa.Table:
    """Return what rows of a type can clash by: ids, ends, and one text per unique group.

    Loaded rows bring their numbers, committed ones have none.

    The text of a group is equal for equal values, and null where one of them is.
    """
    columns = {name: rows[name] for name in (AT, ID) if name in rows.column_names}
    if isinstance(kind, EdgeType):
        columns |= {SRC: rows[SRC], DST: rows[DST]}
    for number, group in enumerate(kind.unique):
        columns[group_column(number)] = pa.chunked_array([group_texts(kind, group, rows)])
    return pa.table(columns)


def group_column(number: int) -> str:
    """Return the key column of a type's unique group."""
    return f"unique{number}"


def group_texts(kind: Kind, group: tuple[str, ...], rows: pa.Table) -> pa.Array:
    """Return the values of a unique group as one text per row."""
    return key_ids(
        [
            (
                one_array(rows[name]),
                kind.properties[name].type if name in kind.properties else _TEXT,
            )
            for name in group
        ]
    )


def _given_or_generated(rows: TypedRows, origin: Origin) -> pa.Array:
    if not rows.ids.null_count and len(rows.ids):
        return rows.ids
    made = generated_ids(origin.operation_id, origin.source, rows.offsets)
    return made if rows.ids.null_count == len(rows.ids) else pc.coalesce(rows.ids, made)


def _key_ids(kind: NodeType, rows: TypedRows) -> pa.Array:
    return key_ids([(rows.columns[name], kind.properties[name].type) for name in kind.key])


def _picked(rows: TypedRows, mask: Mask) -> TypedRows:
    keep = pa.array(mask)
    return TypedRows(
        rows.kind,
        {name: values.filter(keep) for name, values in rows.columns.items()},
        rows.ids.filter(keep),
        None if rows.src is None else rows.src.filter(keep),
        None if rows.dst is None else rows.dst.filter(keep),
        rows.at[mask],
        rows.offsets[mask],
    )


def _assembled(rows: TypedRows, ids: pa.Array) -> pa.Table:
    schema = arrow_schema(rows.kind)
    own = {ID: ids}
    if rows.src is not None:  # a node may have properties of these names
        own |= {SRC: rows.src, DST: rows.dst}
    arrays = [rows.columns[name] if name not in own else own[name] for name in schema.names]
    # Nulls in required columns are the validator's to report: no column is declared without.
    fields = [pa.field(name, array.type) for name, array in zip(schema.names, arrays, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    return table.append_column(AT, pa.array(rows.at))


def _refuse_null_end(
    kind: EdgeType, word: str, ends: pa.Array, at: Ints, known: Mask, faults: Faults
) -> Mask:
    missing: Mask = np.asarray(ends.is_null(), dtype=bool) & ~known
    text = f"edge {kind.name} is missing '{word}'"
    faults.add_all(at[missing], lambda _: Violation(Rule.RECORD, kind.name, text, word))
    return missing


def _refuse_null_keys(kind: NodeType, ids: pa.Array, at: Ints, faults: Faults) -> Mask:
    missing: Mask = np.asarray(ids.is_null(), dtype=bool)
    shown = ", ".join(kind.key)
    text = f"{kind.name} is missing its @key property {shown}"
    faults.add_all(at[missing], lambda _: Violation(Rule.KEY, kind.name, text, shown))
    return missing


def _refuse_other_ids(
    kind: NodeType, ids: pa.Array, rows: TypedRows, known: Mask, faults: Faults
) -> Mask:
    """An id beside a key must say the same as the key."""
    if rows.ids.null_count == len(rows.ids):
        return np.zeros(len(ids), dtype=bool)
    differs = pc.fill_null(pc.not_equal(rows.ids, ids), False)
    bad: Mask = np.asarray(differs, dtype=bool) & ~known
    where = np.flatnonzero(bad)

    def describe(position: int) -> Violation:
        row = int(where[position])
        given, key = rows.ids[row].as_py(), ids[row].as_py()
        text = f"{kind.name}: id '{given}' is not the key '{key}'"
        return Violation(Rule.KEY, kind.name, text, ID, key, given)

    faults.add_all(rows.at[bad], describe)
    return bad
