"""Typed query to operators, in source order; rewrites come later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Filter,
    Ir,
    MutationIr,
    Op,
    Predicate,
    ReadIr,
)
from omnigraph.compiler.ir.pattern import (
    Link,
    Node,
    TempNames,
    Walk,
    components,
    pick_in_sweeps,
)
from omnigraph.compiler.query import typed


def lower(query: typed.TypedQuery) -> Ir:
    """Return the plain operators of a checked query."""
    match query:
        case typed.TypedRead():
            return ReadIr(
                query.name,
                query.params,
                tuple(_lower_clauses(query.clauses, frozenset(), TempNames())),
                query.variables,
                query.columns,
                query.distinct,
                query.ranking,
                query.order,
                query.limit,
                query.offset,
            )
        case typed.TypedMutation():
            return MutationIr(query.name, query.params, query.statements)


def _lower_clauses(
    clauses: Iterable[typed.Clause], outer: frozenset[str], temps: TempNames
) -> list[Op]:
    """Lower one clause list: scans, walks, filters, then negations."""
    nodes: dict[str, Node] = {}
    links: list[Link] = []
    filters: list[Predicate] = []
    negations: list[typed.Negation] = []
    for clause in clauses:
        match clause:
            case typed.Binding():
                filters += _bind(clause, nodes, outer)
            case typed.Traversal():
                links.append(_link(clause, temps))
            case typed.Compare() | typed.IsNull():
                filters.append(clause)
            case typed.Negation():
                negations.append(clause)
    walk = Walk(nodes, temps, set(outer))
    ops = walk.run(_roots(nodes, links), links, pick_in_sweeps())
    ops += [Filter(predicate) for predicate in filters]
    for negation in negations:
        inner = _lower_clauses(negation.clauses, frozenset(walk.bound), temps)
        ops.append(AntiJoin(negation.outer, tuple(inner)))
    return ops


def _bind(
    clause: typed.Binding, nodes: dict[str, Node], outer: frozenset[str]
) -> tuple[Predicate, ...]:
    """Add a binding to the nodes; return the predicates of one that is bound further out.

    Two bindings of one variable are one node that satisfies both.
    """
    if clause.var in outer:
        return clause.predicates
    known = nodes.get(clause.var)
    if known is None:
        nodes[clause.var] = Node(clause.var, clause.type_name, clause.predicates)
    else:
        nodes[clause.var] = replace(known, filters=(*known.filters, *clause.predicates))
    return ()


def _link(clause: typed.Traversal, temps: TempNames) -> Link:
    return Link(
        clause.src or temps.fresh(),
        clause.dst or temps.fresh(),
        clause.edge,
        clause.direction,
        clause.src_type,
        clause.dst_type,
        clause.min_hops,
        clause.max_hops,
        clause.edge_var,
    )


def _roots(nodes: dict[str, Node], links: list[Link]) -> list[str]:
    """Return the bindings to scan: the first of every connected part, in source order.

    The others are reached over links and carry their filters there.
    """
    leader = components(links)
    seen: set[str] = set()
    roots: list[str] = []
    for var in nodes:
        part = leader.get(var, var)
        if part not in seen:
            seen.add(part)
            roots.append(var)
    return roots
