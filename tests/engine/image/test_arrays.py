"""Sets of integers as sorted arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.image.arrays import distinct, members, renumbered

numbers = st.lists(st.integers(0, 30), max_size=40)


def ints(values):
    return np.array(values, dtype=np.int64)


@given(numbers)
def test_distinct_is_the_sorted_set(values):
    assert distinct(ints(values)).tolist() == sorted(set(values))


@given(numbers, numbers)
def test_members_are_those_in_the_other_set(values, known):
    found = members(ints(values), distinct(ints(known)))
    assert found.tolist() == [one in set(known) for one in values]


@given(numbers, st.sampled_from([31, 1_000_000_000]))
def test_renumbered_codes_keep_their_order_and_know_their_first_row(values, width):
    codes, first = renumbered(ints(values), width)
    order = sorted(set(values))
    assert codes.tolist() == [order.index(one) for one in values]
    assert first.tolist() == [values.index(one) for one in order]
