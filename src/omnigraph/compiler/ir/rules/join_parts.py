"""Parts of a match that no edge connects are joined on the values their variables share.

`$a.age = $b.age` then costs the rows of both sides and those that match, not their product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from omnigraph.compiler.ir.facts import Facts
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Compare,
    Expand,
    Filter,
    Ir,
    Join,
    NodeScan,
    Op,
    Predicate,
    Prop,
    ReadIr,
    bound_by,
    predicate_vars,
)
from omnigraph.compiler.ir.pattern import walk_end
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.types import FLOATS, INTEGERS, PropType, Scalar

_ALIKE = frozenset({Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME})


def join_parts(ir: Ir, facts: Facts) -> Ir:  # noqa: ARG001 - every rule has this signature
    """Return the IR with joins instead of products wherever an equality connects two parts."""
    return replace(ir, ops=_joined(ir.ops, frozenset())) if isinstance(ir, ReadIr) else ir


def _joined(ops: Sequence[Op], outer: Set[str]) -> tuple[Op, ...]:
    end = walk_end(ops)
    walk, rest = ops[:end], list(ops[end:])
    bound = outer | {name for op in walk for name in bound_by(op)}
    inside = [
        replace(op, inner=_joined(op.inner, bound)) if isinstance(op, AntiJoin) else op
        for op in rest
    ]
    equalities = [one for op in inside if (one := _equality(op)) is not None]
    if not equalities:
        return (*walk, *inside)
    made, used = _connected(list(_parts(walk, outer)), equalities, set(outer))
    if not used:
        return (*walk, *inside)
    left = (op for op in inside if not (isinstance(op, Filter) and op.predicate in used))
    return (*made, *left)


@dataclass(slots=True)
class _Part:
    """Operators that hang together, and what they bind; `rooted` ones start at an outer row."""

    ops: list[Op]
    bound: set[str]
    rooted: bool = False


def _parts(walk: Sequence[Op], outer: Set[str]) -> Iterator[_Part]:
    """Yield the connected parts of a walk; those that start at the outer row come first."""
    parts: list[_Part] = []
    for op in walk:
        match op:
            case NodeScan():
                parts.append(_Part([op], {op.var}))
            case Expand():
                part = next((one for one in parts if op.src in one.bound), None)
                if part is None:
                    part = _Part([], set(), rooted=op.src in outer)
                    parts.append(part)
                part.ops.append(op)
                part.bound |= set(bound_by(op))
            case Filter():  # closes the step in front of it
                needed = predicate_vars(op.predicate) - outer
                parts = _merged(parts, needed)
                next(one for one in parts if needed <= one.bound).ops.append(op)
            case AntiJoin() | Join():
                parts = [_Part([*walk], set())]
                break
    yield from (part for part in parts if part.rooted)
    yield from (part for part in parts if not part.rooted)


def _merged(parts: list[_Part], needed: Set[str]) -> list[_Part]:
    """Return the parts, those that a filter looks at as one."""
    touched = [part for part in parts if part.bound & needed]
    if len(touched) < 2:
        return parts
    whole = _Part(
        [op for part in touched for op in part.ops],
        {name for part in touched for name in part.bound},
        any(part.rooted for part in touched),
    )
    return [whole if part is touched[0] else part for part in parts if part not in touched[1:]]


def _connected(
    parts: list[_Part], equalities: Sequence[Compare], bound: set[str]
) -> tuple[list[Op], list[Predicate]]:
    """Return the operators of all parts, one after another, and the equalities they join on."""
    made: list[Op] = []
    used: list[Predicate] = []
    while parts:
        at, on = (0, ()) if parts[0].rooted else _next(parts, equalities, bound)
        part = parts.pop(at)
        if on:
            made.append(Join(tuple(part.ops), on))
            used += on
        else:
            made += part.ops
        bound |= part.bound
    return made, used


def _next(
    parts: Sequence[_Part], equalities: Sequence[Compare], bound: Set[str]
) -> tuple[int, tuple[Compare, ...]]:
    """Return the first part that can be joined and what on; without any, the first part."""
    for at, part in enumerate(parts):
        on = tuple(
            one
            for one in equalities
            if all(
                len(predicate_vars(one) & side) == 1 for side in (bound - part.bound, part.bound)
            )
        )
        if on:
            return at, on
    return 0, ()


def _equality(op: Op) -> Compare | None:
    """Return the equality of two variables a filter asks for, if rows can be joined on it."""
    match op:
        case Filter(predicate=Compare(Prop() as left, CompareOp.EQ, Prop() as right) as one):
            alike = left.var != right.var and _comparable(left.type, right.type)
            return one if alike else None
        case _:
            return None


def _comparable(left: PropType, right: PropType) -> bool:
    """Whether equal values of two columns are the same value of one type."""
    if left.is_list or right.is_list:
        return False
    if left.scalar is right.scalar:
        return left.scalar in _ALIKE | INTEGERS | FLOATS
    kinds = {left.scalar, right.scalar}
    return kinds <= FLOATS or kinds <= INTEGERS - {Scalar.U64}
