"""What well-formed declarations must obey: columns, annotations, interfaces.

Every rule reports and goes on, so one run finds them all. Names that clash or point nowhere
across declarations are the catalog's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.compiler.diagnostics import DiagnosticList, did_you_mean
from omnigraph.compiler.schema.ast import (
    Annotation,
    Check,
    Constraint,
    EdgeDecl,
    Index,
    InterfaceDecl,
    Key,
    Name,
    NodeDecl,
    Property,
    Range,
    SchemaAst,
    Unique,
    Unread,
)
from omnigraph.compiler.schema.fills import BACKFILL, FILLS, fill_value, is_fillable
from omnigraph.compiler.schema.items import Reporter
from omnigraph.compiler.schema.shape import Conflict, Shape, column_names, node_shape
from omnigraph.compiler.source import Span
from omnigraph.compiler.types import PropType, Scalar, widens

_ENDPOINTS = ("src", "dst")
_ONCE = frozenset({"description", "instruction", "rename_from"})
_ON_INTERFACES = frozenset({"description", "instruction"})


def check_schema(ast: SchemaAst, findings: DiagnosticList, unread: Unread) -> None:
    """Report every broken rule of every declaration.

    Args:
        ast: the declarations that could be read.
        findings: where to report.
        unread: names that may be in the part that could not be read; missing ones among them
            are not reported.
    """
    checker = _Checker(Reporter(findings), unread)
    interfaces: dict[str, InterfaceDecl] = {}
    for interface in ast.interfaces():
        interfaces.setdefault(interface.name.text, interface)
        checker.interface(interface)
    for node in ast.nodes():
        checker.node(node, interfaces)
    for edge in ast.edges():
        checker.edge(edge)


@dataclass(frozen=True, slots=True)
class _Checker:
    report: Reporter
    unread: Unread

    def interface(self, interface: InterfaceDecl) -> None:
        owner = f"interface `{interface.name}`"
        self.annotations(interface.annotations, owner)
        for found in interface.annotations:
            if found.name not in _ON_INTERFACES:
                message = f"@{found.name} is not supported on interfaces"
                hint = "an interface takes @description and @instruction"
                self.report("S005", message, found.span, hint)
        self.properties(interface.properties, "node")
        types = {prop.name.text: prop.type for prop in interface.properties}
        self.fills(interface.properties, types, complete=False)
        for constraint in interface.constraints:
            self.constraint(constraint, types, owner, complete=True)
        self.one_key(interface.constraints, owner)
        for prop in interface.properties:
            for embed in _named(prop.annotations, "embed"):
                # The source may be a property only the implementing node has.
                self.embed(prop, embed, types, complete=False)

    def node(self, node: NodeDecl, interfaces: Mapping[str, InterfaceDecl]) -> None:
        owner = f"node `{node.name}`"
        self.annotations(node.annotations, owner)
        self.properties(node.properties, "node")
        shape = node_shape(node, interfaces)
        self.interfaces(node, shape, interfaces)
        types = {prop.name.text: prop.type for prop in reversed(shape.properties)}
        complete = not shape.unknown
        self.fills(node.properties, types, complete=complete)
        self.no_fills_of_keys(node, shape)
        for constraint in node.constraints:
            self.constraint(constraint, types, owner, complete=complete)
        self.one_key(shape.constraints, owner, heir=node)
        own = {prop.name.text for prop in node.properties}
        for prop in shape.properties:
            for embed in _named(prop.annotations, "embed"):
                inherited = prop.name.text not in own
                at = node.name.span if inherited else None
                self.embed(prop, embed, types, complete=complete, at=at)

    def edge(self, edge: EdgeDecl) -> None:
        owner = f"edge `{edge.name}`"
        self.annotations(edge.annotations, owner)
        self.properties(edge.properties, "edge")
        endpoint = PropType(Scalar.STRING)
        types = dict.fromkeys(_ENDPOINTS, endpoint)
        types |= {prop.name.text: prop.type for prop in reversed(edge.properties)}
        self.fills(edge.properties, types, complete=True)
        for constraint in edge.constraints:
            if isinstance(constraint, Unique | Index):
                self.constraint(constraint, types, owner, complete=True)
            else:
                word = type(constraint).__name__.lower()
                self.report(
                    "S005",
                    f"@{word} is only supported on nodes",
                    constraint.span,
                    "an edge takes @unique and @index",
                )

    def interfaces(
        self, node: NodeDecl, shape: Shape, interfaces: Mapping[str, InterfaceDecl]
    ) -> None:
        for name in shape.unknown:
            if self.unread.may_declare(name.text):
                continue
            self.report(
                "S015",
                f"node `{node.name}` implements unknown interface `{name}`",
                name.span,
                did_you_mean(name.text, interfaces),
            )
        for conflict in shape.conflicts:
            if not conflict.same_type:
                self.report("S016", _conflict_text(node, conflict), conflict.prop.span)

    def constraint(
        self,
        constraint: Constraint,
        types: Mapping[str, PropType],
        owner: str,
        *,
        complete: bool,
    ) -> None:
        """Check the columns of one constraint; `complete` when `types` has all of them."""
        word = type(constraint).__name__.lower()
        for name in column_names(constraint):
            found = types.get(name.text)
            if found is not None:
                self.column(constraint, word, name, found)
            elif complete:
                self.report(
                    "S007",
                    f"@{word} names `{name}`, which {owner} does not have",
                    name.span,
                    did_you_mean(name.text, types),
                )

    def column(self, constraint: Constraint, word: str, name: Name, found: PropType) -> None:
        if problem := _column_problem(constraint, found):
            self.report("S008", f"@{word} on `{name}` of type {found}: {problem}", name.span)

    def one_key(
        self, constraints: tuple[Constraint, ...], owner: str, heir: NodeDecl | None = None
    ) -> None:
        """A second key is reported where it is written, or at the node that inherits it."""
        keys = [found for found in constraints if isinstance(found, Key)]
        if len(keys) > 1:
            inherited = heir is not None and not any(keys[1] is own for own in heir.constraints)
            self.report(
                "S009",
                f"{owner} has multiple @key constraints",
                heir.name.span if heir and inherited else keys[1].span,
                "name all key columns in one: @key(a, b)",
            )

    def properties(self, properties: tuple[Property, ...], kind: str) -> None:
        for prop in properties:
            self.annotations(prop.annotations, f"property `{prop.name}`", every_once=True)
            for found in _named(prop.annotations, "instruction"):
                self.report(
                    "S005",
                    "@instruction is only supported on nodes and edges",
                    found.span,
                    "use @description on a property",
                )
            if kind == "edge":
                for found in _named(prop.annotations, "embed"):
                    self.report("S012", "@embed is only supported on node properties", found.span)

    def annotations(
        self, annotations: tuple[Annotation, ...], owner: str, *, every_once: bool = False
    ) -> None:
        seen: set[str] = set()
        for found in annotations:
            if found.name in seen and (every_once or found.name in _ONCE):
                self.report("S010", f"@{found.name} is repeated on {owner}", found.span)
            seen.add(found.name)
            if found.name not in _ONCE:
                continue
            if found.value is None or not found.value.strip():
                self.report("S011", f"@{found.name} needs a text that is not blank", found.span)
            if found.kwargs:
                self.report("S011", f"@{found.name} takes no settings", found.span)

    def fills(
        self, properties: tuple[Property, ...], types: Mapping[str, PropType], *, complete: bool
    ) -> None:
        """Check what fills missing values; `complete` when `types` has all there are."""
        for prop in properties:
            for found in prop.annotations:
                if found.name in FILLS:
                    problem = _fill_problem(prop, found, types, complete=complete)
                    if problem is not None:
                        text = f"@{found.name} on `{prop.name}`: {problem}"
                        self.report("S017", text, found.span)

    def no_fills_of_keys(self, node: NodeDecl, shape: Shape) -> None:
        named = {
            name.text
            for constraint in shape.constraints
            if isinstance(constraint, Key)
            for name in column_names(constraint)
        }
        own = {prop.name.text for prop in node.properties}
        for prop in shape.properties:
            for found in prop.annotations:
                if found.name in FILLS and prop.name.text in named:
                    span = found.span if prop.name.text in own else node.name.span
                    text = f"@{found.name} on `{prop.name}`: a key names its row and is never made"
                    self.report("S017", text, span)

    def embed(
        self,
        prop: Property,
        embed: Annotation,
        types: Mapping[str, PropType],
        *,
        complete: bool,
        at: Span | None = None,
    ) -> None:
        """Check `@embed` on a node or interface property; `at` moves the place to an heir."""
        span = at or embed.span
        if prop.type.scalar is not Scalar.VECTOR:
            self.report("S012", f"@embed on `{prop.name}`: only a Vector can be filled", span)
        if embed.value is None:
            self.report(
                "S012",
                "@embed needs the property whose text it embeds",
                span,
                'write @embed("text")',
            )
            return
        source = types.get(embed.value)
        if source is None and complete:
            hint = did_you_mean(embed.value, types)
            self.report("S012", f"@embed reads unknown property `{embed.value}`", span, hint)
        elif source is not None and not source.is_plain_string:
            self.report(
                "S012", f"@embed reads `{embed.value}` of type {source}; it must be a String", span
            )
        for key, value in embed.kwargs:
            if key != "model":
                self.report("S012", f"@embed has no setting `{key}`", span, "only `model`")
            elif not value.strip():
                self.report("S012", "@embed model must not be blank", span)


def _fill_problem(
    prop: Property, found: Annotation, types: Mapping[str, PropType], *, complete: bool
) -> str | None:
    """Return why an annotation cannot fill a property, or None if it can."""
    kind, text = prop.type, found.value
    if text is None or found.kwargs:
        return "it takes one value"
    if found.form == "word" and found.name == BACKFILL:
        source = types.get(text)
        if source is None:
            return f"there is no property `{text}` to take it from" if complete else None
        same = source.required() == kind.required()
        if not (same or widens(source.required(), kind.required())):
            return f"`{text}` is {source}"
        return None
    if found.form == "call" and kind.scalar is not Scalar.DATETIME:
        return f"now() is a DateTime, not {kind.required()}"
    is_text = kind.scalar in (Scalar.STRING, Scalar.DATE, Scalar.DATETIME)
    wanted = (
        {"string", "word"} if kind.enum_values else {"string", "call"} if is_text else {"literal"}
    )
    if found.form not in wanted and is_fillable(kind):
        return f"`{text}` is no {kind.required()}"
    try:
        fill_value(kind, text, 0)
    except ValueError as error:
        return str(error)
    return None


def _column_problem(constraint: Constraint, found: PropType) -> str | None:
    match constraint:
        case Key() if found.nullable:
            return "a key column must not be nullable"
        case Key() | Unique() if _is_compound(found):
            return f"a {type(constraint).__name__.lower()} column must be a single plain value"
        case Index() if found.is_list or found.scalar is Scalar.BLOB:
            return "lists and Blobs cannot be indexed"
        case Range() if not found.is_numeric:
            return "a range needs a number"
        case Check() if found.scalar is not Scalar.STRING:
            return "a pattern needs a String"
        case _:
            return None


def _is_compound(found: PropType) -> bool:
    return found.is_list or found.scalar in (Scalar.VECTOR, Scalar.BLOB)


def _named(annotations: tuple[Annotation, ...], name: str) -> list[Annotation]:
    return [found for found in annotations if found.name == name]


def _conflict_text(node: NodeDecl, conflict: Conflict) -> str:
    first = conflict.first_owner
    where = f"node `{node.name}`" if first is None else f"interface `{first}`"
    return (
        f"property `{conflict.kept.name}` is {conflict.kept.type} in {where} "
        f"but {conflict.offered.type} in interface `{conflict.interface}`"
    )
