"""A plan made ready to run: what can be known of it without looking at rows, worked out once.

Every operator learns which variables are still needed behind it, so that the others are dropped,
and whether equal rows may be merged then: a query that returns distinct rows, or counts distinct
values, gives the same answer with each row once, and a walk that merges them visits every node
once per step instead of once per path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from omnigraph.base.table_keys import is_edge_key, type_of
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Compare,
    Expand,
    Filter,
    Join,
    NodeScan,
    Op,
    ReadIr,
    bound_by,
    expr_vars,
    predicate_vars,
)
from omnigraph.compiler.ir.pattern import closed_end
from omnigraph.compiler.ir.reads import bound_tables
from omnigraph.compiler.operations import AggregateFn, CompareOp
from omnigraph.compiler.query.typed import Aggregate, Expr, Nearest, Prop, Rrf
from omnigraph.engine.read.point import Point, point_of
from omnigraph.engine.search.queries import with_vector_params

Types = Mapping[str, tuple[str, bool]]
"""The table behind every variable: its name, and whether it holds edges."""

_TAG = "~row"
"""Names the outer row inside an anti-join; one more `~` per nesting level."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator of a plan.

    `keep` are the variables needed behind it; `once` says that equal rows may be merged. `into`
    is the bound node an expand has to end in: it then only keeps rows. An anti-join runs its
    inner stages on the outer variables it `uses`, and knows a row again by its number: `tag`. A
    join runs its inner stages by themselves.
    """

    op: Op
    keep: frozenset[str]
    once: bool
    into: str | None = None
    inner: tuple[Stage, ...] = ()
    tag: str = ""
    uses: frozenset[str] = frozenset()
    types: Types | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self.op).__name__


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A read ready to run on any images of its schema."""

    ir: ReadIr
    """What runs: its distances are to vectors alone."""
    shown: ReadIr
    """The same as it was asked for, for people."""
    stages: tuple[Stage, ...]
    types: Types
    fusions: tuple[Rrf, ...]
    """The fused scores the query speaks of: they are known only for the match as a whole."""
    tie_breakers: tuple[str, ...]
    """The variables whose ids settle ties."""
    is_aggregate: bool
    is_set: bool
    """Whether no two rows are equal once all operators have run."""
    is_led: bool
    """Whether the operators start at the ranked node and go on from there."""
    point: Point | None
    """The lookup the query is, if it is nothing more."""

    def needs_best_only(self, score: Rrf) -> bool:
        """Whether nodes that do not come first by a fused score may be left out of it."""
        ranking = self.ir.ranking
        ranks = ranking is not None and ranking.best_first and ranking.score == score
        return ranks and not (self.is_aggregate or self.ir.distinct)


def prepare(ir: ReadIr, texts: tuple[Nearest, ...] = ()) -> Prepared:
    """Work out what every operator of a plan needs to know.

    `texts` are its distances to a text, which are given their vectors as parameters of a run.
    """
    shown, ir = ir, with_vector_params(ir, texts)
    is_set = _is_set(ir)
    stages = _stages(ir.ops, _wanted(ir), once=is_set, types={}, tag=_TAG)
    return Prepared(
        ir,
        shown,
        stages,
        variable_types(ir.ops),
        tuple(_fusions(ir)),
        _tie_breakers(ir),
        ir.is_aggregate,
        is_set,
        _is_led(ir),
        point_of(ir),
    )


def keeping_all(plan: Prepared) -> Prepared:
    """Return the same plan for who asks what its rows bind: no variable is dropped on the way."""
    closed = {step.dst for step in walked(plan.ir.ops) if step.end != step.dst}
    kept = _wanted(plan.ir) | (plan.types.keys() - closed)
    stages = _stages(plan.ir.ops, kept, once=False, types={}, tag=_TAG)
    return replace(plan, stages=stages, is_set=False, point=None)


@dataclass(frozen=True, slots=True)
class Step:
    """A traversal of a match; `end` is the node it leads to, under the name that is kept."""

    op: Expand
    end: str

    @property
    def dst(self) -> str:
        """The name the traversal itself gives to where it leads."""
        return self.op.dst


def walked(ops: Sequence[Op]) -> list[Step]:
    """Return the traversals of a match, but those inside `not`, which leave nothing behind."""
    found: list[Step] = []
    for op, after in zip(ops, (*ops[1:], None), strict=True):
        match op:
            case Expand():
                found.append(Step(op, closed_end(op, after) or op.dst))
            case Join():
                found += walked(op.inner)
            case NodeScan() | Filter() | AntiJoin():
                pass
    return found


def variable_types(ops: Sequence[Op]) -> dict[str, tuple[str, bool]]:
    """Return the type behind every variable operators bind, and whether it is one of edges."""
    return {var: (type_of(key), is_edge_key(key)) for var, key in bound_tables(ops).items()}


