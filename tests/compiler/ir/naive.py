"""Runs the operators of a read over a small graph, row by row: an oracle for rewrites."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from omnigraph.compiler.ir.key_id import key_id
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Compare,
    Direction,
    Expand,
    Expr,
    Filter,
    IsNull,
    Join,
    KeyId,
    Literal,
    NodeScan,
    Op,
    Param,
    Predicate,
    Prop,
    ReadIr,
)
from omnigraph.compiler.operations import CompareOp

Row = dict[str, dict[str, Any]]


@dataclass
class Graph:
    """Nodes by type and id; edges by type as dictionaries with `id`, `src`, `dst`."""

    nodes: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    edges: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def rows(ir: ReadIr, graph: Graph, params: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the ids of the named variables of every row, in the defined order."""
    found = _Run(graph, params).run(ir.ops, [{}])
    return sorted(tuple(row[name]["id"] for name in ir.variables) for row in found)


@dataclass
class _Run:
    graph: Graph
    params: dict[str, Any]

    def run(self, ops: tuple[Op, ...], found: list[Row]) -> list[Row]:
        for op in ops:
            match op:
                case NodeScan():
                    nodes = self.graph.nodes[op.type_name].values()
                    found = [{**row, op.var: node} for row in found for node in nodes]
                    found = [row for row in found if self.all(op.filters, row)]
                case Expand():
                    found = [out for row in found for out in self.expand(op, row)]
                case Filter():
                    found = [row for row in found if self.test(op.predicate, row)]
                case Join():
                    others = self.run(op.inner, [{}])
                    found = [{**row, **other} for row in found for other in others]
                    found = [row for row in found if self.all(op.on, row)]
                case AntiJoin():
                    found = [row for row in found if not self.run(op.inner, [row])]
        return found

    def expand(self, op: Expand, row: Row) -> Iterator[Row]:
        start = row[op.src]["id"]
        nodes = self.graph.nodes[op.dst_type]
        if op.edge_var is not None:
            for end, edge in self.steps(op, start):
                out = {**row, op.dst: nodes[end], op.edge_var: edge}
                if self.all(op.dst_filters, out) and self.all(op.edge_filters, out):
                    yield out
            return
        for end in self.reached(op, start):
            out = {**row, op.dst: nodes[end]}
            if self.all(op.dst_filters, out):
                yield out

    def steps(self, op: Expand, start: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for edge in self.graph.edges[op.edge]:
            if op.direction is not Direction.IN and edge["src"] == start:
                yield edge["dst"], edge
            elif op.direction is not Direction.OUT and edge["dst"] == start:
                yield edge["src"], edge

    def reached(self, op: Expand, start: str) -> list[str]:
        """Each node once, at its shortest distance; the start only by a loop of its own."""
        ends: list[str] = []
        seen, frontier = {start}, [start]
        for hop in range(1, op.max_hops + 1):
            fresh: list[str] = []
            for at in frontier:
                for end, _ in self.steps(op, at):
                    if end == start and at == start and hop == op.min_hops and end not in ends:
                        ends.append(end)
                    if end not in seen:
                        seen.add(end)
                        fresh.append(end)
            if hop >= op.min_hops:
                ends += fresh
            frontier = fresh
        return ends

    def all(self, predicates: tuple[Predicate, ...], row: Row) -> bool:
        return all(self.test(predicate, row) for predicate in predicates)

    def test(self, predicate: Predicate, row: Row) -> bool:
        if isinstance(predicate, IsNull):
            return (self.value(predicate.operand, row) is None) != predicate.negated
        assert isinstance(predicate, Compare)
        left, right = self.value(predicate.left, row), self.value(predicate.right, row)
        if left is None or right is None:
            return False
        return {
            CompareOp.EQ: lambda: left == right,
            CompareOp.NE: lambda: left != right,
            CompareOp.LT: lambda: left < right,
            CompareOp.LE: lambda: left <= right,
            CompareOp.GT: lambda: left > right,
            CompareOp.GE: lambda: left >= right,
            CompareOp.IN: lambda: left in right,
            CompareOp.CONTAINS: lambda: right in left,
            CompareOp.STARTS_WITH: lambda: left.startswith(right),
        }[predicate.op]()

    def value(self, expr: Expr, row: Row) -> Any:
        match expr:
            case Literal():
                return expr.value
            case Param():
                return self.params[expr.name]
            case Prop():
                return row[expr.var][expr.name]
            case KeyId():
                parts = [(self.value(part, row), part.type) for part in expr.parts]
                return None if any(value is None for value, _ in parts) else key_id(parts)
            case _:
                raise NotImplementedError(expr)
