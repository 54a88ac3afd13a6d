"""Conflicts that are settled: by a rule for all, column by column, or by hand.

Rows alone can be settled. A rule of the schema that both sides break together is nobody's choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.merges import STRATEGIES, Strategy
from omnigraph.base.arguments import shown, word_argument
from omnigraph.compiler.catalog.model import EdgeType, NodeType, Property
from omnigraph.compiler.query.params import coerce
from omnigraph.compiler.types import INTEGERS, Scalar
from omnigraph.engine.image.arrays import Mask, one_array
from omnigraph.engine.merge.images import ID, Images
from omnigraph.engine.merge.rows import RowConflicts, TableMerge
from omnigraph.engine.write.cells import column, fit
from omnigraph.errors import BadRequestError
from omnigraph.storage.tables.equal import unequal

Choice = Literal["ours", "theirs"] | Mapping[str, Any]
_SIDES = ("ours", "theirs")


@dataclass(frozen=True, slots=True)
class Resolutions:
    """How conflicts are to be settled: row by row, table by table, then by one strategy for all."""

    strategy: Strategy = "fail"
    columns: bool = False
    """Whether changes of different columns of one row are put together."""
    tables: Mapping[str, Strategy] = field(default_factory=dict)
    rows: Mapping[tuple[str, str], Choice] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return what the merge commit keeps of it."""
        return {
            "strategy": self.strategy,
            "columns": self.columns,
            "tables": dict(self.tables),
            "rows": len(self.rows),
        }


def resolutions(
    strategy: object = "fail", resolve: object = None, *, columns: bool = False
) -> Resolutions:
    """Read what a caller says of conflicts.

    Args:
        strategy: what happens to rows nothing else is said of.
        resolve: by table key a strategy, or by row id `ours`, `theirs` or a row's values by column
            (`{"columns": {"age": "theirs"}}` takes single columns, `{"values": {"age": 37}}` sets
            them); or a list of conflicts as they are told, each with its `resolution`.
        columns: put changes of different columns of one row together.

    Raises:
        BadRequestError: something of it cannot be meant.
    """
    chosen = word_argument(strategy, STRATEGIES, "merge strategy")
    tables: dict[str, Strategy] = {}
    rows: dict[tuple[str, str], Choice] = {}
    if isinstance(resolve, Mapping):
        for key, said in resolve.items():
            if isinstance(said, str) and said in STRATEGIES:
                tables[key] = said
            elif isinstance(said, Mapping):
                rows |= {(key, row_id): _choice(key, row_id, one) for row_id, one in said.items()}
            else:
                raise BadRequestError(
                    f"{shown(said)} does not say how to resolve {key}",
                    hint=f"one of {', '.join(STRATEGIES)}, or a mapping of ids",
                )
    elif isinstance(resolve, Sequence) and not isinstance(resolve, str):
        for one in resolve:
            rows |= _told(one)
    elif resolve is not None:
        raise BadRequestError(
            f"resolutions are a mapping or a list of conflicts, not {type(resolve).__name__}",
            hint="as in {'node:Person': 'theirs'}; a strategy for all has an argument of its own",
        )
    return Resolutions(chosen, columns, tables, rows)


def _told(one: object) -> dict[tuple[str, str], Choice]:
    """Read one line of a file of conflicts; a line without a resolution leaves it open."""
    if not isinstance(one, Mapping) or not isinstance(one.get("table_key"), str):
        raise BadRequestError(
            f"{shown(one)} is not a conflict", hint="it has a table_key and a row_id"
        )
    if one.get("resolution") is None:
        return {}
    key, row_id = one["table_key"], one.get("row_id")
    if not isinstance(row_id, str):
        raise BadRequestError(
            f"the conflict of {key} is not about one row and cannot be resolved by choosing a side",
            hint="change the data on one of the branches",
        )
    return {(key, row_id): _choice(key, row_id, one["resolution"])}


def _choice(key: str, row_id: str, said: object) -> Choice:
    if _is_side(said):
        return said  # type: ignore[return-value]  # one of the two
    if isinstance(said, Mapping) and set(said) <= {"columns", "values"} and said:
        sides, values = said.get("columns", {}), said.get("values", {})
        known = isinstance(sides, Mapping) and all(map(_is_side, sides.values()))
        if known and isinstance(values, Mapping):
            return said
    raise BadRequestError(
        f"{shown(said)} does not say how to resolve {key} '{row_id}'",
        hint="'ours', 'theirs', {'columns': {name: side}} or {'values': {name: value}}",
    )


def _is_side(said: object) -> bool:
    return isinstance(said, str) and said in _SIDES


def settle(table: TableMerge, said: Resolutions, kind: NodeType | EdgeType) -> None:
    """Settle the conflicts of a table as far as something is said of them.

    Raises:
        BadRequestError: a row is to be put together of columns that it does not have.
    """
    found = table.conflicts
    if found is None:
        return
    open_: Mask = np.ones(len(found.ids), dtype=bool)
    open_ &= ~_by_hand(table, found, said, kind)
    if said.columns:
        open_ &= ~_by_column(table, found.only(open_), kind, open_)
    strategy = said.tables.get(table.key, said.strategy)
    if strategy != "fail":
        left = found.ids.filter(pa.array(open_))
        if strategy == "theirs":
            table.replace(left, found.theirs, found.ours)
        else:
            table.keep(left, found.ours)
        open_[:] = False
    table.conflicts = found.only(open_) if open_.any() else None


