"""Branches with schemas of their own are merged: schemas first, then rows, both ways."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.merges import ConflictKind, MergeConflictError
from omnigraph.engine.merge import rows
from omnigraph.errors import ConflictError
from tests.support.fast import FAST

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mail: String?
  level: enum(a, b)?
}
node Company { slug: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as opened:
        people = {"name": ["ada", "bo", "cy"], "age": [36, 7, 50], "mail": ["a@x", None, "c@x"]}
        rows = {
            "Person": pa.table(people),
            "Company": pa.table({"slug": ["acme"]}),
            "Knows": pa.table({"from": ["ada"], "to": ["bo"]}),
            "WorksAt": pa.table({"from": ["ada"], "to": ["acme"]}),
        }
        opened.load(rows, "append")
        opened.branches.create("dev")
        yield opened


def edited(*changes, text=SCHEMA):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


RENAME = ("mail: String?", 'email: String? @rename_from("mail")')
PHONE = ("  mail: String?\n", "  mail: String?\n  phone: String?\n")
NICK = ("  age: I32?\n", "  nick: String?\n  age: I32?\n")
DROP = ("  mail: String?\n", "")
HUMAN = (
    ("node Person", 'node Human @rename_from("Person")'),
    ("Person -> Person", "Human -> Human"),
    ("Person -> Company", "Human -> Company"),
)
NO_COMPANY = (
    ("node Company { slug: String @key }\n", ""),
    ("edge WorksAt: Person -> Company\n", ""),
)
PLACE = (("edge Knows", "node Place { p: String @key }\nedge In: Person -> Place\nedge Knows"),)


def do(graph, text, branch="main"):
    return graph.mutate(f"query q() {{ {text} }}", branch=branch)


def stored(graph, key="node:Person", branch="main"):
    rows = graph._state.snapshot(branch).open(key).scan().to_pylist()
    return {row.pop("id"): row for row in rows}


def apply(graph, branch, *changes):
    return graph.apply_schema(edited(*changes), branch=branch, allow_data_loss=True)


def sound(graph):
    assert not [found for found in graph.verify() if not found.harmless]


@pytest.mark.parametrize("into", ["main", "dev"])
@pytest.mark.parametrize("preview", [False, True])
def test_what_one_side_did_to_its_schema_comes_with_its_rows(graph, into, preview):
    source = "dev" if into == "main" else "main"
    apply(graph, source, RENAME, *HUMAN, NICK)
    do(graph, 'insert Human { name: "di", nick: "d", email: "d@x" }', source)
    do(graph, 'update Human set { email: "b@x" } where name = "bo"', source)
    do(graph, 'update Person set { age: 8 } where name = "cy"', into)
    before = graph.snapshot(into)
    tried = graph.branches.merge(source, into=into, preview=True)
    assert (tried.conflicts, graph.snapshot(into)) == ((), before)
    assert {one.table_key: (one.inserted, one.updated) for one in tried.tables} == {
        "node:Human": (1, 1)
    }
    if preview:
        return
    done = graph.branches.merge(source, into=into)
    assert done.tables == tried.tables
    rows = stored(graph, "node:Human", into)
    assert {name: (row["age"], row["email"], row["nick"]) for name, row in rows.items()} == {
        "ada": (36, "a@x", None),
        "bo": (7, "b@x", None),
        "cy": (8, "c@x", None),
        "di": (None, "d@x", "d"),
    }
    assert graph.branch(into).schema == graph.branch(source).schema
    assert graph.branches.merge(source, into=into).outcome == "already_up_to_date"
    sound(graph)
    # And on, in both directions.
    do(graph, 'update Human set { nick: "c" } where name = "cy"', into)
    back = graph.branches.merge(into, into=source)
    assert stored(graph, "node:Human", source) == stored(graph, "node:Human", into)
    assert back.commit_id is not None
    sound(graph)


def test_a_source_of_the_older_schema_brings_rows_into_the_newer_one(graph):
    apply(graph, "main", RENAME, *HUMAN, NICK)
    do(graph, 'update Human set { nick: "a" } where name = "ada"')
    do(graph, 'insert Person { name: "di", mail: "d@x" }', "dev")
    do(graph, 'update Person set { mail: "b@x" } where name = "bo"', "dev")
    do(graph, 'delete Person where name = "cy"', "dev")
    schemas = len(graph.schema_history().versions)
    graph.branches.merge("dev")
    rows = stored(graph, "node:Human")
    assert {name: (row["email"], row["nick"]) for name, row in rows.items()} == {
        "ada": ("a@x", "a"),
        "bo": ("b@x", None),
        "di": ("d@x", None),
    }
    assert len(graph.schema_history().versions) == schemas
    assert graph.branch("dev").schema == SCHEMA
    sound(graph)


def test_both_sides_changed_other_parts_and_a_schema_is_made_of_both(graph):
    apply(graph, "main", RENAME, *PLACE)
    apply(graph, "dev", PHONE, ("enum(a, b)", "enum(a, b, c)"), *HUMAN)
    do(graph, 'insert Human { name: "di", phone: "1", level: "c", mail: "d@x" }', "dev")
    do(graph, 'insert Place { p: "rome" } insert In { from: "ada", to: "rome" }')
    tried = graph.branches.merge("dev", preview=True)
    assert tried.conflicts == ()
    done = graph.branches.merge("dev", actor="ann", message="both")
    assert done.tables == tried.tables
    catalog = graph.catalog
    assert set(catalog.nodes) == {"Human", "Company", "Place"}
    assert set(catalog.nodes["Human"].properties) == {"name", "age", "email", "level", "phone"}
    assert catalog.edges["In"].from_type == "Human"
    assert stored(graph, "node:Human")["di"] == {
        "name": "di", "age": None, "email": "d@x", "level": "c", "phone": "1"
    }  # fmt: skip
    assert len(stored(graph, "edge:In")) == 1
    found = graph.commits.list(limit=2)
    assert [(one.actor_id, one.message) for one in found] == [
        ("ann", "both"),
        ("ann", "schema for the merge of 'dev': both"),
    ]
    assert graph.apply_schema(graph.schema).applied is False
    sound(graph)
    graph.branches.merge("main", into="dev")
    assert graph.branch("dev").catalog.schema_hash == catalog.schema_hash
    assert stored(graph, "node:Human", "dev") == stored(graph, "node:Human")
    sound(graph)


def test_the_same_change_on_both_sides_is_no_conflict(graph):
    apply(graph, "main", PHONE, *HUMAN)
    apply(graph, "dev", NICK, PHONE, *HUMAN)
    do(graph, 'update Human set { phone: "1" } where name = "bo"', "dev")
    do(graph, 'update Human set { phone: "2" } where name = "cy"')
    graph.branches.merge("dev")
    rows = stored(graph, "node:Human")
    assert {name: row["phone"] for name, row in rows.items()} == {"ada": None, "bo": "1", "cy": "2"}
    assert "nick" in rows["ada"]


POST = ("mail: String?", 'post: String? @rename_from("mail")')
AGE_PHONE = ("age: I32?", 'phone: I32? @rename_from("age")')
OWNS = ("edge Knows", "edge Owns: Person -> Company\nedge Knows")
SIZE = ("{ slug: String @key }", "{ slug: String @key  size: I32? }")
WIDE_C = ("level: enum(a, b)?", "level: enum(a, b, c)?")
WIDE_D = ("level: enum(a, b)?", "level: enum(a, b, d)?")
CONFLICTS = [
    pytest.param((RENAME,), (POST,), "both sides changed the name of node:Person.", id="names"),
    pytest.param(
        (("age: I32?", "age: I32"),),
        (("  age: I32?\n", ""),),
        "property age of node:Person was dropped",
        id="drop and change",
    ),
    pytest.param((DROP,), (PHONE,), None, id="drop and another"),
    pytest.param((DROP, AGE_PHONE), (PHONE,), "two properties would be called", id="one name"),
    pytest.param(NO_COMPANY, (OWNS,), "leads from or to a node type", id="an end is gone"),
    pytest.param(NO_COMPANY, (SIZE,), "dropped on one side and changed on the other", id="type"),
    pytest.param((WIDE_C,), (WIDE_D,), None, id="wider enums"),
    pytest.param(
        (DROP,),
        (("mail: String?", "mail: String? @unique"),),
        "is about a property that was dropped",
        id="rule",
    ),
]


@pytest.mark.parametrize(("mine", "theirs", "told"), CONFLICTS)
def test_schemas_that_do_not_go_together_are_told_first(graph, mine, theirs, told):
    apply(graph, "main", *mine)
    apply(graph, "dev", *theirs)
    before = graph.snapshot()
    tried = graph.branches.merge("dev", preview=True)
    if told is None:
        assert tried.conflicts == ()
        graph.branches.merge("dev")
        sound(graph)
        return
    assert {one.kind for one in tried.conflicts} == {ConflictKind.SCHEMA}
    assert any(told in one.message for one in tried.conflicts), tried.conflicts
    with pytest.raises(MergeConflictError) as refused:
        graph.branches.merge("dev")
    assert refused.value.conflicts == tried.conflicts
    assert graph.snapshot() == before
    back = graph.branches.merge("main", into="dev", preview=True)
    assert {one.kind for one in back.conflicts} == {ConflictKind.SCHEMA}


@pytest.mark.parametrize("into", ["main", "dev"])
def test_rows_that_would_go_with_what_the_other_side_dropped_are_a_conflict(graph, into):
    apply(graph, "main", DROP)
    do(graph, 'update Person set { age: 1 } where name = "ada"', "dev")
    tried = graph.branches.merge("dev" if into == "main" else "main", into=into, preview=True)
    assert tried.conflicts == ()
    do(graph, 'update Person set { mail: "b@x" } where name = "bo"', "dev")
    tried = graph.branches.merge("dev" if into == "main" else "main", into=into, preview=True)
    assert [one.message for one in tried.conflicts] == [
        "node:Person.mail was dropped on one side and has new values on the other: 'bo'"
    ]
    apply(graph, "main", DROP, *NO_COMPANY)
    text = 'query q($m: String?) { update Person set { mail: $m } where name = "bo" }'
    graph.mutate(text, params={"m": None}, branch="dev")
    do(graph, 'insert Company { slug: "new" }', "dev")
    tried = graph.branches.merge("dev" if into == "main" else "main", into=into, preview=True)
    assert [one.message for one in tried.conflicts] == [
        "node:Company was dropped on one side and has new rows on the other: 'new'"
    ]


@pytest.mark.parametrize("changed_on", ["main", "dev"])
@pytest.mark.parametrize("first", [True, False])
def test_a_value_put_back_after_merges_both_ways_is_not_lost_with_its_column(
    graph, changed_on, first
):
    """It is what one of the two bases says, but not what the side began from."""
    other = 'insert Company { slug: "other" }', "dev" if changed_on == "main" else "main"
    if not first:
        do(graph, *other)
    do(graph, 'update Person set { mail: "new" } where name = "ada"', changed_on)
    if first:
        do(graph, *other)
    graph.branches.create("main-then")
    graph.branches.create("dev-then", source="dev")
    graph.branches.merge("dev-then", into="main")
    graph.branches.merge("main-then", into="dev")
    do(graph, 'update Person set { mail: "a@x" } where name = "ada"', "dev")
    apply(graph, "main", DROP)
    tried = graph.branches.merge("dev", into="main", preview=True)
    assert [one.message for one in tried.conflicts] == [
        "node:Person.mail was dropped on one side and has new values on the other: 'ada'"
    ]


def test_rows_of_both_sides_are_held_to_a_rule_that_one_of_them_made(graph):
    apply(graph, "dev", ("level: enum(a, b)?\n", "level: enum(a, b)?\n  @range(age, 5..60)\n"))
    do(graph, 'insert Person { name: "old", age: 99 }')
    tried = graph.branches.merge("dev", preview=True)
    assert [(one.kind, one.row_id) for one in tried.conflicts] == [
        (ConflictKind.VALUE_CONSTRAINT_VIOLATION, "old")
    ]
    back = graph.branches.merge("main", into="dev", preview=True)
    assert [(one.kind, one.row_id) for one in back.conflicts] == [
        (ConflictKind.VALUE_CONSTRAINT_VIOLATION, "old")
    ]
    do(graph, 'update Person set { age: 9 } where name = "old"')
    graph.branches.merge("dev")
    graph.branches.merge("main", into="dev")
    assert stored(graph) == stored(graph, branch="dev")


def test_a_value_that_one_side_made_unique_is_unique_across_both(graph):
    apply(graph, "dev", ("mail: String?", "mail: String? @unique"))
    do(graph, 'insert Person { name: "di", mail: "d@x" }', "dev")
    do(graph, 'insert Person { name: "ed", mail: "d@x" }')
    for source, into in (("dev", "main"), ("main", "dev")):
        tried = graph.branches.merge(source, into=into, preview=True)
        assert ConflictKind.UNIQUE_VIOLATION in {one.kind for one in tried.conflicts}


def test_row_conflicts_are_told_under_the_common_names_and_resolved_so(graph):
    apply(graph, "main", RENAME, *HUMAN)
    do(graph, 'update Human set { email: "m@x" } where name = "bo"')
    do(graph, 'update Person set { mail: "d@x" } where name = "bo"', "dev")
    with pytest.raises(MergeConflictError) as refused:
        graph.branches.merge("dev")
    (conflict,) = refused.value.conflicts
    assert (conflict.table_key, conflict.row_id, conflict.columns) == (
        "node:Human",
        "bo",
        ("email",),
    )
    assert (conflict.ours["email"], conflict.theirs["email"]) == ("m@x", "d@x")
    graph.branches.merge("dev", resolve={"node:Human": "theirs"})
    assert stored(graph, "node:Human")["bo"]["email"] == "d@x"


def test_conflicts_of_rows_leave_the_schema_of_the_target_alone(graph):
    apply(graph, "dev", RENAME)
    do(graph, 'update Person set { email: "d@x" } where name = "bo"', "dev")
    do(graph, 'update Person set { mail: "m@x" } where name = "bo"')
    before = graph.snapshot()
    with pytest.raises(MergeConflictError):
        graph.branches.merge("dev")
    assert graph.snapshot() == before
    assert graph.schema == SCHEMA


def test_a_change_of_another_schema_is_not_undone_or_repeated(graph):
    old = do(graph, 'update Person set { age: 1 } where name = "bo"').commit_id
    apply(graph, "main", RENAME)
    with pytest.raises(ConflictError, match="have different schemas"):
        graph.revert(old)


def test_a_third_branch_is_merged_by_way_of_another(graph):
    graph.branches.create("third")
    apply(graph, "dev", RENAME)
    do(graph, 'insert Person { name: "di", email: "d@x" }', "dev")
    graph.branches.merge("dev", into="third")
    do(graph, 'update Person set { email: "3@x" } where name = "di"', "third")
    apply(graph, "main", *HUMAN)
    graph.branches.merge("third")
    graph.branches.merge("dev")
    assert stored(graph, "node:Human")["di"]["email"] == "3@x"
    graph.branches.delete("dev")
    graph.branches.delete("third")
    sound(graph)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((("node Company {", 'node Company @description("d") {'),), id="metadata"),
        pytest.param((PHONE,), id="a column of the same number"),
        pytest.param((DROP, NICK), id="columns of other numbers"),
        pytest.param((("slug: String @key", "slug: String @key  size: I32? @unique"),), id="rule"),
    ],
)
def test_files_are_taken_over_only_where_columns_mean_the_same(graph, monkeypatch, changes):
    monkeypatch.setattr(rows, "LINKED_FROM", 3)
    if changes == (PHONE,):
        apply(graph, "main", NICK)  # the same number, another column
    apply(graph, "dev", *changes)
    people = pa.table({"name": [f"p{at}" for at in range(5)], "age": list(range(5))})
    knows = pa.table({"from": [f"p{at}" for at in range(5)], "to": ["ada"] * 5})
    companies = pa.table({"slug": [f"c{at}" for at in range(5)]})
    graph.load({"Person": people, "Knows": knows, "Company": companies}, "append", branch="dev")
    column = {(PHONE,): "phone", (DROP, NICK): "nick"}.get(changes)
    if column is not None:
        do(graph, f'update Person set {{ {column}: "of p1" }} where name = "p1"', "dev")
    do(graph, 'update Person set { age: 99 } where name = "ada"')
    graph.branches.merge("dev")
    found = stored(graph)
    assert sorted(found) == ["ada", "bo", "cy", *(f"p{at}" for at in range(5))]
    assert found["ada"]["age"] == 99
    assert [found[f"p{at}"]["age"] for at in range(5)] == list(range(5))
    assert len(stored(graph, "edge:Knows")) == 6
    assert len(stored(graph, "node:Company")) == 6
    for name in ("phone", "nick"):
        values = {key: row.get(name) for key, row in found.items() if row.get(name)}
        assert values == ({"p1": "of p1"} if name == column else {})
    sound(graph)
