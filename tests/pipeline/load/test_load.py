"""Loading JSON lines: modes, ids, values, rules, and what a failed load leaves behind."""

import datetime as dt
import gzip
import io
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.violations import Rule
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import BadRequestError, DeniedError, NotFoundError
from omnigraph.pipeline.model import InputError, PipelineOptions, StagingError, UnreadableError
from omnigraph.pipeline.stages import loaded
from tests.pipeline.conftest import edge, jsonl, node, rows
from tests.support.fast import FAST

ADA, BOB = node("Person", name="ada"), node("Person", name="bob")


def faults(graph, data, **options):
    """The violations of a load that must fail and change nothing."""
    before = graph.snapshot().commit_id
    with pytest.raises(ConstraintError) as caught:
        graph.load(data, **options)
    assert graph.snapshot().commit_id == before
    return caught.value


def test_nodes_and_edges_of_one_file_become_one_commit(graph):
    before = len(graph.commits.list(all=True, reverse=True))
    result = graph.load(
        jsonl(edge("Knows", "ada", "bob", since="2020-01-31"), ADA, BOB), actor="tess"
    )
    assert result.nodes_loaded == {"Person": 2}
    assert result.edges_loaded == {"Knows": 1}
    commits = graph.commits.list(all=True, reverse=True)
    assert len(commits) == before + 1
    newest = graph.commits.get(result.commit_id)
    assert newest.actor_id == "tess"
    (knows,) = rows(graph, "edge:Knows").values()
    assert (knows["src"], knows["dst"], knows["since"]) == ("ada", "bob", dt.date(2020, 1, 31))
    assert list((graph.store.kernel.objects.path("__staging")).iterdir()) == []


def test_every_kind_of_value_arrives_as_written(graph):
    graph.load(
        jsonl(
            node(
                "Person",
                name="ada",
                email="a@b",
                age=36,
                level="senior",
                big=2**64 - 1,
                score=0.1,
                exact=1e300,
                active=True,
                born="1815-12-10",
                seen="1969-12-31T23:59:59.999Z",
                tags=["x", None, "ü"],
                days=["1969-12-31"],
                sizes=[-(2**63), 2**63 - 1],
                photo="base64:AAEC",
                place=[1, 2.5, -3],
            )
        )
    )
    ada = rows(graph, "node:Person")["ada"]
    assert ada == {
        "id": "ada",
        "name": "ada",
        "email": "a@b",
        "age": 36,
        "level": "senior",
        "big": 2**64 - 1,
        "score": pytest.approx(0.1, rel=1e-7),
        "exact": 1e300,
        "active": True,
        "born": dt.date(1815, 12, 10),
        "seen": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC),
        "tags": ["x", None, "ü"],
        "days": [dt.date(1969, 12, 31)],
        "sizes": [-(2**63), 2**63 - 1],
        "photo": b"\x00\x01\x02",
        "place": [1.0, 2.5, -3.0],
    }


def test_unusual_spellings_mean_the_same_as_usual_ones(graph):
    usual = node("Person", name="a", age=1, born="1970-01-02", seen="1970-01-01T00:00:01Z")
    unusual = node("Person", name="b", age=1.0, born=1, seen="1970-01-01 01:00:01+01:00")
    number = node("Person", name="c", age=1, born=1, seen=1000)
    graph.load(jsonl(usual, unusual, number))
    found = rows(graph, "node:Person")
    assert len({(row["age"], row["born"], row["seen"]) for row in found.values()}) == 1


def test_comments_blank_lines_marks_and_line_ends_are_passed_over(graph):
    text = b"\xef\xbb\xbf" + b'{"type":"Person","data":{"name":"ada"}}\r\n'
    text += b"\n  \n// a comment\n  // another\n"
    text += b'  { "data" : { "name" : "bob" } , "type" : "Person" }  '
    assert graph.load(text).nodes_loaded == {"Person": 2}


def test_edge_names_are_known_whatever_their_case(graph):
    graph.load(jsonl(ADA, {"edge": "KNOWS", "from": "ada", "to": "ada"}))
    assert len(rows(graph, "edge:Knows")) == 1


