"""Work in pieces gives what one call would have given, and can be stopped between them."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base.budget import Budget, Limits, QueryCancelledError
from omnigraph.engine.image import pieces
from omnigraph.engine.image.arrays import distinct, renumbered_values
from omnigraph.engine.image.columns import dense_ranks

SIZES = st.integers(0, 400)


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 16)
    monkeypatch.setattr(pieces, "_LONG", 32)
    monkeypatch.setattr(pieces, "_SAMPLE", 8)


def some_keys(data: st.DataObject) -> list[np.ndarray]:
    size = data.draw(SIZES)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    widths = data.draw(st.lists(st.sampled_from([1, 2, 5, 1_000]), min_size=1, max_size=3))
    kinds = [np.int64 if data.draw(st.booleans()) else np.float64 for _ in widths]
    return [rng.integers(-w, w, size).astype(k) for w, k in zip(widths, kinds, strict=True)]


@given(st.data())
def test_rows_are_sorted_as_by_one_call(data):
    keys = some_keys(data)
    wanted = np.lexsort(tuple(reversed(keys)))
    assert pieces.sorted_rows(keys, len(keys[0])).tolist() == wanted.tolist()


@given(st.data())
def test_numbers_are_sorted_told_apart_and_renumbered_as_by_one_call(data):
    values = some_keys(data)[0]
    assert pieces.ascending(values).tolist() == np.sort(values).tolist()
    assert distinct(values).tolist() == np.unique(values).tolist()
    codes, first = renumbered_values(values)
    _, wanted_first, wanted = np.unique(values, return_index=True, return_inverse=True)
    assert (codes.tolist(), first.tolist()) == (wanted.tolist(), wanted_first.tolist())


VALUES = [
    st.none() | st.integers(-3, 40),
    st.none() | st.floats() | st.sampled_from([math.nan, 0.0, -0.0]),
    st.none() | st.text(max_size=2),
    st.none() | st.booleans(),
]
TYPES = [pa.int64(), pa.float64(), pa.string(), pa.bool_()]


@given(st.data())
def test_ranks_are_those_of_one_call(data):
    which = data.draw(st.integers(0, 3))
    pool = data.draw(st.lists(VALUES[which], min_size=1, max_size=30))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = pa.array([pool[at] for at in rng.integers(0, len(pool), 300)], TYPES[which])
    found = dense_ranks(values)
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(pieces, "PIECE", 1_000)
        assert found.tolist() == dense_ranks(values).tolist()


@given(st.data())
def test_copies_are_those_of_one_call(data):
    values = some_keys(data)[0]
    times = data.draw(st.integers(0, 50))
    assert pieces.repeated(values, times).tolist() == np.repeat(values, times).tolist()
    assert pieces.tiled(values, times).tolist() == np.tile(values, times).tolist()
    at = np.arange(len(values))[::-1]
    assert pieces.gathered(values, at).tolist() == values[::-1].tolist()
    assert pieces.taken(pa.array(values), at).to_pylist() == values[::-1].tolist()


class StopAfter:
    """Cancels a call when it has asked a few times whether it may go on."""

    def __init__(self, times: int) -> None:
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize(
    "work",
    [
        lambda numbers: pieces.sorted_rows([numbers, numbers], len(numbers)),
        pieces.ascending,
        lambda numbers: pieces.gathered(numbers, numbers),
        lambda numbers: pieces.repeated(numbers, 10),
        lambda numbers: pieces.tiled(numbers, 10),
        lambda numbers: pieces.taken(pa.array(numbers), numbers),
        lambda numbers: dense_ranks(pa.array(numbers)),
    ],
)
def test_a_call_is_stopped_in_the_middle(work):
    numbers = np.random.default_rng(7).permutation(5_000)
    with pytest.raises(QueryCancelledError), Budget(Limits(), cancelled=StopAfter(9)):
        work(numbers)
