"""The one type of finding: code, severity, message, place, hint; as text and as JSON.

Colour is decided by the caller: this module emits ANSI codes only when asked to, and never
looks at a terminal.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from omnigraph.compiler.source import Source, Span
from omnigraph.errors import CompileError


class Severity(StrEnum):
    """How bad a finding is; only errors stop compilation."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Phase(StrEnum):
    """Which pass found it; the first word of the one-line form."""

    PARSE = "parse"
    CATALOG = "catalog"
    TYPE = "type"
    PLAN = "plan"
    LINT = "lint"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about one place in one source text."""

    code: str
    phase: Phase
    message: str
    span: Span | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def headline(self) -> str:
        """Return the one-line form, for example `type error: T6: …`."""
        return f"{self.phase} {self.severity}: {self.code}: {self.message}"


class DiagnosticsError(CompileError):
    """Compilation stopped; `diagnostics` holds every finding, errors first in source order."""

    def __init__(self, source: Source, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(
            replace(one, span=source.to_written(one.span)) for one in diagnostics
        )
        self.source = source = source.written or source
        first = self.diagnostics[0]
        more = len(self.diagnostics) - 1
        where = place(source, first.span)
        text = f"{where}: {first.headline()}" + (f" (and {more} more)" if more else "")
        super().__init__(text, hint=first.hint)

    def render(self, *, color: bool = False) -> str:
        """Return every finding as a block with its source line and caret."""
        return "\n\n".join(render(self.source, found, color=color) for found in self.diagnostics)

    def to_json(self) -> list[dict[str, Any]]:
        """Return every finding as JSON-ready objects."""
        return [to_json(self.source, found) for found in self.diagnostics]


@dataclass(slots=True)
class DiagnosticList:
    """Collects diagnostics of one source text, so that one run reports them all."""

    source: Source
    items: list[Diagnostic] = field(default_factory=list)

    def add(self, found: Diagnostic) -> None:
        """Keep a finding."""
        self.items.append(found)

    @property
    def has_errors(self) -> bool:
        """Whether any kept finding is an error."""
        return any(found.severity is Severity.ERROR for found in self.items)

    def raise_if_errors(self) -> None:
        """Raise `DiagnosticsError` with all errors, in source order."""
        errors = [found for found in self.items if found.severity is Severity.ERROR]
        if errors:
            errors.sort(key=lambda found: found.span.start if found.span else -1)
            raise DiagnosticsError(self.source, errors)


def place(source: Source, span: Span | None) -> str:
    """Return `name:line:column`, or just the name when the place is the whole text."""
    if span is None:
        return source.name
    at = source.position(span.start)
    return f"{source.name}:{at.line}:{at.column}"


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint that names the closest known word, or None when nothing is close.

    >>> did_you_mean("agee", ["name", "age"])
    'did you mean `age`?'
    """
    close = closest(word, known)
    return None if close is None else f"did you mean `{close}`?"


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like another one, or None when nothing is close."""
    folded: dict[str, str] = {}
    for name in known:
        folded.setdefault(name.lower(), name)
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


_STYLES = {
    Severity.ERROR: "\x1b[1;31m",
    Severity.WARNING: "\x1b[1;33m",
    Severity.INFO: "\x1b[1;36m",
}
_BOLD, _BLUE, _GREEN, _OFF = "\x1b[1m", "\x1b[1;34m", "\x1b[1;32m", "\x1b[0m"
_MAX_LINE = 160


def render(source: Source, found: Diagnostic, *, color: bool = False) -> str:
    """Return the block form: headline, place, source line with caret, hint."""

    def paint(style: str, text: str) -> str:
        return f"{style}{text}{_OFF}" if color else text

    head = paint(_STYLES[found.severity], f"{found.severity}[{found.code}]")
    lines = [f"{head}{paint(_BOLD, ': ' + found.message)}"]
    if found.span is None:
        lines.append(f" {paint(_BLUE, '-->')} {source.name}")
    else:
        at = source.position(found.span.start)
        text, column = _window(source.line(at.line), at.column)
        width = max(1, min(found.span.end - found.span.start, len(text) - column + 1))
        gutter = " " * len(str(at.line))
        # A tab must stay a tab under the caret, or the caret points elsewhere.
        lead = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
        lines += [
            f"{gutter}{paint(_BLUE, '-->')} {source.name}:{at.line}:{at.column}",
            f"{gutter} {paint(_BLUE, '|')}",
            f"{paint(_BLUE, f'{at.line} |')} {text}",
            f"{gutter} {paint(_BLUE, '|')} {lead}{paint(_STYLES[found.severity], '^' * width)}",
        ]
    if found.hint is not None:
        lines.append(f"  {paint(_GREEN, 'hint')}: {found.hint}")
    return "\n".join(lines)


def _window(line: str, column: int) -> tuple[str, int]:
    """Cut a very long line to a readable part around `column`; control characters become `·`."""
    start = 0 if len(line) <= _MAX_LINE else max(0, column - _MAX_LINE // 2)
    part = line[start : start + _MAX_LINE]
    clean = "".join(char if char == "\t" or char.isprintable() else "·" for char in part)
    return clean, column - start


def to_json(source: Source, found: Diagnostic) -> dict[str, Any]:
    """Return the JSON form; spans are UTF-8 byte offsets, widened to one byte when empty."""
    out: dict[str, Any] = {
        "code": found.code,
        "severity": str(found.severity),
        "phase": str(found.phase),
        "message": found.message,
        "file": source.name,
    }
    if found.span is not None:
        at = source.position(found.span.start)
        start = source.byte_offset(found.span.start)
        end = max(start + 1, source.byte_offset(found.span.end))
        out |= {"line": at.line, "column": at.column, "span": {"start": start, "end": end}}
    if found.hint is not None:
        out["hint"] = found.hint
    return out