def test_generated_ids_sort_in_input_order_and_given_ones_are_kept(graph):
    graph.load(
        jsonl(node("Note", text="1"), node("Note", text="2"), node("Note", text="3", id="x"))
    )
    found = rows(graph, "node:Note")
    assert [found[key]["text"] for key in sorted(found)] == ["1", "2", "3"]
    assert "x" in found


def test_a_composite_key_gives_the_id_that_mutations_use(graph):
    graph.load(jsonl(node("Slot", room='a"b', hour=1), node("Slot", room="c", hour=2)))
    loaded = set(rows(graph, "node:Slot"))
    graph.mutate('query add() { insert Slot { room: "c", hour: 2 } }')
    assert set(rows(graph, "node:Slot")) == loaded == {'["a\\"b","1"]', '["c","2"]'}


# Modes


def test_overwrite_replaces_touched_tables_and_leaves_the_others(graph):
    graph.load(jsonl(ADA, BOB, node("Note", text="kept")))
    graph.load(jsonl(node("Person", name="eve")))
    assert set(rows(graph, "node:Person")) == {"eve"}
    assert len(rows(graph, "node:Note")) == 1


def test_overwrite_may_not_leave_edges_of_other_tables_dangling(graph):
    graph.load(jsonl(ADA, BOB, edge("Knows", "ada", "bob")))
    error = faults(graph, jsonl(ADA))
    assert [one.rule for one in error.violations] == [Rule.ENDPOINT]
    assert "'bob'" in str(error)
    graph.load(jsonl(ADA, edge("Knows", "ada", "ada")))
    assert set(rows(graph, "node:Person")) == {"ada"}


def test_append_refuses_ids_that_exist(graph):
    graph.load(jsonl(ADA))
    error = faults(graph, jsonl(BOB, ADA), mode="append")
    assert [(one.rule, one.place) for one in error.violations] == [(Rule.KEY, "<bytes>:2")]
    graph.load(jsonl(BOB, edge("Knows", "ada", "bob")), mode="append")
    assert set(rows(graph, "node:Person")) == {"ada", "bob"}


def test_merge_replaces_whole_rows_by_id_and_adds_the_others(graph):
    graph.load(jsonl(node("Person", name="ada", age=1, email="a@b"), BOB))
    graph.load(jsonl(node("Person", name="ada", age=2), node("Person", name="eve")), mode="merge")
    found = rows(graph, "node:Person")
    assert set(found) == {"ada", "bob", "eve"}
    assert (found["ada"]["age"], found["ada"]["email"]) == (2, None)


def test_merging_the_same_edges_by_id_counts_them_once(graph):
    data = jsonl(ADA, BOB, edge("Boss", "ada", "bob", id="b1"))
    graph.load(data, mode="merge")
    graph.load(data, mode="merge")
    assert set(rows(graph, "edge:Boss")) == {"b1"}


@pytest.mark.parametrize("mode", ["overwrite", "append", "merge"])
def test_an_id_given_twice_is_refused_in_every_mode(graph, mode):
    error = faults(graph, jsonl(ADA, BOB, node("Person", name="ada", age=1)), mode=mode)
    (one,) = error.violations
    assert (one.rule, one.place) == (Rule.KEY, "<bytes>:3")
    assert "first at <bytes>:1" in one.message


def test_a_load_of_nothing_is_no_commit(graph):
    result = graph.load(b"// nothing here\n")
    assert (result.commit_id, result.tables) == (None, ())


def test_unknown_words_are_refused_before_anything_is_read(graph):
    for options in ({"mode": "replace"}, {"engine": "flink"}, {"on_error": "shrug"}):
        with pytest.raises(BadRequestError, match="unknown"):
            graph.load(b"", **options)


def test_a_branch_that_does_not_exist_is_not_created_by_load(graph):
    with pytest.raises(NotFoundError):
        graph.load(jsonl(ADA), branch="typo")
    assert graph.branches.list() == ["main"]


def test_a_graph_open_for_reading_is_refused_before_anything_is_read(graph):
    with (
        omnigraph.connect(graph.uri, read_only=True, options=FAST) as reader,
        pytest.raises(DeniedError),
    ):
        reader.load("nowhere.jsonl")


