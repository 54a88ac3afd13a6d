"""Which values count as the same."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.tables.equal import cells_unequal, unequal

NAN, OTHER_NAN = (
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, (0x7FF8 << 48) + 1)
)
TAGS = pa.list_(pa.string())
VECTOR = pa.list_(pa.float32(), 2)
NESTED = pa.struct([("a", pa.int64()), ("b", TAGS)])


@pytest.mark.parametrize(
    ("kind", "one", "other", "same"),
    [
        (pa.string(), None, "", False),
        (pa.string(), "", "", True),
        (pa.string(), None, None, True),
        (pa.int64(), 0, None, False),
        (pa.bool_(), False, None, False),
        (pa.bool_(), True, True, True),
        (pa.uint64(), 2**64 - 1, 2**64 - 1, True),
        (pa.float64(), 0.0, -0.0, False),
        (pa.float64(), NAN, NAN, True),
        (pa.float64(), NAN, OTHER_NAN, False),
        (pa.float32(), float("nan"), float("nan"), True),
        (pa.float32(), float("nan"), None, False),
        (pa.date32(), 0, 0, True),
        (pa.date64(), 0, 86_400_000, False),
        (pa.large_binary(), b"a\x00", b"a", False),
        (TAGS, [], None, False),
        (TAGS, [], [None], False),
        (TAGS, [""], [None], False),
        (TAGS, ["a", "b"], ["ab"], False),
        (TAGS, ["a", "b"], ["a", "b"], True),
        (VECTOR, [0.0, 1.0], [-0.0, 1.0], False),
        (VECTOR, [None, 1.0], [0.0, 1.0], False),
        (VECTOR, [float("nan"), 1.0], [float("nan"), 1.0], True),
        (VECTOR, None, [0.0, 0.0], False),
        (VECTOR, None, None, True),
        (NESTED, {"a": 1, "b": None}, {"a": 1, "b": []}, False),
        (NESTED, {"a": 1, "b": ["x"]}, {"a": 1, "b": ["x"]}, True),
        (NESTED, None, {"a": None, "b": None}, False),
    ],
)  # fmt: skip
def test_values_are_compared_typed(kind, one, other, same):
    """In the middle of others, and in slices, where offsets could be forgotten."""
    filler = {TAGS: ["f"], VECTOR: [7.0, 8.0], NESTED: {"a": 7, "b": ["f"]}}.get(kind)
    before = pa.array([filler, one, filler, one], kind).slice(1)
    after = pa.array([filler, filler, other, filler, other], kind).slice(2)
    assert unequal(before, after).tolist() == [not same, False, not same]


def test_rows_of_many_blocks_are_compared_column_by_column():
    rows = 150_000
    before = pa.table({"a": np.arange(rows), "b": ["x"] * rows})
    changed = np.arange(rows)
    changed[[5, 140_000]] = -1
    text = ["x"] * rows
    text[70_000] = "y"
    after = pa.table({"a": changed, "b": text})
    unlike = cells_unequal(before, after, ["a", "b"])
    assert np.flatnonzero(unlike[:, 0]).tolist() == [5, 140_000]
    assert np.flatnonzero(unlike[:, 1]).tolist() == [70_000]


def test_values_of_two_types_differ_unless_both_are_null():
    before, after = pa.array([1, None], pa.int64()), pa.array(["1", None], pa.string())
    assert unequal(before, after).tolist() == [True, False]
