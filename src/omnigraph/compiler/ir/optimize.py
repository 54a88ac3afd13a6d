"""The rewrites, in the order they run. They change cost, never rows and never their order."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.compiler.ir.facts import Facts
from omnigraph.compiler.ir.ops import Ir
from omnigraph.compiler.ir.rules.join_order import join_order
from omnigraph.compiler.ir.rules.key_is_id import key_is_id
from omnigraph.compiler.ir.rules.key_lookup import key_lookup
from omnigraph.compiler.ir.rules.push_filters import push_filters
from omnigraph.compiler.ir.rules.reach_negated import reach_negated

Rule = Callable[[Ir, Facts], Ir]

RULES: tuple[Rule, ...] = (
    push_filters,
    reach_negated,
    key_lookup,
    key_is_id,
    join_order,
)


def optimize(ir: Ir, facts: Facts) -> Ir:
    """Return the IR after every rewrite."""
    for rule in RULES:
        ir = rule(ir, facts)
    return ir
