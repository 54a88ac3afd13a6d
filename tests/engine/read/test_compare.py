"""Comparisons agree with exact arithmetic, whatever the two types are."""

import operator
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.operations import CompareOp
from omnigraph.engine.read.compare import compare_columns, compare_value, is_in

OPS = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}
EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1]
TYPES = {
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint32(): (0, 2**32 - 1),
    pa.uint64(): (0, 2**64 - 1),
}


def integers(kind):
    low, high = TYPES[kind]
    known = [one for one in EDGES if low <= one <= high]
    return st.none() | st.sampled_from(known) | st.integers(low, high)


floats = st.sampled_from(
    [0.0, 0.5, -0.5, 2.0**53, 2.0**63, 2.0**64, -(2.0**63), 2.7, 1e300, -1e300]
) | st.floats(allow_nan=False, allow_infinity=False)
numbers = floats | st.sampled_from(EDGES) | st.integers(-(2**70), 2**70)
any_op = st.sampled_from(list(OPS))


def exact(left, op, right):
    if left is None or right is None:
        return False
    return OPS[op](Fraction(left), Fraction(right))


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(data=st.data(), op=any_op, value=numbers)
def test_integers_compare_exactly_with_any_number(kind, data, op, value):
    column = data.draw(st.lists(integers(kind), max_size=8))
    found = compare_value(pa.array(column, kind), op, value).tolist()
    assert found == [exact(one, op, value) for one in column]


@pytest.mark.parametrize("left", TYPES, ids=str)
@pytest.mark.parametrize("right", [*TYPES, pa.float64()], ids=str)
@given(data=st.data(), op=any_op)
def test_columns_compare_exactly_whatever_their_widths_and_signs(left, right, data, op):
    other = st.none() | floats if right == pa.float64() else integers(right)
    rows = data.draw(st.lists(st.tuples(integers(left), other), max_size=8))
    a = pa.array([one for one, _ in rows], left)
    b = pa.array([one for _, one in rows], right)
    assert compare_columns(a, op, b).tolist() == [exact(x, op, y) for x, y in rows]
    assert compare_columns(b, op, a).tolist() == [exact(y, op, x) for x, y in rows]


def test_a_double_literal_matches_the_single_it_was_stored_as():
    column = pa.array([0.1, 0.25, None], pa.float32())
    assert compare_value(column, CompareOp.EQ, 0.1).tolist() == [True, False, False]
    assert compare_value(column, CompareOp.EQ, 0.25).tolist() == [False, True, False]


@given(st.lists(integers(pa.int32()), max_size=8), st.lists(numbers | st.none(), max_size=8))
def test_membership_is_equality_with_one_of_the_values(column, values):
    found = is_in(pa.array(column, pa.int32()), values).tolist()
    assert found == [any(exact(one, CompareOp.EQ, value) for value in values) for one in column]


@pytest.mark.parametrize("op", list(CompareOp))
def test_null_compares_with_nothing(op):
    kind = pa.list_(pa.string()) if op is CompareOp.CONTAINS else pa.string()
    column = pa.array([None, ["a"]] if op is CompareOp.CONTAINS else [None, "a"], kind)
    assert compare_value(column, op, None).tolist() == [False, False]
    assert not compare_value(column, op, ["a"] if op is CompareOp.IN else "a")[0]


def test_contains_is_membership_in_lists_and_substring_in_strings():
    lists = pa.array([["red", "blue"], [], None, ["red", None]], pa.list_(pa.string()))
    assert compare_value(lists, CompareOp.CONTAINS, "red").tolist() == [True, False, False, True]
    assert compare_value(lists.slice(1), CompareOp.CONTAINS, "red").tolist() == [False, False, True]
    numbers = pa.array([[1, 2], [3]], pa.list_(pa.int32()))
    assert compare_value(numbers, CompareOp.CONTAINS, 2.0).tolist() == [True, False]
    strings = pa.array(["needle in hay", "Needle", None])
    assert compare_value(strings, CompareOp.CONTAINS, "needle").tolist() == [True, False, False]
    assert compare_columns(
        lists, CompareOp.CONTAINS, pa.array(["blue", "x", "y", None])
    ).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_prefixes_are_exact_and_case_sensitive():
    strings = pa.array(["abc", "Abc", "a.c", None])
    assert compare_value(strings, CompareOp.STARTS_WITH, "a.").tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert compare_columns(
        strings, CompareOp.STARTS_WITH, pa.array(["ab", "a", None, "x"])
    ).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_dates_compare_as_days_and_milliseconds():
    days = pa.array([0, 19_000, None], pa.int32()).cast(pa.date32())
    assert compare_value(days, CompareOp.GE, 19_000).tolist() == [False, True, False]
    assert compare_value(days, CompareOp.IN, [0, None]).tolist() == [True, False, False]
    moments = pa.array([1_500, 86_400_001], pa.int64()).view(pa.date64())
    assert compare_value(moments, CompareOp.EQ, 1_500).tolist() == [True, False]
    assert compare_value(moments, CompareOp.IN, [86_400_001]).tolist() == [False, True]
    assert compare_columns(moments, CompareOp.LT, moments.take(pa.array([1, 0]))).tolist() == [
        True,
        False,
    ]
