"""Sums are exact before they are rounded once, so no order of rows shows in them."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.read.aggregate import _sums

moderate = st.floats(-1e150, 1e150) | st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1.0, 5e-324])
anything = st.floats(allow_nan=False, allow_infinity=False)


def exact(values):
    total = sum(map(Fraction, values), Fraction())
    try:
        return float(total)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


@pytest.mark.parametrize("numbers", [moderate, anything], ids=["sliced", "any"])
@given(data=st.data())
def test_doubles_add_up_exactly(numbers, data):
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), numbers), max_size=12))
    groups = np.array([group for group, _ in rows], np.int64)
    column = pa.array([value for _, value in rows], pa.float64())
    found = _sums(column, groups, np.bincount(groups, minlength=3))
    wanted = [exact(value for group, value in rows if group == one) for one in range(3)]
    assert found.tolist() == wanted


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int32()], ids=str)
@given(data=st.data())
def test_integers_add_up_exactly(kind, data):
    info = np.iinfo(kind.to_pandas_dtype())
    whole = st.integers(int(info.min), int(info.max)) | st.integers(0, 9)
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), whole), max_size=12))
    groups = np.array([group for group, _ in rows], np.int64)
    column = pa.array([value for _, value in rows], kind)
    found = _sums(column, groups, np.bincount(groups, minlength=3))
    assert found.tolist() == [float(sum(v for g, v in rows if g == one)) for one in range(3)]
