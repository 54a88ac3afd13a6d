"""A piece of source text: offsets, lines and columns; knows nothing of either grammar."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

MAX_SOURCE_CHARS = 1 << 20
"""Longer texts are refused before parsing: nobody writes them, and errors must stay instant."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of character offsets into one source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of `other`."""
        return Span(self.start, other.end)


@dataclass(frozen=True, slots=True)
class Position:
    """A place as an editor shows it: both numbers start at 1; columns count characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Source:
    """A named text. `name` is what messages call it, usually a path.

    A text may be a frame around what somebody wrote: `written` then is that, `lead` characters in.
    """

    text: str
    name: str = "<input>"
    written: Source | None = None
    lead: int = 0

    def to_written(self, span: Span | None) -> Span | None:
        """Return a place in what was written; what lies in the frame goes to its nearest end."""
        if self.written is None or span is None:
            return span
        end = len(self.written.text)
        start = min(max(span.start - self.lead, 0), end)
        return Span(start, min(max(span.end - self.lead, start), end))

    @cached_property
    def _line_starts(self) -> tuple[int, ...]:
        text = self.text
        starts = [0]
        at = text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        return tuple(starts)

    def position(self, offset: int) -> Position:
        """Return the line and column of a character offset."""
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """Return line `number` (from 1) without its line end."""
        start = self._line_starts[number - 1]
        stop = self.text.find("\n", start)
        return self.text[start : stop if stop >= 0 else len(self.text)].rstrip("\r")

    def byte_offset(self, offset: int) -> int:
        """Return the UTF-8 byte offset of a character offset (what JSON consumers get)."""
        # A str from elsewhere may hold lone surrogates; reporting them must not fail on them.
        return len(self.text[:offset].encode(errors="surrogatepass"))
