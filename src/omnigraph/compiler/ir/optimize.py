"""The rewrites, in the order they run. They change cost, never rows and never their order.

The logical ones need the schema alone and run once, when a query is compiled; the others weigh what
is known of the data and run when it is planned for a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.compiler.ir.facts import Facts
from omnigraph.compiler.ir.ops import Ir
from omnigraph.compiler.ir.rules.join_order import join_order
from omnigraph.compiler.ir.rules.join_parts import join_parts
from omnigraph.compiler.ir.rules.key_is_id import key_is_id
from omnigraph.compiler.ir.rules.key_lookup import key_lookup
from omnigraph.compiler.ir.rules.part_joins import part_joins
from omnigraph.compiler.ir.rules.push_filters import push_filters
from omnigraph.compiler.ir.rules.reach_negated import reach_negated

Rule = Callable[[Ir, Facts], Ir]

LOGICAL: tuple[Rule, ...] = (part_joins, push_filters, reach_negated, key_lookup, key_is_id)
COST: tuple[Rule, ...] = (join_order, join_parts)
RULES = (*LOGICAL, *COST)


def rewrite(ir: Ir, facts: Facts, rules: tuple[Rule, ...]) -> Ir:
    """Return the IR after some rewrites, in their order."""
    for rule in rules:
        ir = rule(ir, facts)
    return ir


def optimize(ir: Ir, facts: Facts) -> Ir:
    """Return the IR after every rewrite."""
    return rewrite(ir, facts, RULES)
