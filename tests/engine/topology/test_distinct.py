"""Neighbours without repetition equal the set of neighbours."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.engine.topology.csr import build_csr

SIZE = 5
edges = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=20)
starts = st.lists(st.integers(0, SIZE - 1), max_size=6) | st.just(list(range(SIZE)))


@given(edges, starts, st.booleans())
def test_every_neighbour_comes_once_per_row(pairs, positions, plain):
    sources, targets = (np.array([pair[end] for pair in pairs], np.int64) for end in (0, 1))
    live = None if plain else np.ones(len(pairs), dtype=bool)
    adjacency = Adjacency(build_csr(sources, targets, SIZE), None, live)
    at, found = adjacency.neighbours_of(np.array(positions, np.int64), SIZE)
    got = sorted(zip(at.tolist(), found.tolist(), strict=True))
    assert got == sorted(
        {(row, b) for row, one in enumerate(positions) for a, b in pairs if a == one}
    )
    assert adjacency.count(np.array(positions, np.int64)) == sum(
        a == one for one in positions for a, _ in pairs
    )
