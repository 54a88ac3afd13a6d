import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.topology.adjacency import Adjacency, with_added_edges
from omnigraph.engine.topology.csr import build_csr

NODES = 5
pairs = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=15)


@given(pairs, st.integers(0, 15), st.data())
def test_base_added_and_dead_edges_together_are_the_live_edges(edges, base, data):
    base = min(base, len(edges))
    live = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges))), bool
    )
    starts = np.array(data.draw(st.lists(st.integers(0, NODES - 1), max_size=4)), np.int64)
    sources = np.array([a for a, _ in edges], np.int64)
    targets = np.array([b for _, b in edges], np.int64)
    plain = build_csr(sources[:base], targets[:base], NODES)
    added = np.arange(base, len(edges))
    adjacency = (
        Adjacency(plain, None, live)
        if base == len(edges)
        else with_added_edges(plain, sources[base:], targets[base:], NODES, added, live)
    )
    rows, reached, which = adjacency.edges_of(starts)
    found = sorted(zip(rows.tolist(), reached.tolist(), which.tolist(), strict=True))
    expected = sorted(
        (row, b, at)
        for row, start in enumerate(starts.tolist())
        for at, (a, b) in enumerate(edges)
        if a == start and live[at]
    )
    assert found == expected
    assert rows.tolist() == sorted(rows.tolist())
