"""Stored queries from Python: what there is, calling it, and what becomes of wrong files."""

import os
from dataclasses import replace

import pytest

import omnigraph
from omnigraph.api.stored import StoredQueryError, StoredQueryNotFoundError
from omnigraph.base.ids import BranchName
from omnigraph.compiler.source import Source
from omnigraph.config.stored import StoredFiles
from omnigraph.errors import BadRequestError, DeniedError, NotFoundError
from omnigraph.graph.options import GraphOptions
from omnigraph.policy.decide import Judge
from omnigraph.policy.read import read_policy
from tests.cli.conftest import QUERIES, SCHEMA
from tests.support.fast import FAST

EVERY_KIND = """
query kinds($s: String, $b: Bool, $i: I32, $u: U32, $j: I64, $w: U64?, $f: F32, $g: F64?, $d: Date,
            $m: DateTime, $v: Vector(3), $l: [I64]?, $e: enum(red, blue))
  @description("Every kind there is") @instruction("Do not call this") {
  match { $p: Person $p.name = $s }
  return { $p.name }
}
"""


@pytest.fixture
def stored(tmp_path):
    folder = tmp_path / "stored"
    folder.mkdir()
    (folder / "people.gq").write_text(QUERIES)
    (folder / "notes.txt").write_text("no query at all {")
    return folder


@pytest.fixture
def options(stored):
    return replace(FAST, queries=StoredFiles((stored,), ("add",)))


@pytest.fixture
def graph(tmp_path, options):
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=options) as graph:
        graph.mutate(QUERIES, "add", {"name": "Ann", "age": 41})
        yield graph


def touch(path, text):
    """Write a file so that its time differs, however coarse the clock of the disk is."""
    path.write_text(text)
    later = path.stat().st_mtime_ns + 10_000_000
    os.utime(path, ns=(later, later))


def test_the_queries_of_all_files_are_there_by_name(graph):
    found = graph.queries.list()
    assert [one.name for one in found] == ["add", "adults", "meet", "person"]
    assert [one.mutation for one in found] == [True, False, True, False]
    assert [one.exposed for one in found] == [True, True, False, True]
    assert graph.queries.get("add").tool_name == "q_add"
    assert graph.queries.get("add").signature == "add($name: string, $age: int?, $bio: string?)"


def test_every_type_of_a_parameter_has_its_kind(graph, stored):
    (stored / "kinds.gq").write_text(EVERY_KIND)
    found = graph.queries.get("kinds").to_json_value()
    assert found["description"] == "Every kind there is"
    assert found["instruction"] == "Do not call this"
    told = {one.pop("name"): one for one in found["params"]}
    plain = {"s": "string", "b": "bool", "i": "int", "u": "int", "j": "bigint", "f": "float"}
    plain |= {"d": "date", "m": "datetime", "e": "string"}
    assert {name: told[name] for name in plain} == {
        name: {"kind": kind, "nullable": False} for name, kind in plain.items()
    }
    assert told["w"] == {"kind": "bigint", "nullable": True}
    assert told["g"] == {"kind": "float", "nullable": True}
    assert told["v"] == {"kind": "vector", "nullable": False, "vector_dim": 3}
    assert told["l"] == {"kind": "list", "nullable": True, "item_kind": "bigint"}


def test_a_read_and_a_write_are_called_by_name(graph):
    done = graph.queries.run("add", {"name": "Bob", "age": 17}, message="hello")
    assert graph.commits.get(done.commit_id).message == "hello"
    assert graph.queries.run("adults", {"min": 18}).to_dicts() == [{"p.age": 41, "p.name": "Ann"}]
    before = graph.commits.list()[-1].graph_commit_id
    assert len(graph.queries.run("adults", {"min": 0}, at=before)) == 0


