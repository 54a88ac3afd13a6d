"""Changes as lines for people, and as CSV. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from omnigraph.cli.formats import CONTROLS, cell, csv_cell

if TYPE_CHECKING:
    from omnigraph.api.changes import ChangeSummary, EntityBlame, EntityChange, EntityVersion
    from omnigraph.api.history import GraphCommit

_SIGNS = {"insert": ("+", "\x1b[32m"), "update": ("~", "\x1b[33m"), "delete": ("-", "\x1b[31m")}
_OFF = "\x1b[0m"
_LONGEST = 60
_SYSTEM = ("id", "src", "dst")
_CSV = ("op", "table_key", "id", "src", "dst", "changed")


def change_line(change: EntityChange, *, color: bool) -> str:
    """Return `~ Person ada  age 36 → 37`."""
    ends = change.endpoints
    name = change.id if ends is None else f"{change.id} ({ends.src} → {ends.dst})"
    line = f"{change.type_name} {_safe(name)}"
    told = _values(change)
    return _signed(change.op, f"{line}  {told}" if told else line, color=color)


def version_line(version: EntityVersion, *, color: bool) -> str:
    """Return when, by which commit and by whom a node or edge became what, and in what."""
    return f"{_commit(version.commit)}  {_signed(version.op, _values(version), color=color)}"


def blame_lines(found: EntityBlame) -> Iterator[str]:
    """Yield a line per property: its name, its value, and the commit that brought it."""
    names = [one.name for one in found.properties]
    values = [_value(one.value) for one in found.properties]
    width, wide = max(map(len, names), default=0), max(map(len, values), default=0)
    for name, value, one in zip(names, values, found.properties, strict=True):
        yield f"{name.ljust(width)}  {value.ljust(wide)}  {_commit(one.commit)}"


def stat_lines(summary: ChangeSummary) -> Iterator[str]:
    """Yield a line per type, and the sum."""
    width = max((len(one.table_key) for one in summary.types), default=0)
    for one in summary.types:
        yield f"{one.table_key.ljust(width)}  +{one.inserts} ~{one.updates} -{one.deletes}"
    stats = summary.stats
    yield f"{stats.inserts} inserted, {stats.updates} updated, {stats.deletes} deleted"


def csv_lines(changes: Iterable[EntityChange]) -> Iterator[str]:
    """Yield a line of titles and one per change."""
    yield ",".join(_CSV)
    for one in changes:
        ends = ("", "") if one.endpoints is None else (one.endpoints.src, one.endpoints.dst)
        cells = (one.op, one.table_key, one.id, *ends, " ".join(one.changed))
        yield ",".join(map(csv_cell, cells))


def _signed(op: str, text: str, *, color: bool) -> str:
    sign, paint = _SIGNS[op]
    return f"{paint}{sign} {text}{_OFF}" if color else f"{sign} {text}".rstrip()


def _values(change: EntityChange | EntityVersion) -> str:
    before, after = change.before or {}, change.after or {}
    if change.op == "update":
        return ", ".join(
            f"{name} {_value(before.get(name))} → {_value(after.get(name))}"
            for name in change.changed
        )
    return " ".join(
        f"{name} {_value(value)}"
        for name, value in (after or before).items()
        if name not in _SYSTEM and value is not None
    )


def _value(value: object) -> str:
    text = _safe(cell(value) if not isinstance(value, str) else f'"{value}"')
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _safe(text: str) -> str:
    return text.translate(CONTROLS)


def _commit(commit: GraphCommit) -> str:
    when = datetime.fromtimestamp(commit.created_at / 1e6, UTC)
    who = f" {commit.actor_id}" if commit.actor_id else ""
    return f"{when:%Y-%m-%d %H:%M:%S} {commit.graph_commit_id}{who}"
