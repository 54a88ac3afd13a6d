"""What a name means at a place in a query, and the place where findings go.

One `Context` per query; one `Scope` per clause list. Knows nothing of operators or results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, Phase, did_you_mean
from omnigraph.compiler.query import typed
from omnigraph.compiler.source import Span
from omnigraph.compiler.types import PropType

_EDGE_COLUMNS = ("id", "src", "dst")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A variable whose declaration was already reported: further use says nothing."""


UNKNOWN = Unknown()

VarType = NodeType | EdgeType | Unknown


@dataclass(slots=True)
class Context:
    """Everything one query is checked against."""

    catalog: Catalog
    findings: DiagnosticList
    params: Mapping[str, typed.Param] = field(default_factory=dict)
    broken_params: frozenset[str] = frozenset()
    enums: dict[str, dict[PropType, None]] = field(default_factory=dict)
    """The enums that parameters are compared with, by parameter."""

    def is_param(self, name: str) -> bool:
        """Whether a name is declared in the header, even with a type that was reported."""
        return name in self.params or name in self.broken_params

    def note_enum(self, kind: PropType, other: typed.Scalarish) -> None:
        """Remember that a parameter is compared with an enum, so that its value is checked."""
        if kind.enum_values is None or not isinstance(other, typed.Param):
            return
        self.enums.setdefault(other.name, {})[kind.item().required()] = None

    def report(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Keep an error."""
        self.findings.add(Diagnostic(code, Phase.TYPE, message, span, hint))


@dataclass(slots=True)
class Scope:
    """Variables of a clause list and of those around it.

    `types` holds every variable declared anywhere in the list; `bound` those declared so far,
    because a filter may only use what stands above it. `outer` are the names of the lists around.
    """

    types: dict[str, VarType] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    outer: frozenset[str] = frozenset()

    def inner(self) -> Scope:
        """Return the scope of a negation: everything of this list is visible inside."""
        return Scope(dict(self.types), set(self.types), frozenset(self.types))

    def find(self, name: str) -> VarType | None:
        """Return what a variable is here, if it is bound."""
        return self.types[name] if name in self.bound else None


def column_type(kind: NodeType | EdgeType, name: str) -> PropType | None:
    """Return the type of a property or system column, or None when there is none."""
    declared = kind.properties.get(name)
    if declared is not None:
        return declared.type
    if name == "id" or (name in _EDGE_COLUMNS and isinstance(kind, EdgeType)):
        return typed.ID_TYPE
    return None


def property_hint(name: str, properties: Mapping[str, Property]) -> str:
    """Return a hint for a property that does not exist."""
    close = did_you_mean(name, properties)
    if close is not None:
        return close
    return (
        f"it has {', '.join(f'`{known}`' for known in properties)}" if properties else "it has none"
    )


def variable_hint(name: str, scope: Scope, params: Mapping[str, typed.Param]) -> str:
    """Return a hint for a variable that is not bound; only a bare one may be a parameter."""
    if name in scope.types:
        return f"`${name}` is bound further down; move the filter below that clause"
    close = did_you_mean(f"${name}", [f"${known}" for known in (*scope.types, *params)])
    return close or f"bind it in `match`: `${name}: SomeType`"
