"""A YAML mapping read key by key: every wrong value is refused with its place.

Knows YAML, places and kinds of values; not which keys there are. Scalars are taken as they are
written, so that a branch called `2026-04-25` is text and not a date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from omnigraph.compiler.diagnostics import Diagnostic, Phase, Severity, did_you_mean, place, render
from omnigraph.compiler.source import Source, Span
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from yaml.nodes import Node

CODE = "config"
_NULL, _BOOL, _INT, _FLOAT = (
    f"tag:yaml.org,2002:{word}" for word in ("null", "bool", "int", "float")
)

Choice = TypeVar("Choice", bound=str)
T = TypeVar("T")
D = TypeVar("D")
Value = str | int | float | bool | None
"""A scalar as JSON has it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about one place of the file."""

    source: Source
    found: Diagnostic

    def render(self, *, color: bool = False) -> str:
        """Return a block with the source line and a caret."""
        return render(self.source, self.found, color=color)


class ConfigError(BadRequestError):
    """The settings file says something that cannot be."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        found = problem.found
        super().__init__(f"{place(problem.source, found.span)}: {found.message}", hint=found.hint)

    def render(self, *, color: bool = False) -> str:
        """Return a block with the source line and a caret."""
        return self.problem.render(color=color)


@dataclass(slots=True)
class Document:
    """One file; collects warnings about what it says in vain."""

    source: Source
    warnings: list[Problem] = field(default_factory=list)

    def refuse(self, message: str, span: Span | None, hint: str | None = None) -> ConfigError:
        """Return the error that a place of the file is wrong."""
        return ConfigError(Problem(self.source, Diagnostic(CODE, Phase.PARSE, message, span, hint)))

    def warn(self, message: str, node: Node, hint: str | None) -> None:
        """Keep a warning about a place of the file."""
        found = Diagnostic(CODE, Phase.PARSE, message, span_of(node), hint, Severity.WARNING)
        self.warnings.append(Problem(self.source, found))

    def root(self) -> Section:
        """Parse the file; its outermost value is a mapping, or nothing at all.

        Raises:
            ConfigError: it is not YAML, or not a mapping.
        """
        import yaml  # only who has a settings file pays for the library

        try:
            node = yaml.compose(self.source.text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            span = None if mark is None else Span(mark.index, mark.index + 1)
            what = error.problem or error.context
            raise self.refuse(f"not valid YAML: {what}", span) from None
        except yaml.reader.ReaderError as error:
            span = Span(error.position, error.position + 1)
            raise self.refuse(f"not valid YAML: {error.reason}", span) from None
        except RecursionError:
            raise self.refuse("not valid YAML: nested too deeply", Span(0, 1)) from None
        return Section(self, "", None if node is None or node.tag == _NULL else node)


class Section:
    """A mapping of the file. Keys are taken out one by one; `finish` looks at what is left."""

    def __init__(
        self, document: Document, path: str, node: Node | None, above: Node | None = None
    ) -> None:
        self._document = document
        self._path = path
        self.node = node
        self._near = above if node is None else node
        self._asked: list[str] = []
        self._values = dict(self._entries())

    def _entries(self) -> Iterator[tuple[str, tuple[Node, Node]]]:
        if self.node is None:
            return
        if not isinstance(self.node.value, list) or _kind(self.node) != "mapping":
            raise self._document.refuse(
                f"`{self._path or 'the file'}` must be a mapping of names to values",
                span_of(self.node),
            )
        seen: set[str] = set()
        for key, value in self.node.value:
            is_word = isinstance(key.value, str)  # an empty one too: columns may be called so
            name = key.value if is_word else ""
            if not is_word or name in seen:
                what = f"`{self.join(name)}` is given twice" if is_word else "a key must be a word"
                raise self._document.refuse(what, span_of(key))
            seen.add(name)
            yield name, (key, value)

    def join(self, key: str) -> str:
        """Return the full name of a key."""
        return f"{self._path}.{key}" if self._path else key

    def names(self) -> list[str]:
        """Return the keys that are there, as they are written."""
        return list(self._values)

    def refuse(self, message: str, key: str | None = None, hint: str | None = None) -> ConfigError:
        """Return the error that something here is wrong: at a key, or else as a whole."""
        entry = None if key is None else self._values.get(key)
        return self._document.refuse(message, span_of(entry[1] if entry else self._near), hint)

    def close(self) -> None:
        """Refuse keys nobody asked for, where one that is passed over could cost safety.

        Raises:
            ConfigError: there is such a key.
        """
        for name, (key, _) in self._values.items():
            if name not in self._asked:
                hint = did_you_mean(name, self._asked) or f"it has {', '.join(self._asked)}"
                raise self._document.refuse(f"unknown key `{self.join(name)}`", span_of(key), hint)

    def items(self, key: str) -> list[Section]:
        """Return the mappings that a list holds."""
        node = self._take(key)
        if node is None:
            return []
        if _kind(node) != "sequence":
            text = f"`{self.join(key)}` must be a list"
            raise self._document.refuse(text, span_of(node))
        return [
            Section(self._document, f"{self.join(key)}[{at}]", item)
            for at, item in enumerate(node.value)
        ]

    def filled(self, key: str, message: str, hint: str | None = None) -> str:
        """Return a scalar that must be there and say something, trimmed; `message` says so."""
        node = self._take(key)
        text = str(node.value).strip() if node is not None and _kind(node) == "scalar" else ""
        if not text:
            raise self._document.refuse(
                message, span_of(self._near if node is None else node), hint
            )
        return text

    def flag(self, key: str) -> bool:
        """Return a yes or no; no is assumed."""
        return self.maybe_choice(key, ("true", "false")) == "true"

    def section(self, key: str) -> Section:
        """Return a mapping below this one; empty when it is not there."""
        return Section(self._document, self.join(key), self._take(key), self._near)

    def sections(self, key: str) -> dict[str, Section]:
        """Return the mappings below a key by name, sorted."""
        below = self.section(key)
        return {name: below.section(name) for name in sorted(below._values)}

    def text(self, key: str) -> str | None:
        """Return a scalar as it is written."""
        node = self._take(key)
        return None if node is None else self._scalar(key, node)

    def required(self, key: str) -> str:
        """Return a scalar that must be there."""
        found = self.text(key)
        if found is None:
            raise self._document.refuse(f"`{self.join(key)}` is missing", span_of(self.node))
        return found

    def texts(
        self, key: str, *, blank: str | None = None, any_text: bool = False
    ) -> tuple[str, ...]:
        """Return a list of scalars; one scalar is a list of one.

        `blank` refuses empty ones in its own words; with `any_text` they are texts like others.
        """
        node = self._take(key)
        if node is None:
            return ()
        if _kind(node) == "sequence":
            if any_text and all(_kind(item) == "scalar" for item in node.value):
                return tuple(str(item.value) for item in node.value)
            for item in node.value if blank is not None else ():
                if _kind(item) == "scalar" and not item.value.strip():
                    raise self._document.refuse(blank or "", span_of(item))
            return tuple(self._scalar(key, item) for item in node.value)
        return (self._scalar(key, node),)

    def integer(self, key: str, default: int, minimum: int) -> int:
        """Return a whole number of at least `minimum`."""
        node = self._take(key)
        if node is None:
            return default
        text = self._scalar(key, node)
        if not text.isascii() or not text.isdecimal() or int(text) < minimum:
            raise self._document.refuse(
                f"`{self.join(key)}` must be a whole number of at least {minimum}", span_of(node)
            )
        return int(text)

    def parsed(self, key: str, parse: Callable[[str, str], T], default: D) -> T | D:
        """Return what a text means; `parse` gets it with the name of the key, and may refuse it."""
        node = self._take(key)
        if node is None:
            return default
        try:
            return parse(self._scalar(key, node), f"`{self.join(key)}`")
        except BadRequestError as error:
            raise self._document.refuse(error.message, span_of(node), error.hint) from None

    def choice(self, key: str, allowed: Sequence[Choice], default: Choice) -> Choice:
        """Return one of the allowed words."""
        return self.maybe_choice(key, allowed) or default

    def required_choice(self, key: str, allowed: Sequence[Choice]) -> Choice:
        """Return one of the allowed words; it must be there."""
        found = self.maybe_choice(key, allowed)
        if found is None:
            raise self._document.refuse(
                f"`{self.join(key)}` is missing", span_of(self.node), f"use {', '.join(allowed)}"
            )
        return found

    def maybe_choice(self, key: str, allowed: Sequence[Choice]) -> Choice | None:
        """Return one of the allowed words, or None."""
        node = self._take(key)
        if node is None:
            return None
        text = self._scalar(key, node)
        for word in allowed:
            if word == text:
                return word
        raise self._document.refuse(
            f"`{self.join(key)}` cannot be `{text}`", span_of(node), f"use {', '.join(allowed)}"
        )

    def values(self, key: str) -> dict[str, Value | list[Value]]:
        """Return a mapping of names to JSON scalars or lists of them."""
        below = self.section(key)
        return {name: below._value(name, node) for name, (_, node) in below._values.items()}

    def all_texts(self, key: str) -> dict[str, str]:
        """Return a mapping of names to scalars as they are written."""
        below = self.section(key)
        return {name: below._scalar(name, node) for name, (_, node) in below._values.items()}

    def finish(self, renamed: Mapping[str, str]) -> None:
        """Warn about every key nobody asked for; `renamed` names what replaced old ones."""
        for name, (key, _) in self._values.items():
            if name in self._asked:
                continue
            if name in renamed:
                hint: str | None = f"write `{self.join(renamed[name])}`"
            else:
                hint = did_you_mean(name, self._asked)
            message = f"`{self.join(name)}` is not a setting and is ignored"
            self._document.warn(message, key, hint)

    def _take(self, key: str) -> Node | None:
        self._asked.append(key)
        entry = self._values.get(key)
        return None if entry is None or entry[1].tag == _NULL else entry[1]

    def _scalar(self, key: str, node: Node) -> str:
        if _kind(node) != "scalar" or node.tag == _NULL or not node.value.strip():
            raise self._document.refuse(
                f"`{self.join(key)}` must be one word or text", span_of(node)
            )
        return str(node.value)

    def _value(self, key: str, node: Node) -> Value | list[Value]:
        if _kind(node) == "sequence":
            return [self._plain(key, item) for item in node.value]
        return self._plain(key, node)

    def _plain(self, key: str, node: Node) -> Value:
        if _kind(node) != "scalar":
            raise self._document.refuse(
                f"`{self.join(key)}` must be a value or a list", span_of(node)
            )
        text = str(node.value)
        match node.tag:
            case tag if tag == _NULL:
                return None
            case tag if tag == _BOOL:
                return text.lower() in ("true", "yes", "on")
            case tag if tag == _INT and text.lstrip("-").isdecimal() and text == str(int(text)):
                return int(text)
            case tag if tag == _FLOAT:
                try:
                    return float(text)
                except ValueError:
                    return text
            case _:
                return text


def span_of(node: Node | None) -> Span | None:
    """Return the place of a value; None is the whole file."""
    if node is None:
        return None
    start, end = node.start_mark, node.end_mark
    # A value of many lines is pointed at where it begins.
    return Span(start.index, end.index if end.line == start.line else start.index + 1)


def _kind(node: Node) -> str:
    """Return `scalar`, `sequence` or `mapping`; the library's stubs do not list the attribute."""
    return str(node.id)  # type: ignore[attr-defined] # every node class has it
