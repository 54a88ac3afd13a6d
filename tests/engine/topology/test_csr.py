from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.topology.csr import build_csr, distinct_pairs, neighbours, walk

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
