import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.image.vectors import build_vectors

rng = np.random.default_rng(7)


def column(rows, dim):
    return pa.array(rows, pa.list_(pa.field("item", pa.float32()), dim))


def test_distance_is_cosine_and_a_zero_vector_is_one_from_everything():
    vectors = build_vectors(column([[1, 0], [0, 1], [-2, 0], [0, 0], None], 2))
    found = vectors.distances(np.array([3, 0], np.float32), np.arange(5))
    assert found[:4].tolist() == [0.0, 1.0, 2.0, 1.0]
    assert np.isnan(found[4])


@pytest.mark.parametrize("rows", [100, 5_000])
@pytest.mark.parametrize("k", [1, 10, 64])
def test_the_nearest_are_those_a_full_sort_would_pick(rows, k):
    matrix = rng.standard_normal((rows, 16)).astype(np.float32)
    matrix[rows // 2] = matrix[0]
    vectors = build_vectors(column(matrix.tolist(), 16))
    query = rng.standard_normal(16).astype(np.float32)
    found, distances = vectors.nearest(query, k)
    every = vectors.distances(query, np.arange(rows))
    worst = np.sort(every)[k - 1]
    assert set(found.tolist()) == set(np.flatnonzero(every <= worst).tolist())
    assert distances.tolist() == sorted(distances.tolist())
    assert distances.tolist() == every[found].tolist(), "a distance depends on the path taken"


def test_equal_distances_at_the_cut_are_all_returned():
    vectors = build_vectors(column([[1, 0], [0, 1], [0, 2], [0, 3]], 2))
    found, _ = vectors.nearest(np.array([1, 0], np.float32), 2)
    assert sorted(found.tolist()) == [0, 1, 2, 3]


@given(st.sets(st.integers(0, 2_999), max_size=40), st.integers(0, 50))
def test_only_allowed_rows_are_considered(allowed, k):
    vectors = build_vectors(column(MATRIX, 4))
    rows = np.array(sorted(allowed), np.int64)
    found, _ = vectors.nearest(np.array([1, 2, 3, 4], np.float32), k, rows)
    assert set(found.tolist()) <= allowed
    assert len(found) >= min(k, len(allowed))


MATRIX = rng.standard_normal((3_000, 4)).astype(np.float32).tolist()


def test_null_vectors_never_qualify_and_slices_keep_their_rows():
    whole = column([[1, 0], None, [0, 1], [1, 1]], 2)
    vectors = build_vectors(whole.slice(1))
    found, _ = vectors.nearest(np.array([0, 1], np.float32), 5)
    assert found.tolist() == [1, 2]