def test_a_branch_is_written_and_the_others_are_not(graph):
    graph.branches.create("draft")
    graph.queries.run("add", {"name": "Bob", "age": 50}, branch="draft")
    assert len(graph.queries.run("adults", {"min": 18}, branch="draft")) == 2
    assert len(graph.queries.run("adults", {"min": 18})) == 1


def test_a_preview_checks_everything_and_writes_nothing(graph):
    head = graph.snapshot().commit_id
    done = graph.queries.run("add", {"name": "Bob", "age": 50}, preview=True)
    assert (done.affected_nodes, done.commit_id) == (1, None)
    values = {"a": "Ann", "b": "Nobody", "on": "2020-01-01"}
    with pytest.raises(omnigraph.errors.IntegrityError):
        graph.queries.run("meet", values, preview=True)
    assert graph.snapshot().commit_id == head


@pytest.mark.parametrize("name", ["nope", "", "../people", "add; drop", "a/b", "Ädd", "add\x00"])
def test_what_is_not_there_is_not_found(graph, name):
    with pytest.raises(StoredQueryNotFoundError):
        graph.queries.run(name)
    with pytest.raises(StoredQueryNotFoundError):
        graph.queries.get(name)


def test_what_a_read_cannot_keep_is_refused(graph):
    with pytest.raises(BadRequestError, match="takes no message"):
        graph.queries.run("adults", {"min": 1}, message="why")
    with pytest.raises(BadRequestError, match="the past cannot be written"):
        graph.queries.run("add", {"name": "x"}, at=graph.snapshot().commit_id)


def test_changed_files_are_seen_and_broken_ones_change_nothing(graph, stored, caplog):
    assert len(graph.queries.list()) == 4
    touch(stored / "people.gq", QUERIES.replace("query adults", "query grown_ups"))
    assert "grown_ups" in [one.name for one in graph.queries.list()]
    touch(stored / "people.gq", "query broken( {")
    for _ in range(2):
        assert "grown_ups" in [one.name for one in graph.queries.list()]
    told = [one.message for one in caplog.records if "stay in force" in one.message]
    assert len(told) == 1
    touch(stored / "people.gq", QUERIES)
    assert "adults" in [one.name for one in graph.queries.list()]


def test_a_folder_that_goes_away_takes_no_query_along(graph, stored):
    assert len(graph.queries.list()) == 4
    (stored / "people.gq").unlink()
    (stored / "notes.txt").unlink()
    stored.rmdir()
    assert len(graph.queries.list()) == 4


@pytest.mark.parametrize(
    ("files", "error", "said"),
    [
        ({"a.gq": "query q() {"}, omnigraph.errors.CompileError, "a.gq"),
        (
            {
                "a.gq": "query q() { match { $p: Person } return { $p.name } }",
                "b.gq": "query q() { match { $p: Person } return { $p.age } }",
            },
            StoredQueryError,
            "stored query 'q' is there twice",
        ),
        (
            {"a.gq": "query q($x: Strin) { match { $p: Person } return { $p.name } }"},
            StoredQueryError,
            r"stored query 'q': \$x has no type 'Strin'",
        ),
    ],
    ids=["syntax", "twice", "type"],
)
def test_wrong_files_are_refused_by_name(tmp_path, files, error, said):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = replace(FAST, queries=StoredFiles((tmp_path,)))
    with (
        omnigraph.init(tmp_path / "g.omni", SCHEMA, options=options) as graph,
        pytest.raises(error, match=said),
    ):
        graph.queries.list()


def test_a_place_that_is_not_there_is_refused(tmp_path):
    options = replace(FAST, queries=StoredFiles((tmp_path / "nope",)))
    with (
        omnigraph.init(tmp_path / "g.omni", SCHEMA, options=options) as graph,
        pytest.raises(NotFoundError, match="stored queries"),
    ):
        graph.queries.list()


def test_what_is_exposed_has_to_be_there(tmp_path, stored):
    options = replace(FAST, queries=StoredFiles((stored,), ("ad",)))
    with (
        omnigraph.init(tmp_path / "h.omni", SCHEMA, options=options) as graph,
        pytest.raises(StoredQueryError, match="names 'ad'"),
    ):
        graph.queries.list()