def _is_set(ir: ReadIr) -> bool:
    """Whether an answer does not change when equal rows are merged."""
    if not ir.is_aggregate:
        return ir.distinct
    exprs = [*(column.expr for column in ir.columns), *(key.expr for key in ir.order)]
    return all(
        expr.distinct or expr.fn in {AggregateFn.MIN, AggregateFn.MAX}
        for expr in exprs
        if isinstance(expr, Aggregate)
    )


def _is_led(ir: ReadIr) -> bool:
    """Whether better nodes are known before the match around them.

    A fused rank depends on every node of the match, and groups and distinct rows on every row.
    """
    if ir.ranking is None or not ir.ranking.best_first or isinstance(ir.ranking.score, Rrf):
        return False
    first = ir.ops[0]
    starts = isinstance(first, NodeScan) and first.var == ir.ranking.score.var
    return starts and len(ir.ops) > 1 and not (ir.is_aggregate or ir.distinct)


def _wanted(ir: ReadIr) -> frozenset[str]:
    """Return the variables needed once all operators have run."""
    exprs: list[Expr] = [column.expr for column in ir.columns]
    exprs += [key.expr for key in ir.order]
    exprs += [] if ir.ranking is None else [ir.ranking.score]
    used = frozenset().union(*(expr_vars(expr) for expr in exprs))
    # Rows that are neither grouped nor distinct are told apart and ordered by all their ids.
    return used if ir.is_aggregate or ir.distinct else used | set(ir.variables)


def _stages(
    ops: Sequence[Op], wanted: Set[str], *, once: bool, types: Types, tag: str
) -> tuple[Stage, ...]:
    """Return operators with what is needed behind each, worked out from the last to the first."""
    types = {**types, **variable_types(ops)}
    found: list[Stage] = []
    keep = frozenset(wanted)
    at = len(ops)
    while at:
        at -= 1
        op, into = ops[at], None
        if isinstance(op, Filter) and at:
            into = _closing(ops[at - 1], op, keep, types)
            if into is not None:
                at -= 1
                op = ops[at]
        if isinstance(op, AntiJoin):
            inner = _stages(op.inner, {tag}, once=True, types=types, tag="~" + tag)
            within = {**types, **variable_types(op.inner)}
            needed = _needed_before(inner[0]) if inner else frozenset()
            uses = needed - variable_types(op.inner).keys() - {tag}
            found.append(Stage(op, keep, once, None, inner, tag, uses, within))
        elif isinstance(op, Join):
            compared = {name for one in op.on for name in predicate_vars(one)}
            own = (keep | compared) & set(bound_by(op))
            inner = _stages(op.inner, own, once=once, types=types, tag=tag)
            found.append(Stage(op, keep, once, None, inner))
        else:
            found.append(Stage(op, keep, once, into))
        keep = _needed_before(found[-1])
    return tuple(reversed(found))


def _needed_before(stage: Stage) -> frozenset[str]:
    """Return the variables needed in front of a stage."""
    match stage.op:
        case NodeScan(var=var):
            return stage.keep - {var}
        case Expand(src=src, dst=dst, edge_var=edge):
            ends = {src} if stage.into is None else {src, stage.into}
            return (stage.keep - {dst, edge}) | ends
        case Filter(predicate=predicate):
            return stage.keep | predicate_vars(predicate)
        case AntiJoin():
            return stage.keep | stage.uses
        case Join():
            compared = {name for one in stage.op.on for name in predicate_vars(one)}
            return (stage.keep | compared) - set(bound_by(stage.op))


def _closing(op: Op, closing: Filter, keep: Set[str], types: Types) -> str | None:
    """Return the node a step has to end in, when all a pair does is ask for such a step."""
    match op, closing.predicate:
        case (
            Expand(dst=dst, max_hops=1, edge_var=None, dst_filters=()),
            Compare(Prop(left, "id"), CompareOp.EQ, Prop(right, "id")),
        ) if dst in (left, right) and left != right and dst not in keep:
            other = right if left == dst else left
            return other if types[other] == types[dst] else None
        case _:
            return None


def _fusions(ir: ReadIr) -> list[Rrf]:
    exprs: list[Expr | None] = [column.expr for column in ir.columns]
    exprs += [key.expr for key in ir.order]
    exprs += [expr.arg for expr in exprs if isinstance(expr, Aggregate)]
    exprs += [] if ir.ranking is None else [ir.ranking.score]
    return list(dict.fromkeys(expr for expr in exprs if isinstance(expr, Rrf)))


def _tie_breakers(ir: ReadIr) -> tuple[str, ...]:
    """Return the variables whose ids settle ties.

    Without an order, as they were declared; with one, by name; in a ranking its own node first,
    so that the rows of one node stay together.
    """
    if ir.ranking is None:
        return tuple(sorted(ir.variables)) if ir.order else ir.variables
    var = ir.ranking.score.var
    return (var, *(name for name in sorted(ir.variables) if name != var))
