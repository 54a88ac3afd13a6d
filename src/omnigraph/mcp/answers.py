"""Answers as one compact text each, never longer than a budget allows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from omnigraph.api.changes import EntityChange, values_changed
from omnigraph.api.query import QueryResult

_CELL: Final = 2_000
"""Characters of one cell beside other rows."""
_LEAST_CELL: Final = 40
_HEAD: Final = 400
"""Characters kept for what stands beside columns and rows."""
_SIGNS: Final = {"insert": "+", "update": "~", "delete": "-"}


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one answer may be, and take. A call may ask for less, never for more."""

    rows: int = 50
    chars: int = 20_000
    seconds: float = 20.0

    def tightened(self, rows: int | None) -> Budget:
        """Return the budget of a call that wants so many rows at most."""
        return self if rows is None else replace(self, rows=min(self.rows, rows))


def json_text(value: object) -> str:
    """Return a value as JSON without a space too many."""
    return orjson.dumps(value, default=str).decode()


def one_line(text: str) -> str:
    """Return a text that stays on its line: what is data must not look like another answer."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def clipped(text: str, budget: Budget, note: str = "") -> str:
    """Return a text that fits, with a word on what is missing."""
    if len(text) <= budget.chars:
        return text
    kept = text[: max(0, budget.chars - 80 - len(note))]
    more = f"\n…(+{len(text) - len(kept)} chars"
    return kept + more + (f"; {note})" if note else ")")


def rows_text(
    found: QueryResult, offset: int, budget: Budget, commit: str, cursor: Callable[[int], str]
) -> str:
    """Return rows from an offset on, as many as fit, and where to go on.

    Args:
        found: all rows.
        offset: how many of them were told before.
        budget: what the answer may be.
        commit: what was read.
        cursor: gives the cursor that leads to the next row, by its offset.
    """
    total = len(found)
    room = budget.chars - _HEAD - len(json_text(found.columns))
    rows = _fitting(found, offset, budget, room)
    answer: dict[str, Any] = {"columns": found.columns, "rows": rows, "row_count": total}
    answer["commit"] = commit
    reached = offset + len(rows)
    if reached < total:
        answer |= {"truncated": True, "next_cursor": cursor(reached)}
    return json_text(answer)


def _fitting(found: QueryResult, offset: int, budget: Budget, room: int) -> list[list[Any]]:
    """Return the next rows that fit; the first one always does, whatever it costs its cells."""
    some = QueryResult(found.table.slice(offset, budget.rows)).to_json_rows()
    cap = _CELL if len(some) > 1 else max(_LEAST_CELL, room - _HEAD)
    kept: list[list[Any]] = []
    used = 0
    for row in some:
        values = [_cut(one, cap) for one in row.values()]
        while not kept and len(json_text(values)) > room and cap > _LEAST_CELL:
            cap //= 2
            values = [_cut(one, cap) for one in row.values()]
        used += len(json_text(values)) + 1
        if used > room and kept:
            break
        kept.append(values)
    return kept


def _cut(value: Any, most: int) -> Any:  # noqa: ANN401 - any cell
    """Return a cell as far as it fits; what is cut says so."""
    if isinstance(value, str):
        if len(value) <= most:
            return value
        return f"{value[:most]}…(+{len(value) - most} chars; read one row)"
    if isinstance(value, list) and len(json_text(value)) > most:
        return f"[…] ({len(value)} items; read one row)"
    return value


def change_lines(changes: Iterable[EntityChange]) -> Iterator[str]:
    """Yield one line per node or edge that differs, with its values."""
    for one in changes:
        ends = one.endpoints
        name = one.id if ends is None else f"{one.id} ({ends.src} -> {ends.dst})"
        yield f"{_SIGNS[one.op]} {one.type_name} {name} {_values(one)}".rstrip()


def _values(change: EntityChange) -> str:
    if change.op == "update":
        return ", ".join(
            f"{name}: {_short(before)} -> {_short(after)}"
            for name, before, after in values_changed(change)
        )
    image = change.after or change.before or {}
    told = {name: one for name, one in image.items() if name not in ("id", "src", "dst")}
    return ", ".join(f"{name}: {_short(one)}" for name, one in told.items() if one is not None)


def _short(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def lines_text(
    lines: Sequence[str], budget: Budget, note: str = "", total: int | None = None
) -> str:
    """Return whole lines as far as they fit, and how many of all of them do not."""
    used, kept = 0, 0
    lines = [one_line(line) for line in lines]
    for line in lines:
        if used + len(line) + 1 > budget.chars - _HEAD:
            break
        used, kept = used + len(line) + 1, kept + 1
    text = "\n".join(lines[:kept])
    left = (len(lines) if total is None else total) - kept
    return text if not left else f"{text}\n…(+{left} lines{'; ' + note if note else ''})"
