"""An operator that makes no sense cannot be built."""

from __future__ import annotations

import pytest

from omnigraph.compiler.ir.key_id import canonical_text, key_id
from omnigraph.compiler.ir.mutation_mix import MixedMutationError, check_mutation_mix
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Column,
    Compare,
    Delete,
    Direction,
    Expand,
    Filter,
    InsertNode,
    Literal,
    MutationIr,
    NodeScan,
    Prop,
    ReadIr,
    Update,
)
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.errors import BadRequestError, InternalError

STRING, I64 = PropType(Scalar.STRING), PropType(Scalar.I64)
OUT = Direction.OUT
P_NAME = Prop("p", "name", STRING)
SCAN = NodeScan("p", "Person")


def same(left: str, right: str) -> Compare:
    return Compare(Prop(left, "id", STRING), CompareOp.EQ, Prop(right, "id", STRING))


def read(*ops) -> ReadIr:
    return ReadIr("q", (), ops, ("p",), (Column("p.name", P_NAME),))


@pytest.mark.parametrize(
    ("build", "rule"),
    [
        pytest.param(lambda: Expand("a", "a", "K", OUT, "P"), "introduces", id="same ends"),
        pytest.param(lambda: Expand("a", "b", "K", OUT, "P", 0, 1), "hops", id="no hop"),
        pytest.param(lambda: Expand("a", "b", "K", OUT, "P", 3, 2), "hops", id="hops reversed"),
        pytest.param(lambda: Expand("a", "b", "K", OUT, "P", 1, 2, "w"), "one hop", id="edge path"),
        pytest.param(
            lambda: Expand("a", "b", "K", OUT, "P", edge_filters=(same("w", "w"),)),
            "no edge variable",
            id="edge filter without edge",
        ),
        pytest.param(
            lambda: NodeScan("p", "P", (same("p", "q"),)), "looks elsewhere", id="foreign filter"
        ),
        pytest.param(lambda: AntiJoin((), (SCAN,)), "tied", id="free anti-join"),
        pytest.param(lambda: read(SCAN, SCAN), "bound twice", id="bound twice"),
        pytest.param(lambda: read(Filter(same("p", "p")), SCAN), "before", id="too early"),
        pytest.param(lambda: read(), "before", id="column of nothing"),
        pytest.param(
            lambda: read(SCAN, Expand("x", "y", "K", OUT, "P")), "before", id="walk from nothing"
        ),
        pytest.param(lambda: MutationIr("m", (), ()), "statement", id="empty mutation"),
    ],
)
def test_invalid_operators_are_refused(build, rule):
    with pytest.raises(InternalError, match=rule):
        build()


INSERT = InsertNode("P", ())
UPDATE = Update("P", False, (), ())
DELETE = Delete("P", False, ())


@pytest.mark.parametrize(
    "statements", [(INSERT, DELETE), (DELETE, UPDATE), (UPDATE, DELETE, INSERT)]
)
def test_a_mutation_does_not_mix_deletes_with_writes(statements):
    with pytest.raises(MixedMutationError) as caught:
        check_mutation_mix(MutationIr("m", (), statements))
    assert isinstance(caught.value, BadRequestError)
    assert str(caught.value) == (
        "mutation 'm' on the same query mixes inserts/updates and deletes; "
        "split into separate mutations: (1) inserts and updates, then (2) deletes"
    )


@pytest.mark.parametrize("statements", [(INSERT, UPDATE), (DELETE, DELETE), (UPDATE,)])
def test_a_mutation_of_one_kind_is_fine(statements):
    check_mutation_mix(MutationIr("m", (), statements))


@pytest.mark.parametrize(
    ("value", "scalar", "text"),
    [
        ("a b", Scalar.STRING, "a b"),
        (True, Scalar.BOOL, "true"),
        (False, Scalar.BOOL, "false"),
        (-7, Scalar.I32, "-7"),
        (2**63, Scalar.U64, "9223372036854775808"),
        (-1, Scalar.DATE, "-1"),
        (1_700_000_000_000, Scalar.DATETIME, "1700000000000"),
        (0.0, Scalar.F64, "0"),
        (-0.0, Scalar.F64, "0"),
        (1.0, Scalar.F64, "1"),
        (0.1, Scalar.F64, "0.1"),
        (0.10000000149011612, Scalar.F32, "0.1"),
    ],
)
def test_key_values_have_one_text(value, scalar, text):
    assert canonical_text(value, PropType(scalar)) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_key_is_finite(value):
    with pytest.raises(ValueError, match="cannot be part of a key"):
        canonical_text(value, PropType(Scalar.F64))


def test_several_columns_are_a_json_array():
    parts = [('a"b', STRING), (7, I64), (True, PropType(Scalar.BOOL)), ("é", STRING)]
    assert key_id(parts) == '["a\\"b","7","true","é"]'


def test_literals_compare_by_value_and_type():
    assert Literal(1, I64) == Literal(1, I64)
    assert hash(Literal(1, I64)) == hash(Literal(1, I64))
    assert Literal(1, I64) != Literal(1, STRING)
