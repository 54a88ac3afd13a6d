"""Names across declarations: no two alike, none that points nowhere, none that is taken.

The catalog's own class of errors. Everything is reported at its place in the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.compiler.catalog.model import DST, ID, SRC
from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, Phase, did_you_mean
from omnigraph.compiler.schema.ast import (
    Constraint,
    Declaration,
    EdgeDecl,
    Key,
    Name,
    NodeDecl,
    Property,
    SchemaAst,
    Unread,
)
from omnigraph.compiler.schema.shape import Shape, node_shape
from omnigraph.compiler.source import Span
from omnigraph.compiler.types import PropType, Scalar

SUBSTRATE_COLUMNS = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_distance",
        "_score",
    }
)
"""Columns that scans and searches of the storage substrate add under these names."""

EDGE_COLUMNS = {
    SRC: "every edge already has it: the id of its source node",
    DST: "every edge already has it: the id of its target node",
    "from": "mutations and load files use the word for the source node",
    "to": "mutations and load files use the word for the target node",
}
_Decl = TypeVar("_Decl", bound=Declaration)


def check_names(ast: SchemaAst, findings: DiagnosticList, unread: Unread) -> None:
    """Report every clash and every name that points nowhere.

    Args:
        ast: the declarations that could be read.
        findings: where to report.
        unread: names that may be in the part that could not be read; missing ones among them
            are not reported.
    """
    checker = _Checker(findings)
    interfaces = checker.distinct("interface", ast.interfaces())
    nodes = checker.distinct("node", ast.nodes())
    edges = checker.distinct("edge", ast.edges())
    for interface in ast.interfaces():
        checker.properties(interface.name, interface.properties)
        checker.id_column(interface.properties, interface.constraints)
    for node in ast.nodes():
        checker.node(node, node_shape(node, interfaces))
    for edge in ast.edges():
        checker.edge(edge)
        checker.endpoints(edge, nodes, unread)
    checker.folded(edges.values())


@dataclass(frozen=True, slots=True)
class _Checker:
    findings: DiagnosticList

    def report(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.findings.add(Diagnostic(code, Phase.CATALOG, message, span, hint))

    def distinct(self, kind: str, declarations: Iterable[_Decl]) -> dict[str, _Decl]:
        """Return the declarations by name, the first of each; report the others."""
        found: dict[str, _Decl] = {}
        for declaration in declarations:
            name = declaration.name
            if name.text in found:
                self.report("C001", f"duplicate {kind} type: {name}", name.span)
            else:
                found[name.text] = declaration
        return found

    def node(self, node: NodeDecl, shape: Shape) -> None:
        self.properties(node.name, node.properties)
        self.id_column(node.properties, shape.constraints)
        for conflict in shape.conflicts:
            if conflict.same_type:
                self.report(
                    "C006",
                    f"interfaces `{conflict.first_owner}` and `{conflict.interface}` give "
                    f"property `{conflict.kept.name}` different annotations or constraints",
                    conflict.prop.span,
                    f"declare `{conflict.kept.name}` in node `{node.name}` itself",
                )

    def edge(self, edge: EdgeDecl) -> None:
        self.properties(edge.name, edge.properties)
        for prop in edge.properties:
            name = prop.name.text
            if name == ID:
                self.reserved(prop.name, "every edge already has it: its own id")
            elif reason := EDGE_COLUMNS.get(name):
                self.reserved(prop.name, reason)

    def endpoints(self, edge: EdgeDecl, nodes: Collection[str], unread: Unread) -> None:
        for role, name in (("source", edge.from_type), ("target", edge.to_type)):
            if name.text not in nodes and not unread.may_declare(name.text):
                self.report(
                    "C003",
                    f"edge {edge.name} references unknown {role} type: {name}",
                    name.span,
                    did_you_mean(name.text, nodes),
                )

    def folded(self, edges: Iterable[EdgeDecl]) -> None:
        """Queries find edges ignoring case, so names must differ in more than case."""
        seen: dict[str, Name] = {}
        for edge in edges:
            first = seen.setdefault(edge.name.text.lower(), edge.name)
            if first is not edge.name:
                self.report(
                    "C004",
                    f"edge name collision after case folding: '{edge.name}' "
                    f"conflicts with '{first}'",
                    edge.name.span,
                )

    def properties(self, owner: Name, properties: Iterable[Property]) -> None:
        seen: set[str] = set()
        for prop in properties:
            name = prop.name.text
            if name in seen:
                self.report("C002", f"duplicate property `{name}` in `{owner}`", prop.name.span)
            seen.add(name)
            if name in SUBSTRATE_COLUMNS:
                self.reserved(prop.name, "tables use the name for a column of their own")

    def id_column(self, properties: Iterable[Property], constraints: Iterable[Constraint]) -> None:
        """A property `id` would be a second `id` column, unless it is that column: the key."""
        is_key = any(
            isinstance(found, Key) and [name.text for name in found.columns] == [ID]
            for found in constraints
        )
        for prop in properties:
            if prop.name.text == ID and not (is_key and prop.type == PropType(Scalar.STRING)):
                self.reserved(
                    prop.name, "every node already has it; only `id: String @key` may name it"
                )

    def reserved(self, name: Name, reason: str) -> None:
        self.report("C005", f"property name `{name}` is reserved", name.span, reason)
