"""A plain model of mutations: rows are dicts, rules are loops, every violation is told.

It shares no code with the engine. A violation is a tuple: rule, type, property, id, value and the
statement, in the order the engine documents: what does not fit its property first, by statement,
with what else the same new row breaks by itself; then nodes before edges, types by name, rule by
rule, rows in the order they were written last.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Row = dict[str, Any]
Where = tuple[tuple[str, str, Any], ...]
Told = tuple[str, str, str | None, str | None, Any, str | None]


@dataclass(frozen=True)
class Type:
    """What the schema says of one type; lists of rules are in the order the engine asks them."""

    props: dict[str, str]
    key: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: tuple[tuple[str, float, float], ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    ends: tuple[str, str] | None = None
    card: tuple[int, int | None] = (0, None)


@dataclass(frozen=True)
class Statement:
    """One statement of a mutation; ends of edges are called `from` and `to`, as in queries."""

    kind: Literal["insert", "update", "delete"]
    type: str
    values: Row = field(default_factory=dict, hash=False)
    where: Where = ()


class MisfitError(ValueError):
    """A value does not fit its property."""


@dataclass
class Model:
    """All rows by type and id, and what the running query did to them."""

    types: dict[str, Type]
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        for name in self.types:
            self.rows.setdefault(name, {})


def run(model: Model, statements: list[Statement]) -> tuple[Model, tuple[int, int], list[Told]]:
    """Return the graph after a query, how many nodes and edges it affected, and what it breaks."""
    work = _Run(Model(model.types, copy.deepcopy(model.rows), model.made))
    for number, statement in enumerate(statements, start=1):
        getattr(work, statement.kind)(number, statement)
    told = list(work.told)
    for name in _in_order(model.types):
        told += work.broken_values(name)
        if not work.told:  # what was refused may be all that others lack
            told += work.broken_together(name)
    return work.model, (work.nodes, work.edges), told


def _in_order(types: dict[str, Type]) -> list[str]:
    return sorted(types, key=lambda name: (types[name].ends is not None, name))


class _Run:
    """One query at work on a copy of the model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.nodes = self.edges = 0
        self.told: list[Told] = []
        self.written: dict[str, dict[str, dict[str, int]]] = {name: {} for name in model.types}
        """By type and id, in the order of the last write: which statement gave each column."""
        self.new: set[str] = set()
        self.gone: dict[str, list[tuple[int, Row]]] = {name: [] for name in model.types}

    def insert(self, number: int, statement: Statement) -> None:
        kind, rows = self.model.types[statement.type], self.model.rows[statement.type]
        values, misfits = self._fitted(kind, statement, number)
        if kind.ends is not None:
            self.told += misfits
            for end, word in (("src", "from"), ("dst", "to")):
                values[end] = statement.values[word]
                if values[end] is None:
                    place = f"statement {number}"
                    self.told.append(("required", statement.type, end, None, None, place))
            if misfits or values["src"] is None or values["dst"] is None:
                self.told += self._others(number, statement.type, {"id": None, **values}, misfits)
                return
            self.edges += 1
        else:
            nulls = [name for name in kind.key if name in values and values[name] is None]
            for name in nulls:
                place = f"statement {number}"
                self.told.append(("required", statement.type, name, None, None, place))
            key = _key(kind, values)
            self.told += [(*one[:3], key, *one[4:]) for one in misfits]
            if misfits or nulls:
                self.told += self._others(number, statement.type, {"id": key, **values}, misfits)
                return
            self.nodes += 1
        row_id = _key(kind, values)
        if row_id is None:
            self.model.made += 1
            row_id = f"#{self.model.made}"
        if row_id not in rows:
            self.new.add(row_id)
        columns = [*kind.props, *(("src", "dst") if kind.ends else ())]
        rows[row_id] = {"id": row_id, **dict.fromkeys(columns), **values}
        self._write(statement.type, row_id, columns, number)

    def update(self, number: int, statement: Statement) -> None:
        kind = self.model.types[statement.type]
        values, misfits = self._fitted(kind, statement, number)
        self.told += misfits
        if not values:
            return
        for row in self._matching(statement):
            row.update(values)
            self._write(statement.type, row["id"], list(values), number)
            if kind.ends is None:
                self.nodes += 1
            else:
                self.edges += 1

    def delete(self, number: int, statement: Statement) -> None:
        doomed = self._matching(statement)
        if self.model.types[statement.type].ends is not None:
            self._drop(statement.type, doomed, number)
            return
        self.nodes += len(doomed)
        ids = {row["id"] for row in doomed}
        self.model.rows[statement.type] = {
            row_id: row
            for row_id, row in self.model.rows[statement.type].items()
            if row_id not in ids
        }
        self.gone[statement.type] += [(number, row) for row in doomed]
        for name, kind in self.model.types.items():
            if kind.ends is not None:
                touching = [
                    edge
                    for edge in self.model.rows[name].values()
                    if (kind.ends[0] == statement.type and edge["src"] in ids)
                    or (kind.ends[1] == statement.type and edge["dst"] in ids)
                ]
                self._drop(name, touching, number)

    def _drop(self, name: str, doomed: list[Row], number: int) -> None:
        self.edges += len(doomed)
        self.gone[name] += [(number, row) for row in doomed]
        for row in doomed:
            del self.model.rows[name][row["id"]]

    def _matching(self, statement: Statement) -> list[Row]:
        words = {"from": "src", "to": "dst"}
        where = [(words.get(column, column), op, value) for column, op, value in statement.where]
        return [
            row
            for row in self.model.rows[statement.type].values()
            if all(_holds(row[column], op, value) for column, op, value in where)
        ]

    def _write(self, name: str, row_id: str, columns: list[str], number: int) -> None:
        known = self.written[name].pop(row_id, {})
        self.written[name][row_id] = known | dict.fromkeys(columns, number)

    def _fitted(self, kind: Type, statement: Statement, number: int) -> tuple[Row, list[Told]]:
        fitted: Row = {}
        misfits: list[Told] = []
        for name, value in statement.values.items():
            if name in ("from", "to") and kind.ends is not None:
                continue
            try:
                fitted[name] = fit(value, kind.props[name])
            except MisfitError:
                place = f"statement {number}"
                misfits.append(("type", statement.type, name, None, value, place))
        return fitted, misfits

    def _others(self, number: int, name: str, given: Row, misfits: list[Told]) -> Iterator[Told]:
        """Yield what a row that is refused for other reasons breaks by itself."""
        kind = self.model.types[name]
        told = {*kind.key, *(prop for _, _, prop, *_ in misfits)}
        row = {**dict.fromkeys(kind.props), **given}
        for rule, _, prop, row_id, value, _ in self._alone(name, [row], lambda *_: None):
            if rule != "required" or prop not in told:
                yield (rule, name, prop, row_id, value, f"statement {number}")

    def _place(self, name: str, row_id: str, columns: tuple[str, ...]) -> str | None:
        by = self.written[name][row_id]
        return f"statement {max(by[column] for column in columns if column in by)}" if by else None

    def _rows(self, name: str) -> list[Row]:
        return [self.model.rows[name][row_id] for row_id in self.written[name]]

    def broken_values(self, name: str) -> Iterator[Told]:
        """Yield what rows break by themselves."""
        return self._alone(name, self._rows(name), self._place)

    def _alone(
        self, name: str, rows: list[Row], place: Callable[[str, str, tuple[str]], str | None]
    ) -> Iterator[Told]:
        kind = self.model.types[name]

        def told(rule: str, prop: str, row: Row, value: Any) -> Told:
            return (rule, name, prop, row["id"], value, place(name, row["id"], (prop,)))

        for prop in kind.props:
            if prop in kind.required:
                yield from (told("required", prop, row, None) for row in rows if row[prop] is None)
            allowed = kind.enums.get(prop)
            for row in rows if allowed else ():
                if row[prop] is not None and row[prop] not in allowed:
                    yield told("enum", prop, row, row[prop])
        for prop, low, high in kind.ranges:
            given = [row for row in rows if row[prop] is not None]
            yield from (told("range", prop, row, row[prop]) for row in given if row[prop] < low)
            yield from (told("range", prop, row, row[prop]) for row in given if row[prop] > high)
        for prop, pattern in kind.checks:
            for row in rows:
                if row[prop] is not None and not re.search(pattern, row[prop]):
                    yield told("check", prop, row, row[prop])

    def broken_together(self, name: str) -> Iterator[Told]:
        """Yield what rows break with others: ends, uniqueness, numbers of edges."""
        kind = self.model.types[name]
        if kind.ends is not None:
            yield from self._missing_ends(name, kind)
        for columns in kind.unique:
            yield from self._repeated(name, columns)
        if kind.ends is not None:
            yield from self._wrong_numbers(name, kind)

    def _missing_ends(self, name: str, kind: Type) -> Iterator[Told]:
        assert kind.ends is not None
        for end, node in zip(("src", "dst"), kind.ends, strict=True):
            for row in self._rows(name):
                if row[end] not in self.model.rows[node]:
                    place = self._place(name, row["id"], (end,))
                    yield ("endpoint", name, end, row["id"], row[end], place)

    def _repeated(self, name: str, columns: tuple[str, ...]) -> Iterator[Told]:
        def values(row: Row) -> tuple[Any, ...]:
            return tuple(row[column] for column in columns)

        def told(row: Row) -> Told:
            shown = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
            value = values(row)[0] if len(columns) == 1 else values(row)
            place = self._place(name, row["id"], columns)
            return ("unique", name, shown, row["id"], value, place)

        rows = [row for row in self._rows(name) if None not in values(row)]
        for at, row in enumerate(rows):
            if any(values(other) == values(row) for other in rows[:at]):
                yield told(row)
        stays = [
            values(row)
            for row_id, row in self.model.rows[name].items()
            if row_id not in self.written[name]
        ]
        yield from (told(row) for row in rows if values(row) in stays)

    def _wrong_numbers(self, name: str, kind: Type) -> Iterator[Told]:
        assert kind.ends is not None
        low, high = kind.card
        gone_nodes = {row["id"] for _, row in self.gone[kind.ends[0]]}
        touched = {row["src"] for row in self._rows(name)}
        touched |= {row["src"] for _, row in self.gone[name]} - gone_nodes
        for source in sorted(touched):
            mine = [row for row in self.model.rows[name].values() if row["src"] == source]
            added = sorted(
                self.written[name][row["id"]]["src"] for row in mine if row["id"] in self.new
            )
            taken = [number for number, row in self.gone[name] if row["src"] == source]
            if high is not None and len(mine) > high:
                at = added[len(added) - (len(mine) - high)]
            elif len(mine) < low:
                at = added[0] if added else taken[len(mine) + len(taken) - low]
            else:
                continue
            yield ("cardinality", name, "src", None, source, f"statement {at}")


