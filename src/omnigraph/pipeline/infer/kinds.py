"""What is seen of each type while files are read: its columns, its ids, its ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.compiler.types import Scalar
from omnigraph.pipeline.infer.guess import Seen
from omnigraph.pipeline.model import InputError

_ID = "id"
_ENDS = (("from", "to"), ("src", "dst"), ("source", "target"))
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


@dataclass(slots=True)
class SeenKind:
    """One node or edge type as far as it was seen."""

    name: str
    is_edge: bool
    is_flat: bool
    """Whether its rows come without a frame, so that a mapping can name their columns anew."""
    rows: int = 0
    columns: dict[str, Seen] = field(default_factory=dict)
    widths: dict[str, Scalar] = field(default_factory=dict)
    id_column: str | None = None
    end_columns: tuple[str, str] | None = None
    ends: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    equal_ids: set[str] | None = None
    """The columns that say the same as the id in every row that has one."""
    ids_are_ulids: bool = True
    files: list[Path] = field(default_factory=list)

    def add_columns(self, names: Iterable[str], *, is_text: bool = False) -> None:
        """Take note of columns, of which there may be no rows, and of what they are for."""
        names = list(names)
        if self.is_edge and self.end_columns is None and self.is_flat:
            self.end_columns = ends_among(names)
        for name in names:
            if name not in self.columns and name not in (self.end_columns or ()):
                self.columns[name] = Seen(rows=self.rows, is_text=is_text)
        if self.id_column is None:
            found = [name for name in self.columns if name.strip().lower() == _ID]
            self.id_column = next((one for one in found if one == _ID), next(iter(found), None))

    def add_ends(self, start: object, end: object) -> None:
        """Take note of the ids an edge leads from and to."""
        for ids, value in zip(self.ends, (start, end), strict=True):
            if value is not None:
                ids.add(str(value))

    def add(self, row: Mapping[str, Any], *, is_text: bool = False) -> None:
        """Look at one row."""
        self.add_columns(row, is_text=is_text)
        self.rows += 1
        if self.end_columns is not None:
            self.add_ends(*(row.get(name) for name in self.end_columns))
        for name, seen in self.columns.items():
            seen.add(row.get(name), is_text=is_text)
        own = None if self.id_column is None else row.get(self.id_column)
        if own is not None:
            self._add_id(str(own), row)

    def _add_id(self, own: str, row: Mapping[str, Any]) -> None:
        among = self.columns if self.equal_ids is None else self.equal_ids
        ends = self.end_columns or ()
        self.equal_ids = {
            name
            for name in among
            if name != self.id_column and name not in ends and str(row.get(name)) == own
        }
        self.ids_are_ulids = self.ids_are_ulids and _ULID.fullmatch(own) is not None

    @property
    def ids(self) -> Seen | None:
        """What was seen of the ids."""
        return None if self.id_column is None else self.columns[self.id_column]


class SeenKinds(dict[str, SeenKind]):
    """All types that were seen, by name."""

    def named(self, name: str, *, is_edge: bool, is_flat: bool, path: Path) -> SeenKind:
        """Return a type, new if it was not seen before.

        Raises:
            InputError: it was seen as something else.
        """
        found = self.setdefault(name, SeenKind(name, is_edge, is_flat))
        if found.is_edge != is_edge:
            raise InputError(f"'{name}' is a node in one place and an edge in another")
        if found.is_flat != is_flat:
            raise InputError(
                f"rows of '{name}' have a frame in one place and none in another",
                hint="look at those files one by one",
            )
        if is_flat and path not in found.files:
            found.files.append(path)
        return found


def ends_among(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the columns that say where edges begin and end, by their usual names."""
    by_word: dict[str, str] = {}
    for name in names:
        by_word.setdefault(name.strip().lower(), name)
    pair = next((pair for pair in _ENDS if pair[0] in by_word and pair[1] in by_word), None)
    return None if pair is None else (by_word[pair[0]], by_word[pair[1]])
