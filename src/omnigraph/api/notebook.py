"""What notebooks show: tables and fixed-width texts as HTML, everything escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

SHOWN_ROWS = 50


class FixedText(str):
    """A text whose lines and columns matter; a notebook shows it as it is."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def table_html(head: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a table of texts, with a line below it."""
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{below}"


def count_note(total: int, shown: int, what: str) -> str:
    """Return how many there are, and how many of them are left out.

    >>> count_note(60, 50, "rows")
    '60 rows, 10 not shown'
    """
    more = f", {total - shown} not shown" if total > shown else ""
    return f"{total} {what}{more}"
