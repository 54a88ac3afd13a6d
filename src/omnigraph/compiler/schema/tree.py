"""Parse trees of single declarations to AST: literals decoded, `@` items sorted out.

Knows the shapes the grammar leaves open (which `@` word takes which arguments, where it may
stand); what the columns and names mean is for `check`. A declaration with any finding here is
left out of the AST, so later passes only see well-formed ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.compiler.diagnostics import DiagnosticList, did_you_mean
from omnigraph.compiler.schema.ast import (
    Annotation,
    Cardinality,
    Constraint,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Name,
    NodeDecl,
    Property,
)
from omnigraph.compiler.schema.items import (
    COLUMN_CONSTRAINTS,
    CONSTRAINT_WORDS,
    Item,
    Reporter,
    children,
    read_annotation,
    read_cardinality,
    read_constraint,
    read_item,
    token_span,
)
from omnigraph.compiler.types import MAX_VECTOR_DIM, PropType, Scalar

if TYPE_CHECKING:
    from lark import Token, Tree

_SCALARS = {scalar.value: scalar for scalar in Scalar}
_HEADER_ONLY_ON_PROPERTIES = frozenset({"key", "unique", "index", "embed"})


def read_declaration(tree: Tree[Any], findings: DiagnosticList) -> Declaration | None:
    """Return the declaration of a parse tree; None only together with findings."""
    reader = _Reader(Reporter(findings))
    match str(tree.data):
        case "interface":
            return reader.interface(tree)
        case "node":
            return reader.node(tree)
        case _:
            return reader.edge(tree)


@dataclass(frozen=True, slots=True)
class _Body:
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reader:
    report: Reporter

    def interface(self, tree: Tree[Any]) -> InterfaceDecl:
        _, name, *items, body = children(tree)
        annotations = self.header(items, "interface")
        members = self.body(body, "interface")
        return InterfaceDecl(_name(name), members.properties, members.constraints, annotations)

    def node(self, tree: Tree[Any]) -> NodeDecl | None:
        _, name, *items, implements, body = children(tree)
        annotations = self.header(items, "node")
        interfaces: tuple[Name, ...] = ()
        if implements is not None:
            word, *names = children(implements)
            if word != "implements":
                close = did_you_mean(word, ["implements"])
                self.report(
                    "P010",
                    f"unexpected `{word}`, expected `implements`, `@` or `{{`",
                    token_span(word),
                    close,
                )
                return None
            interfaces = tuple(_name(found) for found in names)
        members = self.body(body, "node")
        return NodeDecl(
            _name(name), annotations, interfaces, members.properties, members.constraints
        )

    def edge(self, tree: Tree[Any]) -> EdgeDecl:
        _, name, source, target, *items, body = children(tree)
        cardinality = Cardinality()
        first = items[0] if items else None
        if first is not None and children(first)[1] == "card":
            items = items[1:]
            item = read_item(first, self.report)
            cardinality = (item and read_cardinality(item, self.report)) or cardinality
        annotations = self.header(items, "edge")
        members = _Body() if body is None else self.body(body, "edge")
        return EdgeDecl(
            _name(name),
            _name(source),
            _name(target),
            cardinality,
            annotations,
            members.properties,
            members.constraints,
        )

    def header(self, items: Iterable[Tree[Any]], kind: str) -> tuple[Annotation, ...]:
        """Read the annotations of a node or edge header."""
        found: list[Annotation] = []
        for item in filter(None, (read_item(tree, self.report) for tree in items)):
            word = item.name.text
            if word in _HEADER_ONLY_ON_PROPERTIES:
                self.report(
                    "S005",
                    f"@{word} is only supported on node properties",
                    item.span,
                    f"write it behind a property, or @{word}(…) in the body"
                    if word != "embed"
                    else "write it behind a Vector property",
                )
            elif word in CONSTRAINT_WORDS:
                self.report("S005", f"@{word} belongs in the body of a node", item.span)
            elif word == "card":
                self.report("S005", _card_place(kind), item.span)
            elif annotation := read_annotation(item, self.report):
                found.append(annotation)
        return tuple(found)

    def body(self, tree: Tree[Any], kind: str) -> _Body:
        """Read the members between the braces; `@` items behind a property belong to it."""
        properties: list[Property] = []
        constraints: list[Constraint] = []
        owner: _Owner | None = None
        for member in children(tree):
            if member.data == "property":
                owner = self.property(member)
                properties.append(owner.property())
                continue
            item = read_item(member, self.report)
            if item is None:
                continue
            if item.name.text in CONSTRAINT_WORDS and item.args is not None:
                owner = None
                if constraint := self.body_constraint(item, kind):
                    constraints.append(constraint)
            elif owner is None:
                self.report(
                    "S005",
                    f"@{item.name} does not follow a property",
                    item.span,
                    "an annotation stands directly behind the property it describes",
                )
            elif item.name.text in COLUMN_CONSTRAINTS:
                self.inline_constraint(item, owner, constraints)
            elif annotation := self.property_annotation(item):
                owner.annotations.append(annotation)
                properties[-1] = owner.property()
        return _Body(tuple(properties), tuple(constraints))

    def body_constraint(self, item: Item, kind: str) -> Constraint | None:
        if kind == "interface" and not _is_misused_suffix(item):
            self.report(
                "S005",
                f"@{item.name}(…) cannot stand in an interface",
                item.span,
                "use the suffix form behind a property, or write it in the node",
            )
            return None
        return read_constraint(item, self.report)

    def inline_constraint(self, item: Item, owner: _Owner, into: list[Constraint]) -> None:
        word = item.name.text
        if word in owner.words:
            self.report("S010", f"@{word} is repeated on property `{owner.name}`", item.span)
            return
        owner.words.add(word)
        column = Name(owner.name.text, item.span)
        into.append(COLUMN_CONSTRAINTS[word]((column,), item.span))

    def property_annotation(self, item: Item) -> Annotation | None:
        word = item.name.text
        if word in CONSTRAINT_WORDS:
            self.report(
                "S006", f"@{word} needs arguments", item.span, f"write @{word}(property, …)"
            )
            return None
        if word == "card":
            self.report("S005", _card_place("property"), item.span)
            return None
        return read_annotation(item, self.report)

    def property(self, tree: Tree[Any]) -> _Owner:
        name, type_tree = children(tree)
        return _Owner(_name(name), self.type(type_tree), [], set())

    def type(self, tree: Tree[Any]) -> PropType:
        """Return the written type; String stands in for one that was reported."""
        nullable = children(tree)[-1] is not None
        match str(tree.data):
            case "enum_type":
                return PropType(Scalar.STRING, nullable, enum_values=self.enum_values(tree))
            case "vector_type":
                return PropType(Scalar.VECTOR, nullable, dim=self.vector_width(tree))
            case kind:
                token = children(tree)[0]
                scalar = self.scalar(token)
                if kind == "list_type" and scalar in (Scalar.BLOB, Scalar.VECTOR):
                    self.report("S002", f"a list of {scalar} is not supported", token_span(token))
                elif scalar is Scalar.VECTOR:
                    self.report(
                        "S002", "Vector needs its width", token_span(token), "write Vector(256)"
                    )
                return PropType(scalar, nullable, is_list=kind == "list_type")

    def scalar(self, token: Token) -> Scalar:
        if found := _SCALARS.get(token):
            return found
        hint = did_you_mean(token, _SCALARS) or f"the types are {', '.join(_SCALARS)} and enum(…)"
        self.report("S001", f"unknown type `{token}`", token_span(token), hint)
        return Scalar.STRING

    def enum_values(self, tree: Tree[Any]) -> tuple[str, ...]:
        _, *values, _nullable = children(tree)
        seen: set[str] = set()
        for value in values:
            if value in seen:
                self.report("S004", f"enum value `{value}` is repeated", token_span(value))
            seen.add(str(value))
        return tuple(sorted(seen))

    def vector_width(self, tree: Tree[Any]) -> int:
        name, width, _nullable = children(tree)
        if name != "Vector":
            self.report(
                "S002", f"`{name}` takes no width", token_span(width), "only Vector(n) does"
            )
            return 1
        # Comparing lengths first: a number of a million digits is not worth converting.
        digits = width.lstrip("0") or "0"
        if "." in digits or len(digits) > 10 or not 1 <= int(digits) <= MAX_VECTOR_DIM:
            self.report(
                "S003",
                f"a Vector has 1 to {MAX_VECTOR_DIM} numbers, not {_short(width)}",
                token_span(width),
            )
            return 1
        return int(digits)


@dataclass(slots=True)
class _Owner:
    """The property that the following `@` items belong to."""

    name: Name
    type: PropType
    annotations: list[Annotation]
    words: set[str]

    def property(self) -> Property:
        return Property(self.name, self.type, tuple(self.annotations))


def _is_misused_suffix(item: Item) -> bool:
    """`@unique("x")`: meant as a suffix, read as a constraint; its own message is clearer."""
    return item.name.text in COLUMN_CONSTRAINTS and not any(
        isinstance(arg, Name) for arg in item.args or ()
    )


def _card_place(kind: str) -> str:
    if kind == "edge":
        return "@card comes right after the endpoints, once"
    return "@card belongs on an edge, right after its endpoints"


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:20]}…"


def _name(token: Token) -> Name:
    return Name(str(token), token_span(token))
