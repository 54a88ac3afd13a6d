"""Arguments that cannot be meant are told as such, before anything happens."""

import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import omnigraph
from omnigraph import GraphOptions
from omnigraph.errors import BadRequestError, CompileError, OmniGraphError
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  text: String?
  vector: Vector(8)? @embed("text")
}"""
ADD = 'query add() { insert Person { name: "ada" } }'
FIND = "query q($x: [String]?) { match { $p: Person } return { $p.name } }"
DEEP = []
for _ in range(50_000):
    DEEP = [DEEP]
ROW = b'{"type":"Person","data":{"name":"bo"}}'


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong") / "g.omni"
    with omnigraph.init(path, SCHEMA, options=FAST) as opened:
        opened.mutate(ADD)
        yield opened


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.mutate(ADD, 5), "the name of a query must be text, not int"),
        (lambda g: g.query(ADD, branch=None), "the branch must be text, not NoneType"),
        (lambda g: g.branches.create(None), "the branch must be text"),
        (lambda g: g.branches.delete(7), "the branch must be text, not int"),
        (lambda g: g.load(ROW, branch=None), "the branch must be text"),
        (lambda g: g.load(ROW, actor=5), "the actor must be text, not int"),
        (lambda g: g.load(ROW, actor=" "), "the actor is empty"),
        (lambda g: g.ingest(ROW, branch="b", actor=5), "the actor must be text"),
        (lambda g: g.embed(actor=""), "the actor is empty"),
        (lambda g: g.load(ROW, max_errors="9"), "max_errors is a number from 1 on, not '9'"),
        (lambda g: g.load(ROW, "merge", on_error=DEEP), r"unknown on_error \[\[\["),
        (lambda g: g.load(ROW, np.array([1, 2])), r"unknown mode array\("),
        (lambda g: g.load(DEEP, "merge"), "data is in more than 100 lists"),
        (lambda g: g.load(ROW, "merge", progress=True), "progress cannot be bool"),
        (lambda g: g.embed(progress=print), "progress cannot be builtin_function"),
        (lambda g: g.embed(mode=DEEP), "unknown mode"),
        (lambda g: g.export(os.devnull, format=DEEP), r"unknown format \[\[\["),
        (lambda g: g.stream(FIND, batch_rows=DEEP), r"a batch cannot have \[\[\["),
        (lambda g: g.changes(types=5), "types is a list of names, not int"),
        (lambda g: g.changes(columns=object()), "columns is a list of names, not object"),
        (lambda g: g.changes(max_rows=DEEP), r"max_rows is a number from 1 on, not \[\[\["),
        (lambda g: g.changes(cancel=True), "cancel is a threading.Event, not bool"),
        (lambda g: g.diff("main", "main", ops="insert"), "ops is a list of names"),
        (lambda g: g.diff("main", "main", images=DEEP), "unknown images"),
        (lambda g: g.cursor(at=DEEP), "a commit id must be text, not list"),
        (lambda g: g.commits.list(limit=DEEP), r"a limit is a number from 1 on, not \[\[\["),
        (lambda g: g.commits.list(actor=np.array([1, 2])), "the actor must be text"),
        (lambda g: g.branches.merge("x", strategy=DEEP), r"unknown merge strategy \[\[\["),
        (lambda g: g.branches.merge("x", resolve=[DEEP]), "is not a conflict"),
        (lambda g: g.query(FIND, branch=np.array([1, 2])), "the branch must be text, not ndarray"),
        (lambda g: g.mutate(ADD, np.array([1, 2])), "the name of a query must be text"),
        (lambda g: g.load([{"type": "Person", "data": {}}]), "the schema has no type 'type'"),
        (lambda g: g.at(None), "no moment is given"),
        (lambda g: g.at(True), "not a bool"),
        (lambda g: g.commits.list(limit="3"), "a limit is a number from 1 on, not '3'"),
        (lambda g: g.entity_history("node:Person", "ada", limit=1.5), "from 1 on, not 1.5"),
        (lambda g: g.revert(g.snapshot().commit_id, parent="1"), "has no parent '1'"),
        (lambda g: g.tags.create("12"), "'12' has the form of a version"),
        (lambda g: g.tags.create("a b"), "'a b' is not a tag name"),
        (lambda g: g.query(ADD, at=1.5), "not a float"),
        (
            lambda g: g.query("query q() { match { $p: Person } return { $p.name } }", limits=5),
            "not int",
        ),
        (lambda g: g.entity_at("node:Person", 5, 1), "an id must be text, not int"),
        (lambda g: g.entity_at("node:Person", "\ud800", 1), "it has a lone surrogate"),
        (lambda g: g.entity_at(["node:Person"], "ada", 1), "the key of a table must be text"),
        (lambda g: g.query(ADD, ["add"]), "the name of a query must be text, not list"),
        (lambda g: g.query(ADD, branch=["main"]), "the branch must be text, not list"),
        (lambda g: g.read_blob("Person", 5, "text"), "an id must be text, not int"),
        (lambda g: g.read_blob(["Person"], "ada", "text"), "the name of a type must be text"),
        (lambda g: g.read_blob("Person", "ada", {}), "the name of a property must be text"),
        (lambda g: g.store.snapshot_at(version="x"), "a version is a number, not str"),
        (lambda g: g.store.read_file([]), "the name of a file must be text"),
        (lambda g: g.store.break_lock(None), "the name of a lock must be text"),
        (lambda g: g.store.snapshot().pin("x"), "a pin cannot live for 'x' seconds"),
        (lambda g: g.export(os.devnull, types="Person"), "types is a list of names"),
        (lambda g: g.export(os.devnull, tables="node:Person"), "tables is a list of names"),
        (lambda g: g.export(os.devnull, types=5), "types is a list of names, not int"),
        (lambda g: g.export(os.devnull, types=b"P"), "types is a list of names, not bytes"),
        (lambda g: g.export(os.devnull, types=[5]), "a name in types must be text, not int"),
        (lambda g: g.export(os.devnull, tables=[[]]), "a name in tables must be text, not list"),
        (lambda g: g.embed([None]), "a name in types must be text, not NoneType"),
        (lambda g: g.export("\ud800"), "the path of an export is no valid text"),
        (lambda g: g.export("\ud800", format="parquet"), "the path of an export is no valid text"),
        (lambda g: g.export(""), "'.' is a folder"),
        (lambda g: g.embed("Person"), "types is a list of names"),
        (lambda g: g.export(None), "cannot export to a NoneType"),
        (lambda g: g.load(ROW.decode() * 99), "text is taken for a path"),
        (lambda g: g.query(FIND, params={"x": DEEP}), "param 'x': expected string, got array"),
        (lambda g: g.query(FIND, params={"x": ["\ud800"]}), "param 'x'"),
        (lambda g: g.load("x" * 5_000), "cannot read 'xxx.*: File name too long"),
        (lambda g: g.load(io.StringIO("\ud800")), "it has a lone surrogate"),
        (lambda g: g.query(Path("/")), "file '/' cannot be read: Is a directory"),
        (lambda g: g.query("a\0.gq"), "cannot be read: embedded null byte"),
        (lambda _: omnigraph.connect("a\0b"), "a control character"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(graph, call, message):
    before = graph.snapshot()
    with pytest.raises(BadRequestError, match=message):
        call(graph)
    assert graph.snapshot() == before
    assert graph.branches.list() == ["main"]


def test_a_number_of_changes_beyond_every_list_is_all_of_them(graph):
    assert len(graph.entity_history("node:Person", "ada", limit=10**30).versions) == 1


def test_a_file_of_text_is_no_place_for_an_export(graph, tmp_path):
    with (
        (tmp_path / "out.jsonl").open("w") as text,
        pytest.raises(BadRequestError, match="open the file with 'wb'"),
    ):
        graph.export(text)


@pytest.mark.parametrize("address", [None, 5, b"x"])
def test_an_address_is_text_or_a_path(address):
    with pytest.raises(BadRequestError, match="must be text or a path"):
        omnigraph.connect(address)


def test_a_path_is_an_address(graph):
    with omnigraph.connect(Path(graph.uri), read_only=True) as opened:
        assert opened.uri == graph.uri


@pytest.mark.parametrize("make", [omnigraph.connect, lambda uri: omnigraph.init(uri, SCHEMA)])
def test_a_file_is_no_graph_and_stays(tmp_path, make):
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(OmniGraphError, match="is a file, not a graph"):
        make(path)
    assert path.read_text() == "x"


def test_an_export_into_a_pipe_leaves_the_pipe_there(graph, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    graph.export(pipe, types=["Person"])
    reader.join(30)
    assert found == [b"".join(graph.iter_export(types=["Person"]))]
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [pipe]


def test_a_text_may_end_like_the_name_of_a_file(graph, tmp_path):
    asked = "query q() { match { $p: Person } return { $p.name as name } } // see old.gq"
    assert graph.query(asked).to_dicts() == [{"name": "ada"}]
    omnigraph.init(tmp_path / "g.omni", "node A { x: String @key } // from a.pg").close()


def test_a_stream_that_cannot_be_read_is_named(graph):
    class Broken:
        name = "socket"

        def read(self, _size):
            raise OSError("gone")

    with pytest.raises(OmniGraphError, match="socket cannot be read: gone"):
        graph.load(Broken())


@pytest.mark.parametrize("depth", [200, 5_000, 200_000])
def test_a_line_of_deeply_nested_lists_is_a_bad_row(graph, depth):
    line = b'{"type":"Person","data":{"name":"bo","text":' + b"[" * depth + b"]" * depth + b"}}"
    with pytest.raises(OmniGraphError, match="<bytes>:1: "):
        graph.load(line, "append", engine="inline")


def test_a_text_of_deeply_nested_lists_is_refused_where_it_becomes_too_deep(graph):
    with pytest.raises(CompileError, match="nested deeper than 64 levels"):
        graph.mutate(f"query q() {{ insert Person {{ name: {'[' * 99_999} }} }}")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cache", 3, "cache is text or a path or None, not 3"),
        ("cache", b"x", "cache is text or a path"),
        ("cache_bytes", "20GiB", "cache_bytes is a number or None"),
        ("cache_bytes", -1, "cache_bytes cannot be -1"),
        ("image_bytes", None, "image_bytes is a number"),
        ("image_bytes", float("nan"), "image_bytes cannot be nan"),
        ("limits", 60, "limits is Limits, not 60"),
        ("job_limits", None, "job_limits is Limits"),
        ("storage", {}, "storage is StorageOptions"),
    ],
)
def test_options_of_another_kind_are_refused_at_once(name, value, message):
    with pytest.raises(BadRequestError, match=message):
        GraphOptions(**{name: value})
