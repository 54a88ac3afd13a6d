"""The cache knows what it holds, and answers do not depend on how much it may hold."""

import gc
import weakref
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.budget import Budget, Limits
from omnigraph.compiler.query.typed import Direction
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.errors import BudgetExceededError
from tests.support.fast import FAST

SCHEMA = """
node Doc { slug: String @key  text: String  size: I64?  vector: Vector(8) }
edge Cites: Doc -> Doc
"""
COUNT = 3_000
QUERIES = [
    'query q() { match { $d: Doc { slug: "d0007" }  $d cites $e } return { $e.slug, $e.size } }',
    "query q() { match { $d: Doc  $d.size > 2990 } return { $d.slug } order { $d.size desc } }",
    "query q() { match { $d: Doc  $d cites $e } return { $e.size, count(*) as n } limit 9 }",
    'query q() { match { $d: Doc } return { $d.slug, bm25($d.text, "w3 w5") as s } '
    'order { bm25($d.text, "w3 w5") } limit 9 }',
    "query q() { match { $d: Doc  $d cites $e } return { $e.slug } "
    "order { nearest($d.vector, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) } limit 9 }",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    rng = Random(7)
    where = str(tmp_path_factory.mktemp("cache") / "g.omni")
    ids = [f"d{at:04}" for at in range(COUNT)]
    with omnigraph.init(where, SCHEMA, options=FAST) as graph:
        session = graph.store.begin()
        docs = {
            "id": ids,
            "slug": ids,
            "text": [f"w{rng.randrange(9)} w{rng.randrange(99)}" for _ in ids],
            "size": list(range(COUNT)),
            "vector": pa.array(
                [[rng.random() for _ in range(8)] for _ in ids], pa.list_(pa.float32(), 8)
            ),
        }
        session.append("node:Doc", pa.table(docs))
        ends = {"src": ids, "dst": rng.sample(ids, COUNT)}
        session.append("edge:Cites", pa.table({"id": [f"c{at}" for at in range(COUNT)], **ends}))
        session.commit()
    return where


def answers(graph):
    return [[graph.query(text).to_dicts() for _ in range(3)] for text in QUERIES]


def test_answers_are_the_same_in_any_amount_of_memory(place):
    with omnigraph.connect(place, options=FAST) as roomy:
        wanted = answers(roomy)
        whole = roomy._state.reader.cache.nbytes
    for share in (0.0, 0.1, 0.6):
        with omnigraph.connect(
            place, options=replace(FAST, image_bytes=int(share * whole))
        ) as graph:
            assert answers(graph) == wanted
            assert graph._state.reader.cache.nbytes <= share * whole


def test_a_table_that_does_not_fit_is_not_read_whole_for_every_query(place):
    with omnigraph.connect(place, options=replace(FAST, image_bytes=1_000)) as graph:
        tables = list(graph.store.snapshot().tables.values())
        answers(graph)
        assert not graph._state.reader.cache.would_reside(tables)


def images(place_or_graph, cache):
    return SnapshotImages(place_or_graph.store.snapshot(), place_or_graph.catalog, cache)


def test_everything_queries_derive_is_counted(place):
    with omnigraph.connect(place, options=FAST) as graph:
        cache = ImageCache(1 << 40)
        found = images(graph, cache)
        doc = found.node("Doc")
        for grow in (
            lambda: doc.column("size"),
            lambda: doc.base.ids,
            lambda: doc.id_order,
            lambda: doc.sort_codes("size"),
            lambda: doc.live_positions,
            lambda: found.postings("Doc", "text"),
            lambda: found.postings("Doc", "text").hits("w3"),
            lambda: found.vectors("Doc", "vector"),
            lambda: found.adjacency("Cites", Direction.OUT),
        ):
            before = cache.nbytes
            grow()
            assert cache.nbytes > before


def test_what_versions_share_is_counted_once_and_goes_with_the_last_of_them(tmp_path):
    add = "query m($s: String, $v: Vector(8)) { insert Doc { slug: $s, text: $s, vector: $v } }"
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        for at in range(5):
            graph.mutate(add, params={"s": f"d{at}", "v": [float(at)] * 8})
        cache = ImageCache(1 << 40)
        first = images(graph, cache)
        first.node("Doc").column("text")
        first.postings("Doc", "text")
        shared = cache.nbytes
        graph.mutate(add, params={"s": "new", "v": [1.0] * 8})
        second = images(graph, cache)
        second.postings("Doc", "text")
        assert second.node("Doc").base is first.node("Doc").base
        assert second.postings("Doc", "text").base is first.postings("Doc", "text").base
        assert shared < cache.nbytes < 2 * shared
        cache.max_bytes = 0
        assert cache.shrink()
        assert cache.nbytes == 0
        assert not cache.shrink()


def test_a_long_history_of_writes_keeps_a_few_versions(tmp_path):
    add = "query m($s: String, $v: Vector(8)) { insert Doc { slug: $s, text: $s, vector: $v } }"
    find = (
        'query q() { match { $d: Doc } return { $d.slug } order { bm25($d.text, "w1") } limit 3 }'
    )
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        first = graph.snapshot().commit_id
        for at in range(24):
            graph.mutate(add, params={"s": f"w{at}", "v": [1.0] * 8})
            assert len(graph.query(find)) == (at >= 1)
        kept = [key[0] for key in graph._state.reader.cache._entries]
        assert kept.count("table") == 4
        assert 1 <= kept.count("postings") <= 4
        assert len(graph.query(find, at=first)) == 0
        assert len(graph.query(find)) == 1


def test_an_image_that_a_refused_query_began_to_use_is_let_go(tmp_path):
    text = 'query q() { match { $d: Doc } return { $d.slug } order { bm25($d.text, "w3") } }'
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as graph:
        insert = (
            'query add() { insert Doc { slug: "d", text: "w3", '
            "vector: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] } }"
        )
        graph.mutate(insert)
        snapshot = graph.store.snapshot()
        cache = ImageCache(1 << 30)
        images = SnapshotImages(snapshot, graph.catalog, cache)
        image = weakref.ref(images.node("Doc"))
        with Budget(Limits(bytes=0)), pytest.raises(BudgetExceededError):
            images.postings("Doc", "text")
        cache.forget(snapshot.tables.values())
        del images
        gc.collect()
        assert image() is None
        with pytest.raises(BudgetExceededError):
            graph.query(text, limits=Limits(bytes=0))
        assert graph.query(text).to_dicts() == [{"d.slug": "d"}]