def _by_hand(
    table: TableMerge, found: RowConflicts, said: Resolutions, kind: NodeType | EdgeType
) -> Mask:
    """Settle rows of which something is said one by one; there are as many as somebody wrote."""
    done = np.zeros(len(found.ids), dtype=bool)
    taken: list[str] = []
    kept: list[str] = []
    for at, row_id in enumerate(found.ids.to_pylist() if said.rows else ()):
        choice = said.rows.get((table.key, row_id))
        if choice is None:
            continue
        done[at] = True
        if choice == "theirs":
            taken.append(row_id)
        elif choice == "ours":
            kept.append(row_id)
        else:
            assert isinstance(choice, Mapping)
            table.put_together(_mixed(kind, found, row_id, choice), found.ours)
    if taken:
        table.replace(pa.array(taken, pa.string()), found.theirs, found.ours)
    if kept:
        table.keep(pa.array(kept, pa.string()), found.ours)
    return done


def _mixed(
    kind: NodeType | EdgeType, found: RowConflicts, row_id: str, choice: Mapping[str, Any]
) -> pa.Table:
    """Return one row of some columns of each side and some values of its own."""
    ids = pa.array([row_id], pa.string())
    ours, theirs = found.ours.only(ids).rows, found.theirs.only(ids).rows
    row = ours if len(ours) else theirs
    sides, values = choice.get("columns", {}), choice.get("values", {})
    for name, side in {**_vectors_with(kind, sides), **sides}.items():
        other = theirs if side == "theirs" else ours
        if name not in row.column_names or not len(other):
            raise BadRequestError(
                f"{kind.table_key} '{row_id}' has no '{name}' on the side of {side}",
                hint=_columns_hint(kind),
            )
        row = _with_column(row, name, other[name])
    # A text of its own has no vector yet: one is made when the graph is embedded next.
    for name, value in {**dict.fromkeys(_vectors_with(kind, values)), **values}.items():
        prop = kind.properties.get(name)
        if prop is None or (isinstance(kind, NodeType) and name in kind.key):
            raise BadRequestError(
                f"{kind.table_key} has no column {name!r} that could be given a value",
                hint=_columns_hint(kind),
            )
        row = _with_column(row, name, _given(kind, row_id, prop, value, row.schema.field(name)))
    return row


def _given(
    kind: NodeType | EdgeType, row_id: str, prop: Property, value: object, stored: pa.Field
) -> pa.Array:
    """Return a value given by hand as a column of one row; read as a parameter would be."""
    try:
        whole = prop.type.scalar in INTEGERS  # parameters stop where signed integers do
        cell = fit(value if whole or value is None else coerce(value, prop.type), prop.type)
    except ValueError as error:
        raise BadRequestError(
            f"{kind.table_key} '{row_id}': {prop.name} cannot be {value!r}: {error}",
            hint=f"it is a {prop.type}",
        ) from error
    if prop.type.scalar is Scalar.BLOB:
        return pa.array([cell], stored.type)
    return column([cell], prop.type).cast(stored.type)


def _with_column(row: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return row.set_column(row.schema.get_field_index(name), row.schema.field(name), values)


def _vectors_with(kind: NodeType | EdgeType, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of texts for the vectors that are made of them."""
    embeds = kind.embeds.values() if isinstance(kind, NodeType) else ()
    return {one.target: said[one.source] for one in embeds if one.source in said}


def _columns_hint(kind: NodeType | EdgeType) -> str:
    key = kind.key if isinstance(kind, NodeType) else ()
    return f"one of {', '.join(name for name in kind.properties if name not in key)}"


def _by_column(
    table: TableMerge, found: RowConflicts, kind: NodeType | EdgeType, open_: Mask
) -> Mask:
    """Put together rows both sides updated in different columns; return which of `open_` are done.

    A vector goes with the text it was made of, as one column would.
    """
    done = np.zeros(len(open_), dtype=bool)
    ids = found.ids
    whole = found.base.has(ids) & found.ours.has(ids) & found.theirs.has(ids)
    whole &= ~np.asarray(pc.is_in(ids, value_set=found.unsettled))
    ids = ids.filter(pa.array(whole))
    if not len(ids):
        return done
    base, ours, theirs = (_rows(side, ids) for side in (found.base, found.ours, found.theirs))
    clash = np.zeros(len(ids), dtype=bool)
    row = ours
    for group in _groups(kind, ours.column_names):
        mine, other = _any_unequal(base, ours, group), _any_unequal(base, theirs, group)
        clash |= mine & other & _any_unequal(ours, theirs, group)
        take = pa.array(other & ~mine)
        for name in group:
            column = pc.if_else(take, one_array(theirs[name]), one_array(ours[name]))
            row = row.set_column(row.schema.get_field_index(name), row.schema.field(name), column)
    if (~clash).any():
        table.put_together(row.filter(pa.array(~clash)), found.ours)
    settled = np.zeros(len(whole), dtype=bool)
    settled[np.flatnonzero(whole)[~clash]] = True
    done[np.flatnonzero(open_)[settled]] = True
    return done


def _groups(kind: NodeType | EdgeType, names: Sequence[str]) -> list[list[str]]:
    """Return columns that stand or fall together."""
    leader = {name: name for name in names}
    if isinstance(kind, NodeType):
        for embed in kind.embeds.values():
            leader[embed.target] = embed.source
    grouped: dict[str, list[str]] = {}
    for name in names:
        if name != ID:
            grouped.setdefault(leader[name], []).append(name)
    return list(grouped.values())


def _any_unequal(one: pa.Table, other: pa.Table, names: Sequence[str]) -> Mask:
    masks = [unequal(one_array(one[name]), one_array(other[name])) for name in names]
    return np.asarray(np.logical_or.reduce(masks))


def _rows(side: Images, ids: pa.Array) -> pa.Table:
    return side.rows.take(pa.array(side.places(ids))).combine_chunks()
