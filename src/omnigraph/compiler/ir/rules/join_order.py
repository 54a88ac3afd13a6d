"""Start each connected part of a match where it has least rows, and grow it slowly.

A match is a join, so the start does not change its rows, and their order is settled by ids. With
unknown sizes the order of the source is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from omnigraph.base.table_keys import edge_key
from omnigraph.compiler.ir.estimate import reached, scanned, selectivity
from omnigraph.compiler.ir.facts import Facts, Statistics
from omnigraph.compiler.ir.ops import (
    TEMP_PREFIX,
    AntiJoin,
    Expand,
    Filter,
    Ir,
    Join,
    NodeScan,
    Op,
    Param,
    ReadIr,
    Rrf,
    iter_ops,
)
from omnigraph.compiler.ir.pattern import Link, Node, TempNames, Walk, closed_end, components

_SOME_LIMIT = 50
"""What a limit that is a parameter is taken for."""
_SPARE = 4.0
"""Of more nodes than needed the best are taken: some lead nowhere."""
_RANKED = 0.1


def join_order(ir: Ir, facts: Facts) -> Ir:
    """Return the IR with its walks re-rooted by estimated size."""
    if not isinstance(ir, ReadIr) or facts.statistics is None:
        return ir
    graph = _read(ir.ops)
    if graph is None or not graph.links or not _sizes_known(graph, facts.statistics):
        return ir
    chooser = _Chooser(graph, facts.statistics, _lead(ir))
    walk = Walk(graph.nodes, TempNames(graph.last_temp), set())
    ops = walk.run(chooser.roots(), graph.links, chooser.cheapest)
    return replace(ir, ops=(*ops, *graph.rest))


@dataclass(frozen=True, slots=True)
class _Graph:
    """The walk part of a pipeline as nodes and links; `rest` are the operators behind it."""

    nodes: dict[str, Node]
    roots: list[str]
    links: list[Link]
    rest: tuple[Op, ...]
    last_temp: int


def _read(ops: tuple[Op, ...]) -> _Graph | None:
    nodes: dict[str, Node] = {}
    roots: list[str] = []
    links: list[Link] = []
    at = 0
    while at < len(ops):
        op = ops[at]
        closing = ops[at + 1] if at + 1 < len(ops) else None
        match op:
            case NodeScan():
                nodes[op.var] = Node(op.var, op.type_name, op.filters)
                roots.append(op.var)
            case Expand():
                end = closed_end(op, closing)
                if end is None:
                    nodes[op.dst] = Node(op.dst, op.dst_type, op.dst_filters)
                    end = op.dst
                else:
                    at += 1
                links.append(_link(op, end, nodes[op.src].type_name))
            case Filter() | AntiJoin() | Join():
                break
        at += 1
    rest = ops[at:]
    walks_behind = any(isinstance(op, NodeScan | Expand) for op in rest)
    return None if walks_behind else _Graph(nodes, roots, links, rest, _last_temp(ops))


def _last_temp(ops: Sequence[Op]) -> int:
    """Return the highest temporary number; those inside anti-joins count too."""
    bound = (op.var if isinstance(op, NodeScan) else op.dst for op in _walks(ops))
    return max((int(var[1:]) for var in bound if var.startswith(TEMP_PREFIX)), default=0)


def _walks(ops: Sequence[Op]) -> Iterator[NodeScan | Expand]:
    return (op for op in iter_ops(ops) if isinstance(op, NodeScan | Expand))


def _link(op: Expand, end: str, src_type: str) -> Link:
    return Link(
        op.src,
        end,
        op.edge,
        op.direction,
        src_type,
        op.dst_type,
        op.min_hops,
        op.max_hops,
        op.edge_var,
        op.edge_filters,
    )


def _sizes_known(graph: _Graph, statistics: Statistics) -> bool:
    return all(node.type_name in statistics.nodes for node in graph.nodes.values()) and all(
        link.edge in statistics.edges for link in graph.links
    )


@dataclass(frozen=True, slots=True)
class _Lead:
    """A node whose best rows are enough: the match may stop after so many rows."""

    var: str
    rows: int


def _lead(ir: ReadIr) -> _Lead | None:
    """Return the ranked node if better nodes are known before the match around them."""
    ranking = ir.ranking
    if ranking is None or not ranking.best_first or isinstance(ranking.score, Rrf):
        return None
    if ir.is_aggregate or ir.distinct or ir.limit is None:
        return None
    counts = [_SOME_LIMIT if isinstance(one, Param) else one for one in (ir.limit, ir.offset or 0)]
    return _Lead(ranking.score.var, sum(counts))


@dataclass(frozen=True, slots=True)
class _Chooser:
    graph: _Graph
    statistics: Statistics
    lead: _Lead | None

    def roots(self) -> list[str]:
        """Return one start per connected part, the parts in source order."""
        leader = components(self.graph.links)
        return [self._root(leader.get(root, root), root, leader) for root in self.graph.roots]

    def _root(self, part: str, present: str, leader: Mapping[str, str]) -> str:
        """Return the cheapest start of a part; among equals the present one, then source order."""
        others = [
            var
            for var in self.graph.nodes
            if leader.get(var) == part and var != present and not var.startswith(TEMP_PREFIX)
        ]
        links = [link for link in self.graph.links if leader[link.src] == part]
        return min([present, *others], key=lambda var: self._cost(var, links))

    def _cost(self, root: str, links: Sequence[Link]) -> float:
        """Return the rows produced on the way when starting from `root`."""
        rows = self._rows(root)
        total, bound, left = rows, {root}, list(links)
        while left:
            index = self.cheapest(left, bound)
            if index is None:
                return float("inf")
            link = left.pop(index)
            rows *= self._growth(link, bound)
            total += rows
            bound |= {link.src, link.dst}
        if self.lead is not None and self.lead.var == root:
            # The ranking looks at every node once, at a fraction of what a row costs.
            start = self._rows(root)
            share = min(1.0, _SPARE * self.lead.rows / max(rows, 1.0))
            return _RANKED * start + share * total
        return total

    def cheapest(self, left: Sequence[Link], bound: Set[str]) -> int | None:
        """Return the index of the ready link that adds least rows; the first one among equals."""
        ready = [at for at, link in enumerate(left) if link.src in bound or link.dst in bound]
        return min(ready, key=lambda at: self._growth(left[at], bound)) if ready else None

    def _rows(self, var: str) -> float:
        node = self.graph.nodes[var]
        return scanned(NodeScan(var, node.type_name, node.filters), self.statistics)

    def _growth(self, link: Link, bound: Set[str]) -> float:
        """Return how many rows one row becomes."""
        start, end = (link.src, link.dst) if link.src in bound else (link.dst, link.src)
        ends = max(1, self.statistics.nodes[link.type_of(end)])
        found = reached(
            link.edge,
            link.direction,
            link.type_of(start),
            link.type_of(end),
            (link.min_hops, link.max_hops),
            self.statistics,
        )
        if end in bound:
            return found / ends
        edges = {} if link.edge_var is None else {link.edge_var: edge_key(link.edge)}
        passing = selectivity(link.edge_filters, edges, self.statistics)
        return found * self._rows(end) / ends * passing
