"""A text index says which rows of a cold table are looked at; which match is decided as ever."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.api.upkeep import IndexStatus
from omnigraph.engine.image.analyzer import analyze, normalise
from omnigraph.engine.read import selective
from omnigraph.graph.options import GraphOptions
from tests.support.fast import FAST

SCHEMA = """node Doc {
  slug: String @key
  body: String? @index
  size: I64
}
edge Cites: Doc -> Doc
"""
FIND = """query q($t: String) {
  match { $d: Doc  search($d.body, $t)%s } return { $d.slug, $d.size } order { $d.slug }
}"""
TEXTS = [
    "The graphs of everything", "GRAPH theory, and Trees!", "a_graph_in_snake_case",
    "happiness; HAPPY. happily", "the Café at noon", "cafe\u0301s and tea", "x\u24b6graph",
    "Straße, strasse", "\u212aelvin kelvin", "naïve/naive", "日本 graph日本", "İstanbul istanbul",
    "ΟΔΟΣ οδος", "dying dies die", "12 graphs 3.5", "nothing of it", "", "of the and",
]  # fmt: skip
ASKED = [
    "graph", "Graphs", "happy", "cafe", "CAFÉ", "strasse", "straße", "kelvin", "naive", "日本",
    "istanbul", "οδος", "die", "12", "noon tea", "the", "", "missing", "tree graph",
]  # fmt: skip
ROWS = 3_000


def options(**how):
    return GraphOptions(storage=FAST.storage, embedder=None, **how)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("texts") / "g.omni")
    with omnigraph.init(place, SCHEMA, options=options()) as graph:
        rows = [
            {"slug": f"d{at:05}", "size": at, "body": TEXTS[at] if at < len(TEXTS) else f"w{at}"}
            for at in range(ROWS)
        ]
        graph.load({"Doc": rows}, "append")
        graph.ensure_indices()
    return place


@pytest.fixture
def used(monkeypatch):
    """What indexes gave, in turn."""
    told = []
    whole = selective.matching_rows

    def listening(*given):
        found = whole(*given)
        told.append(None if found is None else found.num_rows)
        return found

    monkeypatch.setattr(selective, "matching_rows", listening)
    return told


@pytest.mark.parametrize("text", ASKED)
def test_an_index_finds_what_reading_all_texts_finds(root, used, text):
    with omnigraph.connect(root, options=options()) as graph:
        graph.query("query q() { match { $d: Doc } return { count($d) as n } }")
        every = graph.query(FIND % "", params={"t": text}).to_tuples()
    used.clear()
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        assert cold.query(FIND % "", params={"t": text}).to_tuples() == every
    assert len(used) == 1
    assert used[0] is not None
    assert used[0] <= len(every) + 2


def test_rows_written_deleted_and_changed_since_count(root, used):
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        cold.branches.create("later")
        branch = cold.branch("later")
        add = "query m($s: String, $t: String) { insert Doc { slug: $s, body: $t, size: 1 } }"
        branch.mutate(add, params={"s": "new", "t": "an unheardof word"})
        branch.mutate('query m() { update Doc set { body: "unheardof" } where slug = "d00000" }')
        branch.mutate('query m() { delete Doc where slug = "d00001" }')
        found = branch.query(FIND % "", params={"t": "unheardof"}).to_tuples()
        assert [slug for slug, _ in found] == ["d00000", "new"]
        found = branch.query(FIND % "", params={"t": "graph"}).to_tuples()
        assert not {"d00000", "d00001"} & {slug for slug, _ in found}
        cold.branches.delete("later")
    assert None not in used


def test_other_filters_hold_and_steps_go_on(root, used):
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        found = cold.query(FIND % "  $d.size < 2", params={"t": "graph"}).to_tuples()
        assert [size for _, size in found] == [0, 1]
        no = cold.query(FIND % "  not { $d cites $d }", params={"t": "graph"}).to_tuples()
        assert len(no) > 2


def test_fuzzy_and_relevance_read_all_texts(root, used):
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        fuzzy = 'query q() { match { $d: Doc  fuzzy($d.body, "grahp") } return { $d.slug } }'
        assert len(cold.query(fuzzy)) > 2
        ranked = (
            'query q() { match { $d: Doc  search($d.body, "graph") } return { $d.slug } '
            'order { bm25($d.body, "graph") } limit 3 }'
        )
        assert len(cold.query(ranked)) == 3
    assert used == []


def test_a_plan_says_which_index(root):
    with omnigraph.connect(root, options=options(image_bytes=0)) as cold:
        assert "text index on body" in cold.explain(FIND % "")


def test_an_index_that_folds_words_is_not_asked(tmp_path, used):
    from omnigraph.storage.tables.index import IndexSpec

    with omnigraph.init(str(tmp_path / "o.omni"), SCHEMA, options=options()) as graph:
        rows = [{"slug": f"d{at}", "size": at, "body": f"Graph{at} dies"} for at in range(2_100)]
        graph.load({"Doc": rows}, "append")
        graph.store.build_index("node:Doc", IndexSpec("body", "INVERTED", "body_inverted"))
    with omnigraph.connect(tmp_path / "o.omni", options=options(image_bytes=0)) as cold:
        assert len(cold.query(FIND % "", params={"t": "die"})) == 2_100
    assert used == [None]
    with omnigraph.connect(tmp_path / "o.omni", options=options()) as graph:
        (text,) = [
            one for one in graph.ensure_indices() if (one.kind, one.column) == ("INVERTED", "body")
        ]
        assert text.status is IndexStatus.REFRESHED
    with omnigraph.connect(tmp_path / "o.omni", options=options(image_bytes=0)) as cold:
        assert len(cold.query(FIND % "", params={"t": "graph7"})) == 1
    assert used == [None, 1]


@given(st.from_regex(r"[A-Za-z0-9]{1,14}", fullmatch=True))
@settings(max_examples=500, deadline=None)
def test_stemming_takes_nothing_from_the_front(word):
    term = normalise(word)
    assert term is None or term[0] == word[0].lower()
    assert len(analyze(word)) <= 1