def test_ingest_creates_its_branch_and_loads_there(graph):
    graph.load(jsonl(ADA))
    result = graph.ingest(jsonl(BOB), branch="review")
    assert (result.branch_created, result.base_branch) == (True, "main")
    assert set(rows(graph, "node:Person", "review")) == {"ada", "bob"}
    assert set(rows(graph, "node:Person")) == {"ada"}
    assert graph.ingest(jsonl(ADA), branch="review").branch_created is False


def test_ingest_that_fails_leaves_no_branch_it_created(graph):
    with pytest.raises(ConstraintError):
        graph.ingest(jsonl(edge("Knows", "no", "one")), branch="review")
    assert graph.branches.list() == ["main"]


# Faults

BAD_LINES = [
    pytest.param(b'{"type":"Person","data":{"name":"x"}', "invalid JSON", id="cut"),
    pytest.param(b"[1]", "expected a JSON object", id="no-object"),
    pytest.param(b'{"data":{}}', "expected 'type' or 'edge' field", id="no-type"),
    pytest.param(b'{"type":"Robot","data":{}}', "unknown node type 'Robot'", id="node-type"),
    pytest.param(b'{"edge":"Hates","from":"a","to":"a"}', "unknown edge type", id="edge-type"),
    pytest.param(b'{"type":"Person","edge":"Knows"}', "not both", id="both"),
    pytest.param(b'{"type":"Person","data":{}}', "missing its @key", id="no-key"),
    pytest.param(b'{"edge":"Knows","to":"a"}', "missing 'from'", id="no-from"),
    pytest.param(b'{"edge":"Knows","from":"a","to":null}', "missing 'to'", id="null-to"),
    pytest.param(b'{"edge":"Knows","from":1,"to":"a"}', "must be text", id="number-from"),
    pytest.param(b'{"type":"Person","data":{"name":"x","nam":1}}', "no property 'nam'", id="prop"),
    pytest.param(b'{"type":"Person","id":1,"data":{"name":"x"}}', "unexpected field", id="extra"),
    pytest.param(b'{"type":"Person","data":[1]}', "must be an object", id="data"),
    pytest.param(b'{"type":"Person","data":{"name":1}}', "expected a String", id="string"),
    pytest.param(b'{"type":"Person","data":{"name":"x","name":"y"}}', "given twice", id="twice"),
    pytest.param(b'{"type":"Person","data":{"name":"x","id":"y"}}', "is not the key", id="id"),
    pytest.param(b'{"type":"Person","data":{"name":"x","age":1.5}}', "expected an I32", id="int"),
    pytest.param(b'{"type":"Person","data":{"name":"x","age":3000000000}}', "range", id="i32"),
    pytest.param(b'{"type":"Person","data":{"name":"x","age":"1"}}', "expected an I32", id="text"),
    pytest.param(b'{"type":"Person","data":{"name":"x","big":-1}}', "out of range", id="u64"),
    pytest.param(b'{"type":"Person","data":{"name":"x","score":1e39}}', "exceeds F32", id="f32"),
    pytest.param(b'{"type":"Person","data":{"name":"x","exact":NaN}}', "invalid JSON", id="nan"),
    pytest.param(b'{"type":"Person","data":{"name":"x","born":"2020-02-30"}}', "Date", id="date"),
    pytest.param(b'{"type":"Person","data":{"name":"x","born":9999999}}', "range", id="days"),
    pytest.param(b'{"type":"Person","data":{"name":"x","seen":"noon"}}', "DateTime", id="time"),
    pytest.param(b'{"type":"Person","data":{"name":"x","place":[1,2]}}', "3 dimensions", id="dim"),
    pytest.param(b'{"type":"Person","data":{"name":"x","place":[1,2,"c"]}}', "F32", id="vector"),
    pytest.param(b'{"type":"Person","data":{"name":"x","photo":"base64:?"}}', "base64", id="blob"),
    pytest.param(b'{"type":"Person","data":{"name":"x","tags":"a"}}', "expected a list", id="list"),
    pytest.param(b'{"type":"Person","data":{"name":"\xff"}}', "invalid UTF-8", id="utf8"),
    pytest.param(b'{"type":"Person","data":{"name":"\\ud800"}}', "invalid JSON", id="surrogate"),
    pytest.param(b'{"type":"Person","data":{"name":"x"}} {"type":"Person"}', "JSON", id="two"),
    pytest.param(b'{"type":"Person","data":{"name":"x","level":"boss"}}', "enum value", id="enum"),
    pytest.param(b'{"type":"Person","data":{"name":"x","age":151}}', "@range", id="range"),
    pytest.param(b'{"type":"Person","data":{"name":"x","email":"y"}}', "@check", id="check"),
    pytest.param(b'{"type":"Note"}', "null in a required property", id="required"),
    pytest.param(b'{"edge":"Knows","from":"ada","to":"nobody"}', "'nobody' not found", id="end"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_is_named_and_nothing_is_written(shared, line, message):
    (one,) = faults(shared, jsonl(ADA) + b"\n" + line + b"\n" + jsonl(BOB)).violations
    assert message in one.message
    assert one.place == "<bytes>:3"


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_can_be_left_out(shared, line, message):
    result = shared.load(jsonl(ADA) + line + b"\n" + jsonl(BOB), on_error="skip")
    assert set(rows(shared, "node:Person")) == {"ada", "bob"}
    assert result.skipped == 1
    (one,) = result.skipped_rows
    assert message in one.message
    assert one.place == "<bytes>:2"


def test_a_value_over_several_lines_is_refused_with_its_line(graph):
    error = faults(graph, b'{"type":"Person",\n "data":{"name":"x"}}\n')
    assert [one.place for one in error.violations] == ["<bytes>:1", "<bytes>:2"]
    assert "one record per line" in error.violations[0].message


def test_rules_across_rows_name_their_lines(graph):
    data = jsonl(
        node("Person", name="ada", email="x@y"),
        node("Person", name="bob", email="x@y"),
        edge("Boss", "ada", "bob"),
        edge("Boss", "ada", "ada"),
    )
    found = {one.rule: one for one in faults(graph, data).violations}
    assert set(found) == {Rule.UNIQUE, Rule.CARDINALITY}
    assert found[Rule.UNIQUE].place == "<bytes>:2"


def test_unique_values_of_committed_rows_are_respected(graph):
    graph.load(jsonl(node("Person", name="ada", email="x@y")))
    again = jsonl(node("Person", name="bob", email="x@y"))
    error = faults(graph, again, mode="append")
    assert [one.rule for one in error.violations] == [Rule.UNIQUE]
    graph.load(again, mode="overwrite")


def test_faults_of_all_rows_are_collected_without_their_echoes(graph):
    data = jsonl(
        node("Person", name="ada", age="old"),
        node("Person", name="bob", age=200),
        edge("Knows", "ada", "bob"),
    )
    error = faults(graph, data)
    assert [(one.rule, one.place) for one in error.violations] == [
        (Rule.TYPE, "<bytes>:1"),
        (Rule.RANGE, "<bytes>:2"),
    ]


def test_a_hundred_thousand_bad_rows_make_a_small_report(graph):
    error = faults(graph, b'{"type":"Robot","data":{}}\n' * 100_000)
    assert (len(error.violations), error.total) == (100, 100_000)
    assert error.violations[99].place == "<bytes>:100"


def test_leaving_out_a_node_leaves_out_its_edges(graph):
    data = jsonl(
        ADA,
        node("Person", name="bob", age=200),
        edge("Knows", "ada", "bob"),
        edge("Knows", "ada", "ada"),
        edge("Boss", "ada", "ada"),
        edge("Boss", "ada", "ada"),
    )
    result = graph.load(data, on_error="skip")
    assert (result.skipped, result.nodes_loaded) == (4, {"Person": 1})
    assert result.edges_loaded == {"Knows": 1}


def test_leaving_out_every_row_of_a_table_does_not_empty_it(graph):
    graph.load(jsonl(ADA))
    result = graph.load(jsonl(node("Person", name="x", age=-1)), on_error="skip")
    assert (result.commit_id, result.skipped) == (None, 1)
    assert set(rows(graph, "node:Person")) == {"ada"}


# Inputs


def test_files_globs_folders_and_addresses_are_found(graph, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(jsonl(ADA))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(jsonl(BOB)))
    with pa.CompressedOutputStream(str(folder / "c.jsonl.zst"), "zstd") as out:
        out.write(jsonl(node("Person", name="eve")))
    (folder / "readme.txt").write_text("not data")
    for data, files in (
        (folder, 3),
        (str(folder / "*.jsonl*"), 3),
        ([folder / "a.jsonl", str(folder / "b.jsonl.gz")], 2),
        (f"file://{folder}/a.jsonl", 1),
        ((folder / "a.jsonl").open("rb"), 1),
        (io.StringIO(jsonl(ADA).decode()), 1),
    ):
        result = graph.load(data)
        assert result.files == files
        assert result.nodes_loaded == {"Person": files}
        if hasattr(data, "close"):
            data.close()


def test_standard_input_is_a_dash(graph, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(jsonl(ADA))))
    assert graph.load("-").nodes_loaded == {"Person": 1}


def test_a_pipe_is_read_like_a_file(graph, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(
        target=lambda: path.write_bytes(gzip.compress(jsonl(node("Person", name="x")) + b"{}\n"))
    )
    writer.start()
    with pytest.raises(ConstraintError, match=f"{path}:2: expected 'type' or 'edge'"):
        graph.load(path, on_error="fail")
    writer.join()


def test_faults_name_their_file_and_line_in_each_of_several(graph, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(
            gzip.compress(jsonl(node("Note", text=name)) + b"{}\n")
        )
    error = faults(graph, str(tmp_path / "*.gz"))
    assert [one.place for one in error.violations] == [
        f"{tmp_path}/one.jsonl.gz:2",
        f"{tmp_path}/two.jsonl.gz:2",
    ]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param("nowhere.jsonl", NotFoundError, id="missing"),
        pytest.param("", InputError, id="empty"),
        pytest.param("nowhere*.jsonl", NotFoundError, id="glob"),
        pytest.param("gs://bucket/x.jsonl", InputError, id="gs"),
        pytest.param(17, InputError, id="number"),
        pytest.param({"Robot": pa.table({"name": ["x"]})}, InputError, id="type"),
        pytest.param({"Person": pa.table({"nam": ["x"]})}, InputError, id="column"),
        pytest.param({"Knows": pa.table({"from": ["x"]})}, InputError, id="end"),
        pytest.param({"Person": [17]}, InputError, id="frame"),
    ],
)
def test_what_is_not_data_is_refused(graph, data, kind):
    with pytest.raises(kind):
        graph.load(data)


def test_a_broken_archive_changes_nothing(graph, tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(ADA) * 1000)[:-20])
    with pytest.raises(UnreadableError, match=r"x\.jsonl\.gz cannot be read"):
        graph.load(path)
    assert list((graph.store.kernel.objects.path("__staging")).iterdir()) == []


