import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.base.background import BACKGROUND
from omnigraph.engine.image import blocks
from omnigraph.engine.image import vectors as module
from omnigraph.engine.image.blocks import build_blocks
from omnigraph.engine.image.layers import layers_of
from omnigraph.engine.image.prefix import build_prefix
from omnigraph.engine.image.table import fresh_image
from omnigraph.engine.image.vectors import Vectors, build_base, build_vectors

rng = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def _same_numbers_whatever_ran_before():
    globals()["rng"] = np.random.default_rng(1)


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


def clustered(rows, dim, clusters, spread):
    centres = rng.standard_normal((clusters, dim))
    return centres[rng.integers(0, clusters, rows)] + spread * rng.standard_normal((rows, dim))


def plain_nearest(matrix, valid, query, k):
    """The k nearest and all that tie with the last, by the distances of every row."""
    vectors = build_vectors(
        column([row if ok else None for row, ok in zip(matrix, valid, strict=True)], len(query))
    )
    every = vectors.distances(query, np.arange(len(matrix)))
    known = np.sort(every[~np.isnan(every)])
    return (
        set(np.flatnonzero(every <= known[min(k, len(known)) - 1]).tolist())
        if len(known)
        else set()
    )


@pytest.mark.parametrize("dim", [2, 16, 64])
@pytest.mark.parametrize(("clusters", "spread"), [(20, 0.2), (300, 0.5), (1, 1.0)])
def test_blocks_leave_out_nothing_a_full_scan_would_find(dim, clusters, spread, monkeypatch):
    matrix = clustered(4_000, dim, clusters, spread).astype(np.float32)
    matrix[5], matrix[6:20] = 0, matrix[3]
    vectors = build_vectors(pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dim))
    queries = [*matrix[:6], *(matrix[:20] + 0.1), *rng.standard_normal((10, dim))]
    held = rng.random(4_000) < 0.5
    plain = [vectors.nearest(np.asarray(one, np.float32), 7) for one in queries]
    some = [
        vectors.nearest(np.asarray(one, np.float32), 7, np.flatnonzero(held)) for one in queries
    ]
    monkeypatch.setattr(blocks, "_HOPELESS", 2.0)  # also where they are of no use
    vectors.base._blocks = build_blocks(vectors.base.matrix, vectors.base.scale)
    assert sorted(vectors.base._blocks.rows.tolist()) == list(range(4_000))
    for query, whole, part in zip(queries, plain, some, strict=True):
        asked = np.asarray(query, np.float32)
        for before, after in (
            (whole, vectors.nearest(asked, 7)),
            (part, vectors.nearest(asked, 7, np.flatnonzero(held))),
        ):
            assert set(after[0].tolist()) == set(before[0].tolist())
            assert after[1].tolist() == before[1].tolist()


def spectral(rows, dim):
    """Vectors without clusters, with a few strong directions, turned at random."""
    strength = np.arange(1, dim + 1) ** -0.8
    turn, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    return ((rng.standard_normal((rows, dim)) * strength) @ turn).astype(np.float32)


def test_shortcuts_are_made_when_they_have_paid_off(monkeypatch):
    monkeypatch.setattr(module, "SHORTCUTS_FROM", 100)
    monkeypatch.setattr(module, "BLOCKS_AFTER", 2)
    monkeypatch.setattr(module, "PREFIX_AFTER", 4)
    matrix = spectral(3_000, 64)
    vectors = build_vectors(pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 64))
    sizes, found = [], []
    for _ in range(6):
        found.append(vectors.nearest(matrix[7], 3)[0].tolist())
        assert BACKGROUND.wait(60)
        sizes.append(vectors.base.nbytes)
    assert all(one == found[0] for one in found)
    assert sizes[0] < sizes[1] == sizes[2] < sizes[3] == sizes[5]
    assert vectors.base._scans == 4, "a scan was made although the prefix tells"


@pytest.mark.parametrize("dim", [32, 48, 128])
def test_a_first_look_leaves_out_nothing_a_full_scan_would_find(dim):
    matrix = spectral(5_000, dim)
    matrix[5], matrix[6:20] = 0, matrix[3]
    vectors = build_vectors(pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dim))
    prefix = build_prefix(vectors.base.matrix, vectors.base.scale)
    assert prefix is not None
    held = rng.random(5_000) < 0.3
    queries = [*matrix[:30], *spectral(30, dim), *rng.standard_normal((9, dim))]
    told = 0
    for query in (np.asarray(one, np.float32) for one in queries):
        length = np.linalg.norm(query)
        unit = query / length if length else query
        for mask in (None, held):
            found = prefix.candidates(vectors.base, unit, 10, mask)
            if found is not None:
                told += 1
                allowed = None if mask is None else np.flatnonzero(mask)
                best, _ = vectors.nearest(query, 10, allowed)
                assert set(best.tolist()) <= set(found.tolist())
    assert told > 60


