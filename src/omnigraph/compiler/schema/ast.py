"""The syntax tree of a schema: what the text says, nothing resolved.

Equality ignores places and the choice between equivalent spellings: an inline `@key` is the
one-column body constraint, `@embed(title)` is `@embed("title")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from omnigraph.compiler.source import Span
from omnigraph.compiler.types import PropType

Form = Literal["string", "literal", "word", "call"]
"""A quoted text, a number or truth value, a bare word, `now()`."""


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier where it is written."""

    text: str
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name(value, key = value…)`; words, strings and numbers are all kept as text."""

    name: str
    value: str | None
    kwargs: tuple[tuple[str, str], ...]
    span: Span = field(compare=False)
    form: Form = field(default="string", compare=False)
    """How the value is written, which only `@default` and `@backfill` care about."""


@dataclass(frozen=True, slots=True)
class Key:
    """The columns whose values name a row; their order is part of the meaning."""

    columns: tuple[Name, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unique:
    """No two rows agree on all these columns."""

    columns: tuple[Name, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """These columns are looked up often."""

    columns: tuple[Name, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of a number; None is open."""

    prop: Name
    min: int | float | None
    max: int | float | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """A pattern that must be found in the text of a property."""

    prop: Name
    pattern: str
    span: Span = field(compare=False)


ColumnsConstraint = Key | Unique | Index
Constraint = Key | Unique | Index | Range | Check


@dataclass(frozen=True, slots=True)
class Property:
    """`name: type` with the annotations that are kept; constraints live on the declaration."""

    name: Name
    type: PropType
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Cardinality:
    """`@card(min..max)`: edges per source node; None is unbounded."""

    min: int = 0
    max: int | None = None


@dataclass(frozen=True, slots=True)
class InterfaceDecl:
    """Properties that node types share; `constraints` come from its properties' suffixes."""

    name: Name
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...] = ()
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDecl:
    """A node type as written, before its interfaces' properties are added."""

    name: Name
    annotations: tuple[Annotation, ...]
    implements: tuple[Name, ...]
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class EdgeDecl:
    """An edge type as written."""

    name: Name
    from_type: Name
    to_type: Name
    cardinality: Cardinality
    annotations: tuple[Annotation, ...]
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...]


Declaration = InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True)
class SchemaAst:
    """The declarations of one file in source order."""

    declarations: tuple[Declaration, ...]

    def interfaces(self) -> Iterator[InterfaceDecl]:
        """Yield the interfaces in source order."""
        return (found for found in self.declarations if isinstance(found, InterfaceDecl))

    def nodes(self) -> Iterator[NodeDecl]:
        """Yield the node types in source order."""
        return (found for found in self.declarations if isinstance(found, NodeDecl))

    def edges(self) -> Iterator[EdgeDecl]:
        """Yield the edge types in source order."""
        return (found for found in self.declarations if isinstance(found, EdgeDecl))


@dataclass(frozen=True, slots=True)
class Unread:
    """Names that declarations which could not be read may give; `anything` when unknown."""

    names: frozenset[str] = frozenset()
    anything: bool = False

    def may_declare(self, name: str) -> bool:
        """Whether a name that was not found may be in the unread part."""
        return self.anything or name in self.names
