"""Texts and vectors of large tables: what was made of them once is mapped, and ranks the same."""

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.version import VERSION
from omnigraph.engine.image import cache, shelved_search, vectors
from omnigraph.engine.image.shelf_upkeep import kept_in
from tests.support.fast import FAST
from tests.support.shelves import opened, settle, small

SCHEMA = "node D { k: String @key  t: String?  v: Vector(16)? }"
BM25 = (
    "query q($t: String) { match { $d: D } return { $d.k as k } order { bm25($d.t, $t) } limit 7 }"
)

NEAR = (
    "query q($v: Vector(16)) { match { $d: D } return { $d.k as k } "
    "order { nearest($d.v, $v) } limit 7 }"
)
WORD = 'query q() { match { $d: D  search($d.t, "w3") } return { count($d) as n } }'
ROWS = 2_000
rng = np.random.default_rng(5)
CENTRES = rng.standard_normal((20, 16))


@pytest.fixture(params=["clusters", "even"])
def place(tmp_path, monkeypatch, request):
    small(monkeypatch)
    monkeypatch.setattr(vectors, "SHORTCUTS_FROM", 100)
    monkeypatch.setattr(vectors, "BLOCKS_AFTER", 2)
    monkeypatch.setattr(vectors, "PREFIX_AFTER", 4)
    near = CENTRES[rng.integers(0, 20, ROWS)] * (request.param == "clusters")
    matrix = (near + 0.1 * rng.standard_normal((ROWS, 16))).astype(np.float32)
    vector = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 16)
    texts = [None if at % 9 == 0 else f"w{at % 40} w{at % 7} x{at}" for at in range(ROWS)]
    rows = pa.table({"k": [f"d{at}" for at in range(ROWS)], "t": texts, "v": vector})
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as graph:
        graph.load({"D": rows}, engine="inline")
    return tmp_path / "g"


def ask(graph):
    found = [graph.query(WORD).to_dicts()]
    found += [graph.query(BM25, params={"t": text}).to_dicts() for text in ("w3 w5", "x77 w1")]
    asked = [CENTRES[at].tolist() for at in range(4)]
    return found + [graph.query(NEAR, params={"v": one}).to_dicts() for one in asked]


def warmed(place, folder):
    with opened(place, folder) as graph:
        for _ in range(3):
            expected = ask(graph)
            settle()
    return expected


@pytest.fixture
def made(monkeypatch):
    """What had to be made of texts and vectors."""
    done = []
    for module, name in (
        (cache, "build_lists"),
        (cache, "build_base"),
        (vectors, "build_blocks"),
        (vectors, "build_prefix"),
    ):
        build = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, _name=name, _build=build: done.append(_name) or _build(*a)
        )
    return done


def test_another_process_makes_nothing_of_texts_and_vectors_again(place, tmp_path, made):
    expected = warmed(place, tmp_path / "cache")
    assert {"build_lists", "build_base", "build_blocks"} <= {*made}
    made.clear()
    with opened(place, tmp_path / "cache") as graph:
        for _ in range(3):
            assert ask(graph) == expected
            settle()
    assert made == []
    with omnigraph.connect(place, options=FAST) as plain:
        assert ask(plain) == expected


def test_rows_that_changed_since_are_ranked_with_those_that_are_mapped(place, tmp_path):
    warmed(place, tmp_path / "cache")
    with omnigraph.connect(place, options=FAST) as other:
        other.mutate('query u() { update D set { t: "w3 w3 w3" } where k = "d5" }')
        other.mutate('query d() { delete D where k = "d77" }')
        expected = [ask(other) for _ in range(2)][-1]
    with opened(place, tmp_path / "cache") as graph:
        assert ask(graph) == expected


def test_what_another_program_version_made_is_not_taken_over(place, tmp_path, made, monkeypatch):
    expected = warmed(place, tmp_path / "cache")
    monkeypatch.setattr(shelved_search, "VERSION", f"{VERSION}.after")
    made.clear()
    with opened(place, tmp_path / "cache") as graph:
        assert ask(graph) == expected
    assert {"build_lists", "build_base"} <= {*made}


def test_damaged_lists_are_made_again(place, tmp_path, made):
    expected = warmed(place, tmp_path / "cache")
    [base] = kept_in(tmp_path / "cache")
    for path in base.place.glob("lists-*.data"):
        path.write_bytes(path.read_bytes()[:-1])
    made.clear()
    with opened(place, tmp_path / "cache") as graph:
        assert ask(graph) == expected
    assert made.count("build_lists") == 1
