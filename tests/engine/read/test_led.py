"""`approximate`: an index may choose the rows that are looked at; what is said of them is exact."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.read import led
from omnigraph.graph.options import GraphOptions
from tests.support.fast import FAST

DIM, ROWS = 16, 6_000
SCHEMA = f"""node Doc {{
  slug: String @key
  size: I64 @index
  flag: F32?
  vector: Vector({DIM})? @index
}}
edge Cites: Doc -> Doc
"""
RANK = """query q($v: Vector(16), $n: I64) {{
  match {{ $d: Doc{more} }}
  return {{ $d.slug, nearest($d.vector, $v) as distance }}
  order {{ nearest($d.vector, $v{how}) }}
  limit {limit}
}}"""
COLD = replace(FAST, image_bytes=0)


def options(**how):
    return GraphOptions(storage=COLD.storage, embedder=None, **how)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A graph of vectors around a hundred directions, a hundredth of them missing."""
    dice = np.random.default_rng(7)
    around = dice.normal(size=(100, DIM))[dice.integers(0, 100, ROWS)]
    vectors = (around + 0.3 * dice.normal(size=(ROWS, DIM))).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(vectors.reshape(-1)), DIM, mask=pa.array(np.arange(ROWS) % 100 == 99)
    )
    root = str(tmp_path_factory.mktemp("led") / "g.omni")
    rows = {
        "slug": [f"d{at}" for at in range(ROWS)],
        "size": list(range(ROWS)),
        "vector": column,
    }
    with omnigraph.init(root, SCHEMA, options=options()) as graph:
        graph.load({"Doc": pa.table(rows)}, "append")
        graph.ensure_indices()
    return root, vectors


def asked(graph, vector, *, approximate, more="", limit=10, n=0):
    how = ", approximate" if approximate else ""
    text = RANK.format(more=more, how=how, limit=limit)
    return graph.query(text, params={"v": vector.tolist(), "n": n}).to_tuples()


def seen(monkeypatch):
    """Listen to what indexes are asked for."""
    asked = []
    whole = led.led_rows

    def listening(*given):
        found = whole(*given)
        asked.append(None if found is None else found.num_rows)
        return found

    monkeypatch.setattr("omnigraph.engine.read.selective.led_rows", listening)
    return asked


def test_most_of_the_nearest_are_found_and_told_exactly(place, monkeypatch):
    root, vectors = place
    found = 0
    used = seen(monkeypatch)
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        for at in range(20):
            exact = dict(asked(cold, vectors[at * 7], approximate=False))
            near = asked(cold, vectors[at * 7], approximate=True)
            found += len(exact.keys() & {slug for slug, _ in near})
            for slug, distance in near:
                assert exact.get(slug, distance) == distance
            assert [one for _, one in near] == sorted(one for _, one in near)
    assert found >= 190  # nineteen of twenty, as the docs say of vectors that have directions
    assert used == [42] * 20


def test_resident_tables_are_searched_exactly(place, monkeypatch):
    root, vectors = place
    used = seen(monkeypatch)
    with omnigraph.connect(root, options=options()) as graph:
        graph.query("query q() { match { $d: Doc } return { count($d) as n } }")
        exact = asked(graph, vectors[0], approximate=False)
        assert asked(graph, vectors[0], approximate=True) == exact
    assert used == []


def test_filters_count_before_the_best_are_chosen(place, monkeypatch):
    root, vectors = place
    used = seen(monkeypatch)
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        for n, limit in ((100, 10), (5, 10), (3000, 10)):
            near = asked(
                cold, vectors[1], approximate=True, more="  $d.size < $n", n=n, limit=limit
            )
            exact = asked(
                cold, vectors[1], approximate=False, more="  $d.size < $n", n=n, limit=limit
            )
            assert len(near) == len(exact) == min(limit, n)
            assert n > 3000 or set(near) == set(exact) or n == 3000
    assert used[1] is None, "where fewer are found than wanted, the exact way is taken"


@pytest.mark.parametrize(
    "more", ["  $d.flag < 0.5", "  $d cites $e  $e: Doc", "  not { $d cites $d }"]
)
def test_what_an_index_cannot_lead_is_exact(place, monkeypatch, more):
    root, vectors = place
    used = seen(monkeypatch)
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        near = asked(cold, vectors[2], approximate=True, more=more)
        assert near == asked(cold, vectors[2], approximate=False, more=more)
    assert set(used) <= {None}


def test_rows_written_since_are_found(place, tmp_path):
    root, vectors = place
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        cold.branches.create("later")
        far = -vectors[3]
        cold.mutate(
            "query m($s: String, $v: Vector(16)) { insert Doc { slug: $s, size: 1, vector: $v } }",
            params={"s": "fresh", "v": far.tolist()},
            branch="later",
        )
        cold.mutate(
            'query m($v: Vector(16)) { update Doc set { vector: $v } where slug = "d5" }',
            params={"v": far.tolist()},
            branch="later",
        )
        cold.mutate('query m() { delete Doc where slug = "d6" }', branch="later")
        text = RANK.format(more="", how=", approximate", limit=2)
        near = cold.query(text, params={"v": far.tolist(), "n": 0}, branch="later").to_tuples()
        assert {slug for slug, _ in near} == {"fresh", "d5"}
        again = cold.query(text, params={"v": vectors[6].tolist(), "n": 0}, branch="later")
        assert "d6" not in {slug for slug, _ in again.to_tuples()}
        cold.branches.delete("later")


def test_a_plan_says_how_it_would_look(place):
    root, _ = place
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        text = RANK.format(more="", how=", approximate", limit=5)
        told = cold.explain(text)
        assert "vector index on vector, approximate" in told
        assert "approximate)" in told
        assert "vector index" not in cold.explain(RANK.format(more="", how="", limit=5))


def test_without_an_index_it_is_exact(tmp_path):
    with omnigraph.init(str(tmp_path / "n.omni"), SCHEMA, options=options()) as graph:
        rows = [{"slug": f"d{at}", "size": at, "vector": [float(at)] * DIM} for at in range(9)]
        graph.load({"Doc": rows}, "append")
        vector = np.ones(DIM, np.float32)
        assert asked(graph, vector, approximate=True) == asked(graph, vector, approximate=False)
