"""Scores as columns: what is computed where rows are read, and what needs all of them first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import keep
from omnigraph.base.runner import Runner
from omnigraph.base.table_keys import is_node_key, type_of
from omnigraph.compiler.catalog.model import ID
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Compare,
    Expand,
    Filter,
    Join,
    NodeScan,
    Op,
    Predicate,
    iter_ops,
    operands,
)
from omnigraph.compiler.ir.reads import bindings
from omnigraph.compiler.query.typed import Aggregate, Bm25, Nearest, Prop, Rrf
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.image.analyzer import analyze
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.image.table import fresh_image
from omnigraph.engine.read.context import Ranked
from omnigraph.engine.read.evaluate import value_of
from omnigraph.engine.read.fuse import fused_all
from omnigraph.engine.read.prepare import Prepared, Stage
from omnigraph.engine.read.window import Window
from omnigraph.errors import BadRequestError
from omnigraph.pipeline.query.match import Bound, Matcher
from omnigraph.pipeline.query.scan import NO_WORDS, SCORE, CountWords, ScoreColumn, Words
from omnigraph.pipeline.query.support import predicates_of
from omnigraph.pipeline.stages.fragments import table_pieces
from omnigraph.storage.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBER = PropType(Scalar.F64, nullable=True)
_PLACE, _FUSED = f"{SCORE}:place", f"{SCORE}:fused"


@dataclass(frozen=True, slots=True)
class Scores:
    """Every score a query speaks of, by the column it becomes."""

    names: Mapping[Nearest | Bm25 | Rrf, str]

    @classmethod
    def of(cls, plan: Prepared) -> Scores:
        """Return the scores of a plan, the two of every fused one included."""
        ir = plan.ir
        exprs = [one.expr for one in ir.columns] + [key.expr for key in ir.order]
        exprs += [] if ir.ranking is None else [ir.ranking.score]
        exprs += [
            side
            for op in iter_ops(ir.ops)
            for predicate in predicates_of(op)
            for side in operands(predicate)
        ]
        found: dict[Nearest | Bm25 | Rrf, None] = {}
        for expr in exprs:
            inner = expr.arg if isinstance(expr, Aggregate) else expr
            match inner:
                case Nearest() | Bm25():
                    found[inner] = None
                case Rrf():
                    found |= dict.fromkeys((inner.first, inner.second, inner))
                case _:
                    pass
        return cls({one: f"{SCORE}{at}" for at, one in enumerate(found)})

    def column(self, score: Nearest | Bm25 | Rrf) -> Prop:
        """Return what rows are ranked by: null where a node is not."""
        name = self.names[score]
        return Prop(score.var, name + _PLACE if isinstance(score, Rrf) else name, NUMBER)

    def shown(self, expr: Any) -> Any:  # noqa: ANN401 - an expression, as it was or changed
        """Return an expression with every score as the column that holds its value."""
        match expr:
            case Nearest():
                return Prop(expr.var, self.names[expr], expr.type)
            case Bm25():
                return Prop(expr.var, self.names[expr] + _FILLED, expr.type)
            case Rrf():
                return Prop(expr.var, self.names[expr] + _FUSED, expr.type)
            case Aggregate() if expr.arg is not None:
                return replace(expr, arg=self.shown(expr.arg))
            case _:
                return expr

    @property
    def fused(self) -> list[Prop]:
        """The columns that fused scores are made of."""
        arms = (
            arm for one in self.names if isinstance(one, Rrf) for arm in (one.first, one.second)
        )
        return [self.column(arm) for arm in arms]

    def inside(self, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        """Return operators that compare columns where they compared scores."""
        return tuple(
            replace(one, op=self._scored(one.op), inner=self.inside(one.inner)) for one in stages
        )

    def _scored(self, op: Op) -> Op:
        match op:
            case NodeScan():
                return replace(op, filters=self._all(op.filters))
            case Expand():
                kept = self._all(op.dst_filters)
                return replace(op, dst_filters=kept, edge_filters=self._all(op.edge_filters))
            case Filter():
                return replace(op, predicate=self._all((op.predicate,))[0])
            case AntiJoin() | Join():
                return op  # its inner operators are stages of their own
            case _:
                assert_never(op)

    def _all(self, predicates: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
        return tuple(
            replace(one, left=self.shown(one.left), right=self.shown(one.right))
            if isinstance(one, Compare)
            else replace(one, operand=self.shown(one.operand))
            for one in predicates
        )


_FILLED = ":filled"


def score_columns(
    scores: Scores, plan: Prepared, snapshot: Snapshot, params: Mapping[str, Any], runner: Runner
) -> dict[tuple[str, str], tuple[ScoreColumn, ...]]:
    """Return what is computed beside the rows of every variable; words are counted for it first."""
    found: dict[tuple[str, str], list[ScoreColumn]] = {}
    for var, key in dict.fromkeys(one for op in iter_ops(plan.ir.ops) for one in bindings(op)):
        for score, name in scores.names.items():
            if isinstance(score, Rrf) or score.var != var or not is_node_key(key):
                continue
            words = NO_WORDS
            listed = found.setdefault((var, type_of(key)), [])
            if isinstance(score, Bm25):
                words = _counted(score, key, snapshot, params, runner)
                listed.append(ScoreColumn(name + _FILLED, score, words, fill=0.0))
            listed.append(ScoreColumn(name, score, words))
    return {at: tuple(listed) for at, listed in found.items()}


def _counted(
    score: Bm25, key: str, snapshot: Snapshot, params: Mapping[str, Any], runner: Runner
) -> Words:
    query = value_of(score.query, params)
    terms = () if query is None else tuple(dict.fromkeys(analyze(query)))
    if not terms:
        return NO_WORDS
    pieces = table_pieces(snapshot, key, 4 * runner.parallelism)
    count = CountWords(score.target.name, terms)
    return sum(runner.map(count, pieces), NO_WORDS)


def with_fused(
    rows: Bound,
    scores: Scores,
    window: Window,
    params: Mapping[str, Any],
    matcher: Matcher,
    collect: Callable[[DataFrame], pa.Table],
) -> Bound:
    """Return rows with fused scores, which depend on every node of the match."""
    for score, name in scores.names.items():
        if isinstance(score, Rrf):
            fused = _fused(rows, score, scores, window, params, collect)
            made = matcher.session.createDataFrame(fused)
            slots = {
                (score.var, name + end): matcher.slot(score.var, name + end, pa.float64())
                for end in (_FUSED, _PLACE)
            }
            made = made.toDF("node", *[slot.name for slot in slots.values()])
            frame = rows.frame.join(made, rows.col(score.var) == made["node"], "left").drop("node")
            rows = Bound(frame, {**rows.slots, **slots})
    return rows


def _fused(
    rows: Bound,
    score: Rrf,
    scores: Scores,
    window: Window,
    params: Mapping[str, Any],
    collect: Callable[[DataFrame], pa.Table],
) -> pa.Table:
    k = value_of(score.k, params)
    if k is None or k <= 0:
        raise BadRequestError(f"rrf: k must be positive, got {k}", hint="60 is the usual value")
    arms = (score.first, score.second)
    columns = [rows.named(score.var, ID)]
    columns += [rows.named(score.var, scores.names[arm]) for arm in arms]
    nodes = rows.frame.select(*columns).toDF(ID, "first", "second").distinct()
    found = collect(nodes.where("first is not null or second is not null"))
    keep("rrf", found.nbytes)
    found = found.sort_by(ID)
    image = fresh_image(found.num_rows, lambda names: found.select(list(names)))
    ranked = []
    for arm, name in zip(arms, ("first", "second"), strict=True):
        column = one_array(found[name])
        at = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        numbers = column.to_numpy(zero_copy_only=False)[at]
        nearest = isinstance(arm, Nearest)
        # Every node has some distance, so that arm is cut; whatever matches a word stays.
        ranked.append(
            (Ranked(at, numbers, numbers if nearest else -numbers), window.end if nearest else None)
        )
    done = fused_all(ranked, k, image)
    return pa.table(
        {
            ID: image.column(ID).take(done.positions),
            "fused": pa.array(done.scores, pa.float64()),
            "place": pa.array(done.keys, pa.float64()),
        }
    )