def test_a_schema_says_which_queries_it_leaves_without_a_meaning(graph, caplog):
    changed = SCHEMA.replace("  bio: String?\n", "")
    planned = graph.apply_schema(changed, allow_data_loss=True, preview=True)
    done = graph.apply_schema(changed, allow_data_loss=True)
    for told in (planned, done):
        assert [one.name for one in told.broken_queries] == ["add", "person"]
        assert "stored query 'add'" in told.broken_queries[0].error
    assert any("stored query 'person'" in one.message for one in caplog.records)
    with pytest.raises(StoredQueryError, match="stored query 'person'") as refused:
        graph.queries.run("person", {"name": "Ann"})
    assert refused.value.query == "person"
    assert len(graph.queries.run("adults", {"min": 1})) == 1


def test_reloading_refuses_what_is_wrong_and_keeps_what_was_there(graph, tmp_path, stored):
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.gq").write_text("query x() { match { $p: Persn } return { $p.name } }")
    with pytest.raises(StoredQueryError, match="stored query 'x'"):
        graph.reload_queries(StoredFiles((other,)))
    assert len(graph.queries.list()) == 4
    (other / "x.gq").write_text("query x() { match { $p: Person } return { $p.name } }")
    graph.reload_queries(StoredFiles((other,)))
    assert [one.name for one in graph.queries.list()] == ["x"]


POLICY = """
version: 1
groups: {callers: [cal], writers: [wil], readers: [rea]}
protected_branches: [main]
rules:
  - id: call
    allow: {actors: {group: callers}, actions: [invoke_query], branch_scope: protected}
  - id: write
    allow: {actors: {group: writers}, actions: [invoke_query, change, read], branch_scope: any}
  - id: read
    allow: {actors: {group: readers}, actions: [read], branch_scope: any}
"""


def test_a_guard_shows_and_runs_what_the_policy_allows(graph):
    judge = Judge(read_policy(Source(POLICY, "policy.yaml")))
    graph.branches.create("draft")
    cal, wil, rea = (graph.guarded(judge, name) for name in ("cal", "wil", "rea"))
    assert [one.name for one in cal.queries.list()] == ["adults", "person"]
    assert len(cal.queries.run("adults", {"min": 18})) == 1
    with pytest.raises(DeniedError):
        cal.query("query q() { match { $p: Person } return { $p.name } }")
    refused = []
    for call in (
        lambda: cal.queries.run("add", {"name": "x"}),
        lambda: cal.queries.run("adults", {"min": 1}, branch="draft"),
        lambda: rea.queries.run("adults", {"min": 1}),
        lambda: rea.queries.get("adults"),
    ):
        with pytest.raises(StoredQueryNotFoundError) as error:
            call()
        refused.append(str(error.value))
    assert refused == ["query 'add' not found", *["query 'adults' not found"] * 3]
    assert rea.queries.list() == []
    assert wil.queries.run("add", {"name": "Zoe", "age": 20}, branch="draft").commit_id
    assert graph.commits.list("draft")[0].actor_id == "wil"


def test_rules_on_rows_hold_for_stored_queries(graph):
    hidden = POLICY.replace(
        "actions: [invoke_query], branch_scope: protected",
        "actions: [invoke_query], branch_scope: any, types: [Person], where: '$n.age < 18'",
    )
    judge = Judge(read_policy(Source(hidden, "policy.yaml")))
    graph.queries.run("add", {"name": "Bob", "age": 17})
    cal = graph.guarded(judge, "cal")
    assert cal.queries.run("adults", {"min": 0}).to_dicts() == [{"p.age": 17, "p.name": "Bob"}]
    assert BranchName("main") in graph.branches.list()
    assert GraphOptions().queries == StoredFiles()
