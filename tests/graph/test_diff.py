"""What differs between two states of a graph, as people and programs ask for it."""

import json

import pytest

import omnigraph
from omnigraph.api.changes import ChangeSet
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.engine.contract import accepted_ir, contract_files
from omnigraph.errors import BadRequestError, ConflictError, NotFoundError
from tests.support.fast import FAST

SCHEMA = """
node Person { name: String @key  age: I32?  born: DateTime?  tags: [String]? }
node City { name: String @key  age: String? }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query m($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
AGE = "query m($n: String, $a: I32?) { update Person set { age: $a } where name = $n }"
GO = "query m($n: String) { delete Person where name = $n }"
KNOW = "query m($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
CITY = "query m($n: String, $a: String?) { insert City { name: $n, age: $a } }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as opened:
        for name, age in (("ada", 36), ("bo", 1), ("cy", None)):
            opened.mutate(ADD, params={"n": name, "a": age})
        opened.mutate(KNOW, params={"a": "bo", "b": "cy"})
        yield opened


def told(diff):
    return [(one.table_key, one.op, one.id) for one in diff]


def review(graph):
    graph.branches.create("review")
    graph.mutate(AGE, params={"n": "ada", "a": 37}, branch="review")
    graph.mutate(GO, params={"n": "cy"}, branch="review")
    graph.mutate(ADD, params={"n": "di", "a": 5}, branch="review")
    graph.mutate(CITY, params={"n": "Rome", "a": "old"}, branch="review")


def test_nothing_differs_between_equal_states(graph):
    graph.branches.create("review")
    assert told(graph.diff("main", "review")) == []
    assert graph.diff("main", "main").summary().stats.total == 0
    assert graph.diff("main", "main").to_arrow().num_rows == 0
    graph.mutate(AGE, params={"n": "ada", "a": 36}, branch="review")  # as it was
    graph.store.optimize()
    assert told(graph.diff("main", "review")) == []


def test_changes_come_by_table_and_id_with_cascades_and_endpoints(graph):
    review(graph)
    changes = list(graph.diff("main", "review", images="both"))
    edge = changes[0]
    assert [(one.table_key, one.op, one.id) for one in changes] == [
        ("edge:Knows", "delete", edge.id),
        ("node:City", "insert", "Rome"),
        ("node:Person", "update", "ada"),
        ("node:Person", "delete", "cy"),
        ("node:Person", "insert", "di"),
    ]
    assert (edge.kind, edge.type_name) == ("edge", "Knows")
    assert (edge.endpoints.src, edge.endpoints.dst) == ("bo", "cy")
    ada = changes[2]
    assert ada.changed == ("age",)
    assert (ada.before["age"], ada.after["age"]) == (36, 37)
    assert changes[3].after is None
    assert changes[4].before is None
    back = list(graph.diff("review", "main"))
    assert [(one.op, one.id) for one in back[2:]] == [
        ("update", "ada"),
        ("insert", "cy"),
        ("delete", "di"),
    ]
    assert back[0].endpoints == edge.endpoints
    assert back[2].before is None
    assert back[2].after is None, "images were not asked for"


def test_filters_are_honoured(graph):
    review(graph)
    diff = graph.diff
    assert {key for key, _, _ in told(diff("main", "review", types=["City"]))} == {"node:City"}
    assert {key for key, _, _ in told(diff("main", "review", kinds=["edge"]))} == {"edge:Knows"}
    assert {op for _, op, _ in told(diff("main", "review", ops=["delete"]))} == {"delete"}
    graph.mutate(AGE, params={"n": "bo", "a": 9}, branch="review")
    only = diff("main", "review", types=["node:Person"], ops=["update"], columns=["born"])
    assert told(only) == []
    both = diff("main", "review", ops=["update"], columns=["age"], images="both").to_dicts()
    assert [one["after"] for one in both] == [{"id": "ada", "age": 37}, {"id": "bo", "age": 9}]


def test_a_state_is_a_branch_a_commit_a_version_or_a_version_of_a_branch(graph):
    before = graph.store.snapshot()
    review(graph)
    for a in ("main", before.commit_id, before.manifest_version, str(before.manifest_version)):
        assert len(told(graph.diff(a, "review"))) == 5
    first = graph.commits.list("review", all=True, reverse=True)[-4]
    assert len(told(graph.diff(f"review@{first.manifest_version}", "review"))) == 4
    graph.mutate(ADD, params={"n": "zoe", "a": 5})
    assert len(told(graph.diff("main", "review"))) == 6
    assert len(told(graph.diff("main...review"))) == 5


def test_commits_of_any_branch_can_be_compared(graph):
    review(graph)
    before, after = graph.commits.list("review", all=True, reverse=True)[-2:]
    (city,) = graph.diff(before.graph_commit_id, after.graph_commit_id)
    assert city.id == "Rome"
    assert city.manifest_version == after.manifest_version


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"a": "nobody", "b": "main"}, NotFoundError, "no branch or commit 'nobody'"),
        ({"a": "main"}, BadRequestError, "two states"),
        ({"a": "main...nobody"}, NotFoundError, "nobody"),
        ({"a": "main", "b": 999}, NotFoundError, "999"),
        ({"a": "main", "b": None, "types": ["X"]}, BadRequestError, "two states"),
        ({"a": "main", "b": "main", "types": ["Nobody"]}, NotFoundError, "Nobody"),
        ({"a": "main", "b": "main", "types": "City"}, BadRequestError, "list"),
        ({"a": "main", "b": "main", "ops": ["upsert"]}, BadRequestError, "upsert"),
        ({"a": "main", "b": "main", "images": "all"}, BadRequestError, "all"),
        ({"a": "main", "b": "main", "columns": ["nope"]}, NotFoundError, "nope"),
    ],
)
def test_what_cannot_be_compared_is_refused_at_once(graph, wrong, error, words):
    with pytest.raises(error, match=words):
        graph.diff(**wrong)


def test_as_arrow_properties_of_two_types_do_not_get_mixed_up(graph):
    review(graph)
    table = graph.diff("main", "review", images="both").to_arrow()
    assert table["op"].to_pylist() == ["delete", "insert", "update", "delete", "insert"]
    assert table.schema.field("after").type == table.schema.field("before").type
    names = [field.name for field in table.schema.field("after").type]
    assert {"Person.age", "City.age"} <= set(names)
    assert "age" not in names
    ada = table["after"][2].as_py()
    assert (ada["Person.age"], ada["City.age"]) == (37, None)
    plain = graph.diff("main", "review").to_arrow()
    assert "after" not in plain.column_names
    assert plain["src"].to_pylist()[0] == "bo"
    assert plain["changed"].to_pylist()[2] == ["age"]


def test_the_change_set_has_the_agreed_json_and_comes_back(graph):
    review(graph)
    found = graph.diff("main", "review").change_set()
    assert found.stats.types_affected == ("City", "Knows", "Person")
    assert (found.stats.inserts, found.stats.updates, found.stats.deletes) == (2, 1, 2)
    text = json.loads(json.dumps(found.to_json_value()))
    assert list(text) == ["from_version", "to_version", "branch", "changes", "stats"]
    assert text["branch"] == "review"
    assert list(text["changes"][0]) == [
        *("table_key", "kind", "type_name", "id", "op", "manifest_version", "endpoints"),
    ]
    assert ChangeSet.from_json_value(text) == found


def test_a_summary_and_a_page_of_a_notebook_tell_the_same(graph):
    review(graph)
    diff = graph.diff("main", "review", images="both")
    summary = diff.summary()
    assert [(one.table_key, one.inserts, one.updates, one.deletes) for one in summary.types] == [
        ("edge:Knows", 0, 0, 1),
        ("node:City", 1, 0, 0),
        ("node:Person", 1, 1, 1),
    ]
    shown = diff._repr_html_()
    assert "age: 36 → 37" in shown
    assert "5 changes" in shown


def rename(graph, text, *, table, old, new):
    """Take a new schema, as applying it will: rows stay, a column and a type get other names."""
    loaded = load_schema(omnigraph.compiler.source.Source(text, "s.pg"), accepted_ir(graph.store))
    session = graph.store.begin()
    rows = graph.store.snapshot().open(table).scan().rename_columns({old: new})
    session.overwrite(table, rows)
    for name, content in contract_files(text, loaded).items():
        session.replace_file(name, content)
    session.commit()


def test_a_renamed_property_changes_nothing_and_a_new_one_is_null_before(graph):
    before = graph.store.snapshot().commit_id
    text = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")')
    rename(graph, text, table="node:Person", old="age", new="years")
    assert told(graph.diff(before, "main")) == []
    graph.mutate(AGE.replace("age", "years"), params={"n": "ada", "a": 40})
    (ada,) = graph.diff(before, "main", images="both")
    assert ada.changed == ("years",)
    assert (ada.before["years"], ada.after["years"]) == (36, 40)


def test_a_renamed_type_changes_nothing_in_diff_feed_and_history(graph):
    graph.mutate(CITY, params={"n": "Rome", "a": "old"})
    before, since = graph.store.snapshot().commit_id, graph.cursor()
    text = SCHEMA.replace("node City {", 'node Town @rename_from("City") {')
    loaded = load_schema(omnigraph.compiler.source.Source(text, "s.pg"), accepted_ir(graph.store))
    session = graph.store.begin()
    session.rename_table("node:City", "node:Town")
    for name, content in contract_files(text, loaded).items():
        session.replace_file(name, content)
    session.commit()
    assert told(graph.diff(before, "main")) == []
    graph.mutate(CITY.replace("City", "Town"), params={"n": "Rome", "a": "older"})
    (rome,) = graph.diff(before, "main", types=["City"], images="both")
    assert (rome.table_key, rome.op) == ("node:Town", "update")
    renamed, changed = graph.changes(since=since)
    assert [step.kind for step in renamed.schema_steps] == ["rename_type"]
    assert renamed.changes == ()
    assert [one.table_key for one in changed.changes] == ["node:Town"]
    found = graph.entity_history("node:Town", "Rome").versions
    assert [(one.op, one.changed) for one in found] == [("update", ("age",)), ("insert", ())]


def crossed(graph):
    """Merge main and review into each other, each as it was before the other was."""
    graph.branches.create("review")
    graph.mutate(AGE, params={"n": "ada", "a": 50})
    graph.mutate(AGE, params={"n": "bo", "a": 60}, branch="review")
    graph.mutate(GO, params={"n": "cy"}, branch="review")
    for name in ("main", "review"):
        graph.branches.create(f"was-{name}", source=name)
    graph.branches.merge("was-review")
    graph.branches.merge("was-main", into="review")


def test_after_merges_both_ways_a_review_shows_what_its_line_did_and_nothing_else(graph):
    graph.mutate(ADD, params={"n": "abe", "a": 1})
    crossed(graph)
    assert told(graph.diff("main...review")) == []
    graph.mutate(AGE, params={"n": "bo", "a": 61}, branch="review")
    graph.mutate(ADD, params={"n": "di", "a": 5}, branch="review")
    graph.mutate(AGE, params={"n": "abe", "a": 2}, branch="review")
    graph.mutate(AGE, params={"n": "ada", "a": 51})
    seen = graph.diff("main...review", images="both")
    assert [(one.id, one.op, one.before, one.after) for one in seen if one.kind == "node"] == [
        (
            "abe",
            "update",
            *(
                {"id": "abe", "name": "abe", "age": age, "born": None, "tags": None}
                for age in (1, 2)
            ),
        ),
        (
            "bo",
            "update",
            *(
                {"id": "bo", "name": "bo", "age": age, "born": None, "tags": None}
                for age in (60, 61)
            ),
        ),
        ("di", "insert", None, {"id": "di", "name": "di", "age": 5, "born": None, "tags": None}),
    ]
    assert [one.changed for one in graph.diff("main...review", ops=["update"])] == [("age",)] * 2
    assert told(graph.diff("main...review", columns=["tags"])) == [("node:Person", "insert", "di")]
    preview = graph.branches.merge("review", preview=True)
    (table,) = preview.tables
    assert (table.inserted, table.updated, table.deleted) == (1, 2, 0)


def test_after_merges_both_ways_a_review_across_schemas_is_refused(graph):
    graph.branches.create("review")
    graph.apply_schema(SCHEMA + "node Town { name: String @key }", branch="review")
    graph.mutate(AGE, params={"n": "ada", "a": 50})
    for name in ("main", "review"):
        graph.branches.create(f"was-{name}", source=name)
    graph.branches.merge("was-main", into="review")
    graph.branches.merge("was-review")
    with pytest.raises(ConflictError, match="several states in common"):
        graph.diff("main...review")