def test_a_first_look_is_not_made_where_it_would_tell_nothing():
    even = rng.standard_normal((2_000, 64)).astype(np.float32)
    assert build_prefix(even, 1 / np.linalg.norm(even, axis=1)) is None
    assert build_prefix(spectral(2_000, 16), np.ones(2_000, np.float32)) is None


@given(st.integers(0, 2**32), st.sampled_from([1e-38, 1e-3, 1.0, 1e20, 1e36]), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_versions_find_what_their_rows_would(seed, size, k):
    draw = np.random.default_rng(seed)
    matrix = (draw.standard_normal((1_200, 3)) * size).astype(np.float32)
    ids = [f"r{at}" for at in range(1_300)]
    base = pa.table({"id": ids[:1_200], "v": column(matrix.tolist(), 3)})
    image = fresh_image(1_200, lambda names: base.select(list(names)))
    fresh = [None if draw.random() < 0.2 else (draw.standard_normal(3) * size) for _ in range(40)]
    changed = draw.choice(1_300, 40, replace=False)
    rows = pa.table({"id": [ids[at] for at in changed], "v": column(fresh, 3)})
    image = image.with_changes(rows, [ids[at] for at in draw.choice(1_200, 30)])
    overlay = image.overlay.column("v").combine_chunks()
    vectors = Vectors(
        build_base(base.column("v").combine_chunks()), layers_of(image), build_base(overlay)
    )
    now = image.column("v").full.to_pylist()
    valid = [one is not None for one in now] & (True if image.live is None else image.live)
    query = draw.standard_normal(3).astype(np.float32)
    wanted = plain_nearest([one or [0.0] * 3 for one in now], valid, query, k)
    assert set(vectors.nearest(query, k)[0].tolist()) == wanted
    allowed = np.flatnonzero(valid)[::2]
    every = vectors.distances(query, allowed)
    among = set(allowed[every <= np.sort(every)[min(k, len(every)) - 1]].tolist())
    assert set(vectors.nearest(query, k, allowed)[0].tolist()) == among


def test_a_query_without_a_direction_is_equally_far_from_everything():
    vectors = build_vectors(column(MATRIX, 4))
    found, distances = vectors.nearest(np.zeros(4, np.float32), 2)
    assert len(found) == 3_000
    assert set(distances.tolist()) == {1.0}


def test_blocks_that_would_leave_out_nothing_are_judged_on_a_sample(monkeypatch):
    sizes, assigned = [], blocks._assigned
    monkeypatch.setattr(
        blocks, "_assigned", lambda one, *rest: sizes.append(len(one)) or assigned(one, *rest)
    )
    even = rng.standard_normal((20_000, 64)).astype(np.float32)
    assert build_blocks(even, (1 / np.linalg.norm(even, axis=1)).astype(np.float32)) is None
    assert max(sizes) < len(even) / 2, "all rows were sorted to learn that it is of no use"
    rows = clustered(20_000, 64, 200, 0.2).astype(np.float32)
    assert build_blocks(rows, (1 / np.linalg.norm(rows, axis=1)).astype(np.float32)) is not None


class Counting(np.ndarray):
    """A matrix that tells when it is multiplied whole."""

    products = 0

    def __matmul__(self, other):
        if len(self) == len(MANY):
            Counting.products += 1
        return np.asarray(self) @ other


MANY = rng.standard_normal((5_000, 8)).astype(np.float32)


@pytest.mark.parametrize(("share", "products"), [(0.15, 0), (0.5, 1)])
def test_a_narrow_filter_multiplies_what_it_leaves_and_nothing_else(share, products):
    vectors = build_vectors(pa.FixedSizeListArray.from_arrays(pa.array(MANY.ravel()), 8))
    allowed = np.flatnonzero(rng.random(len(MANY)) < share)
    expected, distances = vectors.nearest(MANY[7], 10, allowed)
    exact = vectors.distances(MANY[7], allowed)
    best = np.argsort(exact, kind="stable")[:10]
    assert allowed[best].tolist() == expected.tolist()
    assert exact[best].tolist() == list(distances)
    vectors.base.matrix, Counting.products = vectors.base.matrix.view(Counting), 0
    assert vectors.nearest(MANY[7], 10, allowed)[0].tolist() == expected.tolist()
    assert Counting.products == products