def _key(kind: Type, values: Row) -> str | None:
    parts = [values.get(name) for name in kind.key]
    if not parts or None in parts:
        return None
    texts = [str(part) for part in parts]
    return texts[0] if len(texts) == 1 else json.dumps(texts, separators=(",", ":"))


def _holds(left: Any, op: str, right: Any) -> bool:
    if left is None or right is None:
        return False
    return bool(left == right if op == "=" else left > right)


def fit(value: Any, scalar: str) -> Any:
    """Return a value as it is stored.

    Raises:
        MisfitError: it would be another value.
    """
    if value is None or scalar == "String":
        return value
    if scalar == "I32":
        if value != int(value) or not -(2**31) <= value < 2**31:
            raise MisfitError(value)
        return int(value)
    try:
        stored = (
            struct.unpack("<f", struct.pack("<f", value))[0] if scalar == "F32" else float(value)
        )
    except OverflowError:
        raise MisfitError(value) from None
    if isinstance(value, int) and int(stored) != value:
        raise MisfitError(value)
    return stored


def query_text(types: dict[str, Type], statements: list[Statement]) -> tuple[str, dict[str, Any]]:
    """Return the query that means the statements; values travel as parameters."""
    params: dict[str, Any] = {}
    declared: list[str] = []
    numbers = itertools.count()

    def put(value: Any, scalar: str) -> str:
        name = f"p{next(numbers)}"
        params[name] = value
        given = {int: "I64", float: "F64"}.get(type(value), scalar)
        declared.append(f"${name}: {given}?")
        return f"${name}"

    def one(statement: Statement, props: dict[str, str]) -> str:
        scalars = {"from": "String", "to": "String"} | props
        given = ", ".join(f"{n}: {put(v, scalars[n])}" for n, v in statement.values.items())
        where = " and ".join(f"{n} {op} {put(v, scalars[n])}" for n, op, v in statement.where)
        match statement.kind:
            case "insert":
                return f"insert {statement.type} {{ {given} }}"
            case "update":
                return f"update {statement.type} set {{ {given} }} where {where}"
            case "delete":
                return f"delete {statement.type} where {where}"

    lines = [one(statement, types[statement.type].props) for statement in statements]
    return f"query m({', '.join(declared)}) {{ {' '.join(lines)} }}", params
