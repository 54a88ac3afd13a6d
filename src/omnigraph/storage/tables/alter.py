"""Changing the columns of a table without touching a row: one transaction, metadata alone.

Lance's schema is edited in its own protobuf form, because only there columns keep their numbers:
a number names a column in every file that was ever written. A new column gets a number that no
file of the table has, so it is null in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from lance import LanceOperation

from omnigraph.errors import InternalError
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.protobuf import NUMBER, Field, decode, encode

# Tags of the message `lance.file.Field`.
_NAME, _NUMBER, _PARENT, _NULLABLE = 2, 3, 4, 6
_TOP = 2**64 - 1
"""The parent of a column that is in no other: -1, as protobuf writes it."""


@dataclass(frozen=True, slots=True)
class Alter:
    """Give columns other names, take some away, add some that are null, let some be null."""

    rename: Mapping[str, str] = field(default_factory=dict)
    """Old names to new ones."""
    drop: tuple[str, ...] = ()
    add: tuple[pa.Field, ...] = ()
    relax: tuple[str, ...] = ()
    """Columns, by their old names, in which null is allowed from now on."""
    order: tuple[str, ...] = ()
    """All columns, by their new names, in the order they are to have; as it comes if empty."""

    @property
    def is_empty(self) -> bool:
        """Whether the columns stay as they are."""
        return not (self.rename or self.drop or self.add or self.relax)


def alter_operation(base: Handle, change: Alter) -> LanceOperation.BaseOperation:
    """Return the operation that changes the columns of a table.

    `Project` does not look whether the number of a new column is in some file already, and would
    then show what a dropped column held: numbers are chosen so that none is. `Merge` would look,
    but can neither let a column be null nor give one the name another one had.
    """
    dataset = base.dataset
    require_columns(dataset.schema.names, change, base)
    with lance_errors(f"changing the columns of {base}"):
        return LanceOperation.Project(edited(dataset.lance_schema, dataset.max_field_id, change))


def require_columns(known: Sequence[str], change: Alter, base: Handle) -> None:
    """Refuse what columns cannot become: whoever asks for it has not looked at them."""
    missing = {*change.rename, *change.drop, *change.relax} - {*known}
    after = [change.rename.get(name, name) for name in known if name not in change.drop]
    after += [column.name for column in change.add]
    required = [column.name for column in change.add if not column.nullable]
    if missing or required or len({*after}) != len(after):
        raise InternalError(
            f"{base} cannot be altered: it has {known}, lacks {sorted(missing)}, "
            f"would have {after}, of which {required} would be required without values"
        )


def edited(schema: Any, newest: int, change: Alter) -> Any:  # noqa: ANN401 - Lance's own class
    """Return a schema with every column that stays under the number it has.

    Args:
        schema: as it is now.
        newest: the highest number that any file of the table has.
        change: of its columns.
    """
    make, (metadata, *stored) = schema.__reduce__()
    columns = [decode(bytes(one)) for one in stored]
    gone = _numbers_below(columns, change.drop)
    kept = [_changed(one, change) for one in columns if _value(one, _NUMBER) not in gone]
    fresh = type(schema).from_pyarrow(pa.schema(list(change.add)))
    _, (_, *added) = fresh.__reduce__()
    kept += [_renumbered(decode(bytes(one)), newest + 1) for one in added]
    return make(metadata, *map(encode, _ordered(kept, change.order)))


def _ordered(columns: list[list[Field]], order: Sequence[str]) -> list[list[Field]]:
    """Return columns in an order, each with what is nested in it right behind it."""
    groups: list[list[list[Field]]] = []
    for one in columns:
        if _is_top(one):
            groups.append([])
        groups[-1].append(one)
    places = {name: place for place, name in enumerate(order)}
    groups.sort(key=lambda group: places.get(_name(group[0]), len(places)))
    return [one for group in groups for one in group]


def _changed(column: list[Field], change: Alter) -> list[Field]:
    if not _is_top(column):
        return column
    name = _name(column)
    if name in change.relax:
        column = _with(column, _NULLABLE, 1)
    if name in change.rename:
        column = _with(column, _NAME, change.rename[name].encode())
    return column


def _renumbered(column: list[Field], start: int) -> list[Field]:
    """Return a column of a new schema, counted from a number on."""
    moved = _with(column, _NUMBER, _number(column, _NUMBER) + start)
    return moved if _is_top(column) else _with(moved, _PARENT, _number(column, _PARENT) + start)


def _numbers_below(columns: list[list[Field]], names: Iterable[str]) -> set[int]:
    """Return the numbers of columns and of everything nested in them; parents come first."""
    wanted = set(names)
    found: set[int] = set()
    for one in columns:
        inside = not _is_top(one) and _number(one, _PARENT) in found
        if inside or (_is_top(one) and _name(one) in wanted):
            found.add(_number(one, _NUMBER))
    return found


def _is_top(column: list[Field]) -> bool:
    return _value(column, _PARENT) == _TOP


def _name(column: list[Field]) -> str:
    found = _value(column, _NAME)
    assert isinstance(found, bytes), column
    return found.decode()


def _number(column: list[Field], tag: int) -> int:
    found = _value(column, tag)
    assert isinstance(found, int), column
    return found


def _value(column: list[Field], tag: int) -> int | bytes:
    """Return a field of a message; what is not written is 0."""
    return next((value for known, _, value in column if known == tag), 0)


def _with(column: list[Field], tag: int, value: int | bytes) -> list[Field]:
    others = [one for one in column if one[0] != tag]
    wire = NUMBER if isinstance(value, int) else 2
    return sorted([*others, (tag, wire, value)], key=lambda one: one[0])
