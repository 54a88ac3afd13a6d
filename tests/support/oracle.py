"""What a read query means, said a second time: dicts, loops and sets, as slow as it is plain.

Evaluates a typed query (before lowering, so lowering and rewrites are judged too) over rows held
as dicts. Shares no code with the engine; the stemmer's library is the one thing both call. Dates
are days and datetimes milliseconds since the epoch, as in typed literals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from omnigraph.compiler.operations import AggregateFn, TextFn
from omnigraph.compiler.query import typed
from omnigraph.compiler.types import Scalar
from tests.support.plain import (
    compared,
    edit_distance,
    exact_sum,
    frozen,
    narrowed,
    sorted_by,
    terms,
    to_f32,
)

Row = dict[str, Any]
Graph = Mapping[str, Sequence[Row]]
"""Rows by table key: `node:Person`, `edge:Knows`."""


@dataclass(frozen=True)
class Entity:
    """A node or an edge: its table and its row."""

    table: str
    row: Row

    @property
    def id(self) -> str:
        return self.row["id"]


Env = Mapping[str, Entity]
"""What every variable stands for in one row of a match."""

Worth = dict[str, float]
"""Node ids with a number that sorts the best first."""


def evaluate(
    query: typed.TypedRead,
    graph: Graph,
    params: Mapping[str, Any],
    limit: int | None = None,
    offset: int = 0,
) -> list[Row]:
    """Return the rows of a query, in order."""
    return _Oracle(query, graph, params, limit, offset).rows()


@dataclass(frozen=True)
class _Oracle:
    query: typed.TypedRead
    graph: Graph
    params: Mapping[str, Any]
    limit: int | None
    offset: int
    fused: dict[typed.Rrf, Worth] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        matched = list(self.match(self.query.clauses, {}))
        for score in self.fusions():
            self.fused[score] = self.fuse(score, matched)
        if any(isinstance(column.expr, typed.Aggregate) for column in self.query.columns):
            rows = self.grouped(matched)
        elif self.query.distinct:
            rows = self.distinct(matched)
        else:
            rows = [self.project(env) for _, env in self.ordered(matched)]
        end = None if self.limit is None else self.offset + self.limit
        return rows[self.offset : end]

    # Match

    def match(self, clauses: Sequence[typed.Clause], env: Env) -> Iterator[Env]:
        """Yield every way to satisfy the clauses; negations speak of everything bound here."""
        positive = [one for one in clauses if not isinstance(one, typed.Negation)]
        negative = [one for one in clauses if isinstance(one, typed.Negation)]
        for found in self.satisfy(positive, env):
            if not any(self.exists(one.clauses, found) for one in negative):
                yield found

    def exists(self, clauses: Sequence[typed.Clause], env: Env) -> bool:
        return next(self.match(clauses, env), None) is not None

    def satisfy(self, clauses: Sequence[typed.Clause], env: Env) -> Iterator[Env]:
        if not clauses:
            yield env
            return
        for found in self.step(clauses[0], env):
            yield from self.satisfy(clauses[1:], found)

    def step(self, clause: typed.Clause, env: Env) -> Iterator[Env]:
        match clause:
            case typed.Binding():
                table = f"node:{clause.type_name}"
                for row in self.graph[table]:
                    found = bind(env, clause.var, Entity(table, row))
                    if found is not None and all(
                        self.holds(one, found) for one in clause.predicates
                    ):
                        yield found
            case typed.Traversal():
                yield from self.traverse(clause, env)
            case typed.Compare() | typed.IsNull():
                if self.holds(clause, env):
                    yield env
            case typed.Negation():
                raise AssertionError("negations come last")
            case _:
                assert_never(clause)

    def traverse(self, step: typed.Traversal, env: Env) -> Iterator[Env]:
        sources, targets = f"node:{step.src_type}", f"node:{step.dst_type}"
        by_id = {row["id"]: row for row in self.graph[targets]}
        for row in self.graph[sources]:
            here = bind(env, step.src, Entity(sources, row))
            if here is None:
                continue
            for target, edge in self.reached(step, row["id"]):
                if target not in by_id:
                    continue
                there = bind(here, step.dst, Entity(targets, by_id[target]))
                if there is None:
                    continue
                if edge is None:
                    yield there
                else:
                    assert step.edge_var is not None
                    yield {**there, step.edge_var: Entity(f"edge:{step.edge}", edge)}

    def reached(self, step: typed.Traversal, start: str) -> list[tuple[str, Row | None]]:
        """Return the ends of a step: each node once, or one entry per edge when it is named."""
        if step.edge_var is not None:
            return [
                (end, edge)
                for edge in self.graph[f"edge:{step.edge}"]
                for end in sorted(ends(edge, start, step.direction))
            ]
        most = step.max_hops if step.src_type == step.dst_type else min(step.max_hops, 1)
        known = {row["id"] for row in self.graph[f"node:{step.dst_type}"]}
        loops = step.src_type == step.dst_type
        kept: set[str] = set()
        seen = {start} if loops else set()
        frontier = {start}
        for depth in range(1, most + 1):
            reached = {
                end
                for node in frontier
                for edge in self.graph[f"edge:{step.edge}"]
                for end in ends(edge, node, step.direction)
            } & known
            if depth == 1 and step.min_hops == 1 and loops and start in reached:
                kept.add(start)
            frontier = reached - seen
            seen |= frontier
            if depth >= step.min_hops:
                kept |= frontier
        return [(end, None) for end in sorted(kept)]

    # Values

    def holds(self, predicate: typed.Predicate, env: Env) -> bool:
        match predicate:
            case typed.IsNull():
                return (self.value(predicate.operand, env) is None) != predicate.negated
            case typed.Compare():
                left, right = self.value(predicate.left, env), self.value(predicate.right, env)
                if is_single(predicate.left) and is_constant(predicate.right):
                    right = narrowed(right)
                if is_single(predicate.right) and is_constant(predicate.left):
                    left = narrowed(left)
                return compared(left, predicate.op, right)
            case _:
                assert_never(predicate)

    def value(self, expr: typed.Scalarish, env: Env) -> Any:
        match expr:
            case typed.Literal():
                return expr.value
            case typed.Param():
                return self.params[expr.name]
            case typed.Prop():
                return env[expr.var].row[expr.name]
            case typed.TextMatch():
                return self.text_matches(expr, env[expr.target.var])
            case typed.Nearest():
                return self.distance(expr, env[expr.var])
            case typed.Bm25():
                return self.relevance(expr, env[expr.var]) or 0.0
            case typed.Rrf():
                return self.fused[expr].get(env[expr.var].id)
            case typed.KeyId():
                raise AssertionError("only a rewrite makes these")
            case _:
                assert_never(expr)

    # Search

    def text_matches(self, call: typed.TextMatch, entity: Entity) -> bool:
        query, text = self.value(call.query, {}), entity.row[call.target.name]
        if query is None or text is None:
            return False
        edits = 0
        if call.fn is TextFn.FUZZY:
            edits = 2 if call.max_edits is None else self.value(call.max_edits, {})
        return any(
            edit_distance(wanted, term) <= edits for wanted in terms(query) for term in terms(text)
        )

    def relevance(self, score: typed.Bm25, entity: Entity) -> float | None:
        """Return BM25 over all texts of the column, or None when no query term occurs."""
        query, text = self.value(score.query, {}), entity.row[score.target.name]
        if query is None or text is None:
            return None
        name = score.target.name
        corpus = [terms(row[name]) for row in self.graph[entity.table] if row[name] is not None]
        average = sum(len(doc) for doc in corpus) / len(corpus) or 1.0
        doc = terms(text)
        total: float | None = None
        for term in terms(query):
            count = doc.count(term)
            if not count:
                continue
            having = sum(term in other for other in corpus)
            idf = math.log(1.0 + (len(corpus) - having + 0.5) / (having + 0.5))
            norm = 1.2 * (1.0 - 0.75 + 0.75 * len(doc) / average)
            part = idf * count * (1.2 + 1.0) / (count + norm)
            total = part if total is None else total + part
        return total

    def distance(self, score: typed.Nearest, entity: Entity) -> float | None:
        query, vector = self.value(score.query, {}), entity.row[score.target.name]
        if query is None or vector is None:
            return None
        query = [to_f32(one) for one in query]
        dot = sum(a * b for a, b in zip(vector, query, strict=True))
        lengths = math.sqrt(sum(a * a for a in vector)) * math.sqrt(sum(b * b for b in query))
        if lengths == 0.0:
            return 1.0
        return 1.0 - max(-1.0, min(1.0, dot / lengths))

    # Order

    def ordered(self, matched: list[Env]) -> list[tuple[int, Env]]:
        """Return the rows in order, with the place of each in the ranking if there is one."""
        ranking = self.query.ranking
        if ranking is None:
            names = sorted(self.query.variables) if self.query.order else self.query.variables
            keyed = [(self.order_keys(env) + ids(env, names), (0, env)) for env in matched]
            return sorted_by(keyed, self.directions())
        var = ranking.score.var
        names = [var, *(name for name in sorted(self.query.variables) if name != var)]
        places = self.places(ranking, nodes_of(var, matched))
        keyed = [
            ([place, *self.order_keys(env), *ids(env, names)], (place, env))
            for env in matched
            if (place := places.get(env[var].id)) is not None
        ]
        return sorted_by(keyed, [False, *self.directions()])

    def order_keys(self, env: Env) -> list[Any]:
        return [self.value(key.expr, env) for key in self.query.order]  # type: ignore[arg-type]

    def directions(self) -> list[bool]:
        return [key.descending for key in self.query.order]

    def places(self, ranking: typed.Ranking, nodes: Mapping[str, Entity]) -> dict[str, int]:
        """Return the place of every member; equal scores share one, fused ones are in order."""
        score = ranking.score
        if isinstance(score, typed.Rrf):
            # A dict keeps the primary arm's order, then the newcomers; sorting is stable.
            order = sorted(self.fused[score], key=lambda node: -self.fused[score][node])
            order = order if ranking.best_first else order[::-1]
            return {node: place for place, node in enumerate(order)}
        worth = self.arm(score, nodes)
        steps = sorted(set(worth.values()), reverse=not ranking.best_first)
        return {node: steps.index(one) for node, one in worth.items()}

    def fusions(self) -> list[typed.Rrf]:
        exprs = [column.expr for column in self.query.columns]
        exprs += [key.expr for key in self.query.order]
        exprs += [] if self.query.ranking is None else [self.query.ranking.score]
        exprs += [one.arg for one in exprs if isinstance(one, typed.Aggregate) and one.arg]
        return [one for one in exprs if isinstance(one, typed.Rrf)]

    def fuse(self, score: typed.Rrf, matched: list[Env]) -> Worth:
        """Return the fused score of every member of either arm, the primary arm's first."""
        nodes = nodes_of(score.var, matched)
        k = self.value(score.k, {})
        fused: Worth = {}
        for arm in (score.first, score.second):
            worth = self.arm(arm, nodes)
            best = sorted(worth, key=lambda node: (worth[node], node))
            if isinstance(arm, typed.Nearest) and self.limit is not None:
                best = best[: self.offset + self.limit]
            for place, node in enumerate(best):
                fused[node] = fused.get(node, 0.0) + 1.0 / (k + place + 1)
        return fused

    def arm(self, score: typed.Nearest | typed.Bm25, nodes: Mapping[str, Entity]) -> Worth:
        """Return the members of a ranking; smaller is better."""
        if isinstance(score, typed.Nearest):
            near = {node: self.distance(score, one) for node, one in nodes.items()}
            return {node: one for node, one in near.items() if one is not None}
        found = {node: self.relevance(score, one) for node, one in nodes.items()}
        return {node: -one for node, one in found.items() if one is not None}

    # Results

    def project(self, env: Env) -> Row:
        return {
            column.name: self.value(column.expr, env)  # type: ignore[arg-type]
            for column in self.query.columns
        }

    def distinct(self, matched: list[Env]) -> list[Row]:
        """Return different rows: by rank, by their order keys, then by their columns."""
        seen: dict[tuple[Any, ...], tuple[list[Any], Row]] = {}
        for place, env in self.ordered(matched):
            row = self.project(env)
            # The first of equal rows is the best placed one.
            keys = [place, *self.order_keys(env), *row.values()]
            seen.setdefault(tuple(map(frozen, row.values())), (keys, row))
        return sorted_by(list(seen.values()), [False, *self.directions()])

    def grouped(self, matched: list[Env]) -> list[Row]:
        """Return one row per group: the columns that are no aggregates are its key."""
        plain = [one for one in self.query.columns if not isinstance(one.expr, typed.Aggregate)]
        groups: dict[tuple[Any, ...], list[Env]] = {}
        for env in matched:
            key = tuple(frozen(self.value(one.expr, env)) for one in plain)  # type: ignore[arg-type]
            groups.setdefault(key, []).append(env)
        if not plain and not groups:
            groups[()] = []
        keyed: list[tuple[list[Any], Row]] = []
        for envs in groups.values():
            row = {one.name: self.group_value(one.expr, envs) for one in self.query.columns}
            order = [self.group_value(key.expr, envs) for key in self.query.order]
            keyed.append(([*order, *(row[one.name] for one in plain)], row))
        if self.query.distinct:
            return self.distinct_groups(keyed)
        return sorted_by(keyed, self.directions())

    def distinct_groups(self, keyed: list[tuple[list[Any], Row]]) -> list[Row]:
        count = len(self.query.order)
        seen: dict[tuple[Any, ...], tuple[list[Any], Row]] = {}
        for keys, row in keyed:
            found = ([*keys[:count], *row.values()], row)
            seen.setdefault(tuple(map(frozen, row.values())), found)
        return sorted_by(list(seen.values()), self.directions())

    def group_value(self, expr: typed.Expr, envs: list[Env]) -> Any:
        if not isinstance(expr, typed.Aggregate):
            return self.value(expr, envs[0])
        if expr.arg is None:
            return len(envs)
        values = [one for env in envs if (one := self.value(expr.arg, env)) is not None]
        if expr.distinct:
            values = list({frozen(one): one for one in values}.values())
        if expr.fn is AggregateFn.COUNT:
            return len(values)
        if not values:
            return None
        match expr.fn:
            case AggregateFn.SUM:
                return exact_sum(values)
            case AggregateFn.AVG:
                return exact_sum(values) / len(values)
            case AggregateFn.MIN:
                return min(values)
            case AggregateFn.MAX:
                return max(values)
            case _:
                assert_never(expr.fn)


# Rows and edges


def bind(env: Env, var: str | None, entity: Entity) -> Env | None:
    """Return the row with one more variable, or None when the name stands for something else."""
    if var is None:
        return env
    known = env.get(var)
    if known is None:
        return {**env, var: entity}
    return env if (known.table, known.id) == (entity.table, entity.id) else None


def ends(edge: Row, start: str, direction: typed.Direction) -> set[str]:
    """Return where an edge leads from a node."""
    found: set[str] = set()
    if direction is not typed.Direction.IN and edge["src"] == start:
        found.add(edge["dst"])
    if direction is not typed.Direction.OUT and edge["dst"] == start:
        found.add(edge["src"])
    return found


def nodes_of(var: str, matched: list[Env]) -> dict[str, Entity]:
    return {env[var].id: env[var] for env in matched}


def is_constant(expr: typed.Scalarish) -> bool:
    return isinstance(expr, typed.Literal | typed.Param)


def is_single(expr: typed.Scalarish) -> bool:
    """Whether an operand is a stored number of single precision."""
    return isinstance(expr, typed.Prop) and expr.type.scalar is Scalar.F32


def ids(env: Env, names: Sequence[str]) -> list[str]:
    return [env[name].id for name in names]
