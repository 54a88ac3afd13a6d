"""Rules that a row can break by itself: required, enum, finite, range, pattern.

Null is exempt from every rule but the first. Needs no snapshot, so it runs wherever rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.violations import Rule, Violation
from omnigraph.compiler.catalog.model import ID, Check, EdgeType, NodeType, Range
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.image.arrays import Ints, Mask, one_array
from omnigraph.engine.read.compare import compare_value, mask_of
from omnigraph.engine.write.columns import says_something
from omnigraph.engine.write.violations import Broken


def broken_values(
    kind: NodeType | EdgeType, rows: pa.Table, *, filled: bool = True
) -> Iterator[Broken]:
    """Yield the rules that values of these rows break.

    Without `filled` the vectors a schema asks to be made from text are still to come: such a
    vector is only missing for good where its text is missing too.
    """
    for name, prop in kind.properties.items():
        if not prop.type.nullable and rows[name].null_count:
            yield from _required(kind, name, rows, filled=filled)
        if prop.type.enum_values is not None:
            yield from _enum(kind, name, prop.type, rows)
        if prop.type.scalar in (Scalar.F32, Scalar.F64, Scalar.VECTOR):
            yield from _finite(kind, name, prop.type, rows)
    if isinstance(kind, NodeType):
        for limit in kind.ranges:
            yield from _range(kind, limit, rows)
        for check in kind.checks:
            yield from _check(kind, check, rows)


def _required(
    kind: NodeType | EdgeType, prop: str, rows: pa.Table, *, filled: bool
) -> Iterator[Broken]:
    missing = mask_of(pc.is_null(one_array(rows[prop])))
    embed = kind.embeds.get(prop) if isinstance(kind, NodeType) else None
    silent = np.zeros(len(rows), bool)
    if embed is not None and not embed.by_hand:
        silent = ~mask_of(says_something(one_array(rows[embed.source])))
        if not filled:
            missing &= silent

    def tell(at: int) -> tuple[Any, str]:
        text = f"{kind.name}.{prop}: null in a required property"
        if embed is not None and silent[at]:
            text += f"; `{embed.source}` has no words to make it from"
        return None, text

    yield from _broken(Rule.REQUIRED, kind, prop, rows, missing, tell)


def _enum(
    kind: NodeType | EdgeType, prop: str, found: PropType, rows: pa.Table
) -> Iterator[Broken]:
    allowed = pa.array(found.enum_values, pa.string())
    values = one_array(rows[prop])
    bad = mask_of(pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, value_set=allowed))))
    expected = ", ".join(found.enum_values or ())

    def tell(at: int) -> tuple[Any, str]:
        value = values[at].as_py()
        return (
            value,
            f"invalid enum value '{value}' for {kind.name}.{prop} (expected: {expected})",
        )

    yield from _broken(Rule.ENUM, kind, prop, rows, bad, tell)


def _finite(
    kind: NodeType | EdgeType, prop: str, found: PropType, rows: pa.Table
) -> Iterator[Broken]:
    values = one_array(rows[prop])
    if found.scalar is Scalar.VECTOR or found.is_list:
        flat = values.flatten()
        if not len(flat) or pc.all(pc.is_finite(flat)).as_py() is not False:
            return
        bad = np.asarray([_has_odd(one) for one in values.to_pylist()])
    else:
        bad = mask_of(pc.invert(pc.is_finite(values)))
    text = f"{kind.name}.{prop}: not a finite number"
    yield from _broken(Rule.TYPE, kind, prop, rows, bad, lambda _: (None, text))


def _has_odd(values: Sequence[float | None] | None) -> bool:
    return values is not None and any(v is not None and not np.isfinite(v) for v in values)


def _range(kind: NodeType, limit: Range, rows: pa.Table) -> Iterator[Broken]:
    values = one_array(rows[limit.prop])
    sides = (
        (limit.min, CompareOp.LT, "< min"),
        (limit.max, CompareOp.GT, "> max"),
    )
    for bound, outside, words in sides:
        if bound is None:
            continue

        def tell(at: int, said: str = f"{words} {bound}") -> tuple[Any, str]:
            value = values[at].as_py()
            return value, f"@range violation on {kind.name}.{limit.prop}: value {value} {said}"

        bad = compare_value(values, outside, bound)
        yield from _broken(Rule.RANGE, kind, limit.prop, rows, bad, tell)


def _check(kind: NodeType, check: Check, rows: pa.Table) -> Iterator[Broken]:
    values = one_array(rows[check.prop])
    plain = values.flatten() if pa.types.is_list(values.type) else values
    owners = (
        pc.list_parent_indices(values).to_numpy() if plain is not values else np.arange(len(values))
    )
    bad = np.flatnonzero(mask_of(pc.invert(pc.match_substring_regex(plain, check.pattern))))

    def tell(number: int) -> Violation:
        value = plain[int(bad[number])].as_py()
        text = (
            f"@check violation on {kind.name}.{check.prop}: "
            f"value '{value}' does not match pattern '{check.pattern}'"
        )
        row_id = rows[ID][int(owners[bad[number]])].as_py()
        return Violation(Rule.CHECK, kind.name, text, check.prop, row_id, value)

    if len(bad):
        yield Broken(Rule.CHECK, kind.table_key, owners[bad], tell, (check.prop,))


def _broken(
    rule: Rule,
    kind: NodeType | EdgeType,
    prop: str,
    rows: pa.Table,
    bad: Mask,
    describe: Callable[[int], tuple[Any, str]],
) -> Iterator[Broken]:
    """Yield the rows a mask marks; `describe` gives value and message of one row."""
    at: Ints = np.flatnonzero(bad)

    def tell(number: int) -> Violation:
        row = int(at[number])
        value, text = describe(row)
        return Violation(rule, kind.name, text, prop, rows[ID][row].as_py(), value)

    if len(at):
        yield Broken(rule, kind.table_key, at, tell, (prop,))
