"""A node and an edge type may share a name; nothing may take the one for the other."""

import io

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.model import InputError
from tests.pipeline.conftest import edge, jsonl, node, rows
from tests.support.fast import FAST

SCHEMA = """node Link {
  name: String @key
}

node Place {
  name: String @key
}

edge Link: Link -> Place
edge Road: Place -> Place
"""
RECORDS = jsonl(
    node("Link", name="a"),
    node("Place", name="p"),
    edge("Link", "a", "p", id="l1"),
    edge("Road", "p", "p", id="r1"),
)
TABLES = ("node:Link", "node:Place", "edge:Link", "edge:Road")


@pytest.fixture
def twins(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        graph.load(RECORDS)
        yield graph


def everything(graph):
    return {key: rows(graph, key) for key in TABLES}


def lines(graph, *types):
    out = io.BytesIO()
    graph.export(out, types=list(types))
    return sorted(line.split(b",")[0] for line in out.getvalue().splitlines())


def test_an_export_by_name_holds_both_and_by_table_one(twins):
    nodes, edges = [b'{"type":"Link"'], [b'{"edge":"Link"']
    assert lines(twins, "Link") == edges + nodes
    assert lines(twins, "node:Link") == nodes
    assert lines(twins, "edge:Link") == lines(twins, "edge:link") == edges


def test_parquet_files_of_both_load_back(twins, tmp_path):
    twins.export(tmp_path / "out", format="parquet")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"edge.Link.parquet", "node.Link.parquet", "Place.parquet", "Road.parquet"}
    with omnigraph.init(str(tmp_path / "again.omni"), SCHEMA, options=FAST) as again:
        again.load(tmp_path / "out")
        assert everything(again) == everything(twins)


def test_a_table_for_the_bare_name_is_refused_and_by_its_table_loaded(twins):
    more = twins.store.snapshot().open("node:Link").scan(["name"])
    with pytest.raises(InputError, match="a node and an edge type are named 'Link'") as caught:
        twins.load({"Link": more}, mode="merge")
    assert caught.value.hint == "say which one: 'node:Link' or 'edge:Link'"
    assert twins.load({"node:Link": more}, mode="merge").nodes_loaded == {"Link": 1}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("node:Road", "the schema has no node type 'Road' (hint: it has Link, Place)"),
        ("edge:Place", "the schema has no edge type 'Place' (hint: it has Link, Road)"),
        ("Robot", "the schema has no type 'Robot' (hint: it has Link, Place, Link, Road)"),
        ("Link", "a node and an edge type are named 'Link' (hint: say which one"),
    ],
)
def test_a_word_that_means_no_single_type_is_told(twins, word, told):
    with pytest.raises(OmniGraphError) as caught:
        twins.at(twins.snapshot().commit_id).catalog.type_named(word)
    assert told in f"{caught.value} (hint: {caught.value.hint})"


@pytest.mark.xdist_group("spark")
def test_spark_has_a_frame_for_each(twins, spark):
    session = SparkSession(spark)
    frames = twins.spark(session)
    assert {*frames} == {"node:Link", "edge:Link", "Place", "Road"}
    assert [row["id"] for row in frames["node:Link"].collect()] == ["a"]
    assert [row["id"] for row in frames["edge:Link"].collect()] == ["l1"]
    nodes = session.read.format("omnigraph").option("type", "node:Link").load(twins.uri)
    twins.write_spark(nodes, type="node:Link", mode="merge")
    assert {*everything(twins)["node:Link"]} == {"a"}
