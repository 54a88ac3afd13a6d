"""Values on their way through Spark: they come back as they were, and their keys sort like them."""

from random import Random

import pyarrow as pa
import pytest

from omnigraph.engine.image.columns import dense_ranks
from omnigraph.pipeline.query.carried import carried, carried_type, restored, sort_key

NAN, INF = float("nan"), float("inf")
COLUMNS = {
    "text": pa.array(["", "a", None, "ab", "a\x00b", "é", "🦊", "a"]),
    "I32": pa.array([0, -1, None, 2**31 - 1, -(2**31)], pa.int32()),
    "I64": pa.array([0, -1, None, 2**63 - 1, -(2**63)], pa.int64()),
    "U32": pa.array([0, None, 2**32 - 1], pa.uint32()),
    "U64": pa.array([0, None, 2**64 - 1, 2**63, 5], pa.uint64()),
    "F32": pa.array([0.0, -0.0, None, NAN, 1.5, -INF, INF], pa.float32()),
    "F64": pa.array([0.0, -0.0, None, NAN, 1e300, -5e-324, -INF, INF], pa.float64()),
    "Bool": pa.array([True, False, None]),
    "Date": pa.array([0, -1, None, 20_000], pa.int32()).view(pa.date32()),
    "DateTime": pa.array([0, -1, None, 1_700_000_000_001], pa.int64()).view(pa.date64()),
    "texts": pa.array([["a"], [], None, ["a", "b"], ["a\x00"], ["b"], ["a", None]]),
    "numbers": pa.array([[1, 2], [1], None, [-1], [], [2**63 - 1]], pa.list_(pa.int64())),
    "doubles": pa.array([[NAN], [0.0], [-0.0], None, [1.0, None]], pa.list_(pa.float64())),
    "moments": pa.array([[1], None, [0, 5]], pa.list_(pa.int64())).cast(pa.list_(pa.date64())),
    "vector": pa.array([[1, 2, 3], None, [0, 0, 0], [1, 2, -3]], pa.list_(pa.float32(), 3)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_come_back_as_they_were(name):
    column = COLUMNS[name]
    for given in (column, column.slice(1), column.slice(0, 0), pa.concat_arrays([column, column])):
        travels = carried(given)
        assert travels.type == carried_type(column.type)
        back = restored(travels, column.type)
        assert back.type == column.type
        assert str(back) == str(given)  # NaN is not equal to itself


@pytest.mark.parametrize("name", COLUMNS)
def test_keys_are_equal_and_sort_as_values_do(name):
    rng, column = Random(7), COLUMNS[name]
    drawn = column.take(pa.array(rng.choices(range(len(column)), k=200)))
    ranks, keys = dense_ranks(drawn).tolist(), sort_key(drawn).to_pylist()
    pairs = dict(zip(keys, ranks, strict=True))
    assert len(pairs) == len(set(ranks))
    assert [pairs[key] for key in sorted(pairs)] == sorted(set(ranks))