def test_an_edge_file_may_come_before_its_nodes(graph, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(jsonl(edge("Knows", "ada", "bob")))
    (tmp_path / "b.jsonl").write_bytes(jsonl(ADA, BOB))
    assert graph.load([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]).edges_loaded == {"Knows": 1}


def test_texts_become_vectors_where_the_schema_asks(tmp_path):
    schema = "node Doc {\n  slug: String @key\n  text: String\n  v: Vector(8) {}\n}\n"
    embed = '@embed("text", model="wordllama/l2_supercat_256")'
    with omnigraph.init(str(tmp_path / "e.omni"), schema.replace("{}", embed)) as graph:
        result = graph.load(
            jsonl(
                node("Doc", slug="a", text="a cat"),
                node("Doc", slug="b", text="b", v=[1] + [0] * 7),
            )
        )
        assert result.embedded == 1
        found = rows(graph, "node:Doc")
        assert len(found["a"]["v"]) == 8
        assert found["b"]["v"][0] == 1


def test_as_many_faults_are_told_as_asked_for(graph):
    data = jsonl(*(node("Person", name=f"p{at}", age=-1) for at in range(300)))
    for asked, told in ((None, 100), (7, 7), (1_000, 300)):
        error = faults(graph, data, max_errors=asked)
        assert (len(error.violations), error.total) == (told, 300)
        assert error.violations[-1].place == f"<bytes>:{told}"
    with pytest.raises(BadRequestError, match="max_errors is a number from 1 on, not 0"):
        graph.load(data, max_errors=0)


def test_faults_of_rows_and_of_values_come_in_the_order_of_the_input(graph):
    data = b"{}\n" + jsonl(
        node("Note", text=None),
        {"data": {"text": None}, "type": "Note"},
        node("Person", name="x", age=-1, level="boss"),
    )
    error = faults(graph, data + b"{}\n")
    assert [one.place for one in error.violations] == [
        "<bytes>:1",
        "<bytes>:2",
        "<bytes>:3",
        "<bytes>:4",
        "<bytes>:4",
        "<bytes>:5",
    ]
    result = graph.load(data, on_error="skip")
    assert result.skipped == 4


def test_a_full_disk_is_told_and_changes_nothing(graph, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(jsonl(ADA))
    before = graph.snapshot().commit_id
    options = omnigraph.GraphOptions(
        storage=FAST.storage,
        pipeline=PipelineOptions(staging=Path("/dev/full")),
    )
    with (
        omnigraph.connect(graph.uri, options=options) as other,
        pytest.raises(StagingError, match="cannot write to"),
    ):
        other.load(tmp_path / "x.jsonl")
    assert graph.snapshot().commit_id == before


def test_keys_of_very_much_text_are_checked(graph, monkeypatch):
    monkeypatch.setattr(loaded, "_LARGE_BYTES", 0)
    graph.load(jsonl(ADA, BOB, edge("Boss", "ada", "bob", id="b"), edge("Knows", "ada", "bob")))
    for mode in ("append", "merge", "overwrite"):
        error = faults(
            graph,
            jsonl(
                node("Person", name="eve", email="e@x"),
                node("Person", name="eva", email="e@x"),
                edge("Boss", "ada", "nobody"),
                edge("Boss", "ada", "bob"),
                edge("Boss", "ada", "eve"),
            ),
            mode=mode,
        )
        assert {one.rule for one in error.violations} >= {Rule.UNIQUE, Rule.CARDINALITY}
    assert graph.load(jsonl(node("Person", name="ada", age=2)), "merge").nodes_loaded == {
        "Person": 1
    }


def test_everything_in_a_row_that_does_not_fit_is_told(graph, tmp_path):
    data = jsonl(node("Person", name="a", age="x", born="y", shoe=1), node("Person", name="b"))
    error = faults(graph, data)
    assert [one.prop for one in error.violations] == ["age", "born", "shoe"]
    path = tmp_path / "people.csv"
    path.write_text("name,age,born\na,x,y\nb,1,2020-01-01\nc,1,z\n")
    done = graph.load({"Person": path}, on_error="skip")
    assert (done.skipped, [(one.place, one.prop) for one in done.skipped_rows]) == (
        2,
        [(f"{path}: row 1", "age"), (f"{path}: row 1", "born"), (f"{path}: row 3", "born")],
    )
    assert set(rows(graph, "node:Person")) == {"b"}


def test_hidden_files_of_a_folder_are_passed_over(graph, tmp_path):
    (tmp_path / "people.jsonl").write_bytes(jsonl(ADA))
    (tmp_path / "._people.jsonl").write_bytes(b"\x00\x05\x16\x07")
    assert graph.load(tmp_path).files == 1


def test_a_type_that_does_not_exist_is_told_with_the_file_it_was_given_for(graph, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("name\n")
    with pytest.raises(InputError) as named:
        graph.load({"Persn": path})
    assert named.value.message == f"{path}: the schema has no type 'Persn'"
    with pytest.raises(InputError) as guessed:
        graph.load(path)
    assert guessed.value.hint.startswith(f'name the type: {{"Type": "{path}"}}; ')
