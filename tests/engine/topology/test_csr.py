from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.topology import csr as module
from omnigraph.engine.topology.csr import Csr, build_csr, distinct_pairs, neighbours, walk

SIZE = 6
edges = st.lists(st.tuples(st.integers(-1, SIZE - 1), st.integers(-1, SIZE - 1)), max_size=20)
starts = st.lists(st.integers(0, SIZE - 1), max_size=5)


def build(pairs):
    sources = np.array([a for a, _ in pairs], dtype=np.int64)
    targets = np.array([b for _, b in pairs], dtype=np.int64)
    return build_csr(sources, targets, SIZE)


def step(csr, positions):
    rows, slots = neighbours(csr, positions)
    return distinct_pairs(rows, csr.targets[slots], csr.size)


def walked(csr, positions, low, high):
    return walk(lambda at: step(csr, at), csr.size, np.array(positions, dtype=np.int64), low, high)


def adjacency(pairs):
    out = defaultdict(set)
    for a, b in pairs:
        if a >= 0 and b >= 0:
            out[a].add(b)
    return out


def naive_walk(pairs, start, low, high):
    out = adjacency(pairs)
    found = {start} if low == 1 and start in out[start] else set()
    seen, frontier = {start}, {start}
    for depth in range(1, high + 1):
        frontier = {b for a in frontier for b in out[a]} - seen
        seen |= frontier
        if depth >= low:
            found |= frontier
    return found


@given(edges, starts)
def test_one_hop_reaches_each_neighbour_once_per_row(pairs, positions):
    rows, targets = step(build(pairs), np.array(positions, dtype=np.int64))
    out = adjacency(pairs)
    expected = sorted((row, b) for row, a in enumerate(positions) for b in out[a])
    assert sorted(zip(rows.tolist(), targets.tolist(), strict=True)) == expected


@given(edges, starts)
def test_every_stored_edge_between_known_nodes_is_a_slot(pairs, positions):
    csr = build(pairs)
    rows, slots = neighbours(csr, np.array(positions, dtype=np.int64))
    found = sorted((int(row), int(csr.edges[slot])) for row, slot in zip(rows, slots, strict=True))
    expected = sorted(
        (row, at)
        for row, start in enumerate(positions)
        for at, (a, b) in enumerate(pairs)
        if a == start and b >= 0
    )
    assert found == expected


@given(edges, starts, st.integers(1, 3), st.integers(0, 3))
def test_walks_keep_targets_by_the_depth_of_first_contact(pairs, positions, low, extra):
    rows, targets = walked(build(pairs), positions, low, low + extra)
    expected = sorted(
        (row, b)
        for row, start in enumerate(positions)
        for b in naive_walk(pairs, start, low, low + extra)
    )
    assert list(zip(rows.tolist(), targets.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("low", "high", "reached"), [(1, 3, [1, 2, 3]), (2, 3, [2, 3]), (2, 2, [2])]
)
def test_bounds_on_a_chain(low, high, reached):
    csr = build([(0, 1), (1, 2), (2, 3)])
    assert walked(csr, [0], low, high)[1].tolist() == reached


def test_a_self_loop_is_seen_once_and_only_at_depth_one():
    csr = build([(0, 1), (1, 1)])
    assert walked(csr, [1], 1, 3)[1].tolist() == [1]
    assert walked(csr, [0], 2, 2)[1].tolist() == []


def sorted_by_keys(sources, targets, size):
    """Say what an adjacency is by sorting rows by keys, stable, one step after another."""
    at = np.flatnonzero((sources >= 0) & (targets >= 0))
    order = at[np.argsort(sources[at], kind="stable")]
    offsets = np.searchsorted(sources[order], np.arange(size + 1))
    pairs = list(zip(sources[order].tolist(), targets[order].tolist(), strict=True))
    firsts = sorted({pair: pairs.index(pair) for pair in pairs}.items())
    return offsets, targets[order], order, [slot for _, slot in firsts]


@given(edges, st.sampled_from([0, 1 << 20, (1 << 30) - SIZE]))
def test_packed_sorting_gives_the_arrays_that_sorting_by_keys_gives(pairs, far):
    sources = np.array([a for a, _ in pairs], dtype=np.int64)
    targets = np.array([b + far if b >= 0 else -1 for _, b in pairs], dtype=np.int64)
    csr = build_csr(sources, targets, SIZE)
    offsets, ends, order, firsts = sorted_by_keys(sources, targets, SIZE)
    assert csr.offsets.tolist() == offsets.tolist()
    assert (csr.targets.tolist(), csr.edges.tolist()) == (ends.tolist(), order.tolist())
    assert csr.parallel == (len(firsts) < len(order))
    once = firsts if csr.parallel else list(range(len(order)))
    assert csr.distinct.edges.tolist() == order[once].tolist()
    assert csr.distinct.targets.tolist() == ends[once].tolist()
    assert (csr.targets.dtype, csr.edges.dtype) == (np.int32, np.int32)


def test_pairs_too_wide_for_one_number_are_sorted_by_keys():
    size = 1 << 31
    wide = Csr(
        np.array([0, 3]),
        np.array([size - 1, 5, size - 1], np.int32),
        np.array([7, 8, 9], np.int32),
        parallel=True,
    )
    narrow = wide.distinct.edges.tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WORD_BITS", 4)
        again = Csr(wide.offsets, wide.targets, wide.edges, parallel=True)
        assert again.distinct.edges.tolist() == narrow == [8, 7]
