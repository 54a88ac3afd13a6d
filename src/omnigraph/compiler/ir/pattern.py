"""A match as a graph of nodes and links, and the operators that walk it.

Lowering and the join-order rewrite build operators the same way: they differ only in where they
start and which link they follow next. Any order yields the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from omnigraph.compiler.ir.ops import (
    TEMP_PREFIX,
    AntiJoin,
    Compare,
    Direction,
    Expand,
    Filter,
    NodeScan,
    Op,
    Predicate,
    Prop,
)
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query.typed import ID_TYPE


@dataclass(frozen=True, slots=True)
class Node:
    """A node variable and what it must satisfy."""

    var: str
    type_name: str
    filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A traversal between two variables; `direction` is as seen from `src`."""

    src: str
    dst: str
    edge: str
    direction: Direction
    src_type: str
    dst_type: str
    min_hops: int = 1
    max_hops: int = 1
    edge_var: str | None = None
    edge_filters: tuple[Predicate, ...] = ()

    @property
    def tail(self) -> str:
        """The variable on the edge's own from side."""
        return self.dst if self.direction is Direction.IN else self.src

    def type_of(self, var: str) -> str:
        """Return the node type of one of the ends."""
        return self.src_type if var == self.src else self.dst_type


@dataclass(slots=True)
class TempNames:
    """Names of variables that no text can mention, numbered through one query."""

    last: int = 0

    def fresh(self) -> str:
        """Return a name not given before."""
        self.last += 1
        return f"{TEMP_PREFIX}{self.last}"


Pick = Callable[[Sequence[Link], Set[str]], int | None]
"""Choose the next link among those left, by index, given what is bound; None: none is ready."""


def pick_in_sweeps() -> Pick:
    """Return the plain choice: go over the links in source order, again and again."""
    at = 0

    def pick(left: Sequence[Link], bound: Set[str]) -> int | None:
        nonlocal at
        for step in range(len(left)):
            index = (at + step) % len(left)
            if left[index].src in bound or left[index].dst in bound:
                at = index
                return index
        return None

    return pick


@dataclass(slots=True)
class Walk:
    """Builds the operators of one clause list."""

    nodes: Mapping[str, Node]
    temps: TempNames
    bound: set[str]
    ops: list[Op] = field(default_factory=list)

    def run(self, roots: Iterable[str], links: Sequence[Link], pick: Pick) -> list[Op]:
        """Scan the roots, then follow every link; unreachable links get a scan of their own."""
        for root in roots:
            self._scan(root, self.nodes[root].type_name)
        left = list(links)
        while left:
            index = pick(left, self.bound)
            if index is None:
                self._scan(left[0].tail, left[0].type_of(left[0].tail))
            else:
                self._follow(left.pop(index))
        return self.ops

    def _scan(self, var: str, type_name: str) -> None:
        self.ops.append(NodeScan(var, type_name, self._filters(var)))
        self.bound.add(var)

    def _filters(self, var: str) -> tuple[Predicate, ...]:
        node = self.nodes.get(var)
        return () if node is None else node.filters

    def _follow(self, link: Link) -> None:
        if link.src in self.bound and link.dst in self.bound:
            self._close(link)
        elif link.src in self.bound:
            self._expand(link, link.src, link.dst, self._filters(link.dst))
        else:
            self._expand(link, link.dst, link.src, self._filters(link.src))

    def _close(self, link: Link) -> None:
        """Both ends are bound already: walk to a nameless node and keep it if it is the end."""
        temp = self.temps.fresh()
        self._expand(link, link.src, temp, ())
        same = Compare(Prop(temp, "id", ID_TYPE), CompareOp.EQ, Prop(link.dst, "id", ID_TYPE))
        self.ops.append(Filter(same))

    def _expand(self, link: Link, start: str, to: str, filters: tuple[Predicate, ...]) -> None:
        forward = start == link.src
        self.ops.append(
            Expand(
                start,
                to,
                link.edge,
                link.direction if forward else link.direction.flipped(),
                link.dst_type if forward else link.src_type,
                link.min_hops,
                link.max_hops,
                link.edge_var,
                filters,
                link.edge_filters,
            )
        )
        self.bound |= {to} if link.edge_var is None else {to, link.edge_var}


def components(links: Iterable[Link]) -> Mapping[str, str]:
    """Return, for every linked variable, the one that stands for all it is connected with."""
    leader: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for link in links:
        for var in (link.src, link.dst):
            if var not in leader:
                leader[var] = var
                members[var] = [var]
        kept, merged = leader[link.src], leader[link.dst]
        if len(members[kept]) < len(members[merged]):  # relabel the few, not the many
            kept, merged = merged, kept
        if kept != merged:
            for var in members[merged]:
                leader[var] = kept
            members[kept] += members.pop(merged)
    return leader


def closed_end(step: Op, closing: Op | None) -> str | None:
    """Return the node a step has to end in, if the next operator only says so.

    Of a temporary node only: one with a name may have filters of its own and be used again.
    """
    match step, closing:
        case (
            Expand(dst=temp),
            Filter(predicate=Compare(Prop(left, "id"), CompareOp.EQ, Prop(right, "id"))),
        ) if left == temp and temp.startswith(TEMP_PREFIX):
            return right
        case _:
            return None


def walk_end(ops: Sequence[Op]) -> int:
    """Return where the operators that bind variables end."""
    at = 0
    while at < len(ops):
        op = ops[at]
        if isinstance(op, AntiJoin):
            break
        if isinstance(op, Filter) and (at == 0 or closed_end(ops[at - 1], op) is None):
            break
        at += 1
    return at
