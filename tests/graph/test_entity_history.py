"""The life of one node or edge, and where its values are from."""

import random

import pytest

import omnigraph
from omnigraph.errors import NotFoundError
from omnigraph.storage.tables import one_row
from omnigraph.storage.tables.scan import Reader
from tests.graph.test_diff import rename
from tests.support.fast import FAST

SCHEMA = """
node Person { name: String @key  age: I32?  note: String?  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query m($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
AGE = "query m($n: String, $a: I32?) { update Person set { age: $a } where name = $n }"
NOTE = "query m($n: String, $t: String?) { update Person set { note: $t } where name = $n }"
GO = "query m($n: String) { delete Person where name = $n }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as opened:
        opened.mutate(ADD, params={"n": "ada", "a": 1}, actor="eve")
        yield opened


def life(graph, branch="main", **options):
    found = graph.entity_history("node:Person", "ada", branch=branch, **options)
    return [
        (one.op, (one.before or {}).get("age"), (one.after or {}).get("age"))
        for one in found.versions
    ]


def test_every_change_is_told_with_its_commit_newest_first(graph):
    graph.mutate(AGE, params={"n": "ada", "a": 2}, actor="bob")
    graph.mutate(ADD, params={"n": "other", "a": 9})
    graph.mutate(NOTE, params={"n": "ada", "t": "hi"})
    graph.mutate(GO, params={"n": "ada"})
    graph.mutate(ADD, params={"n": "more", "a": 9})
    graph.mutate(ADD, params={"n": "ada", "a": 7})
    assert life(graph) == [
        ("insert", None, 7),
        ("delete", 2, None),
        ("update", 2, 2),
        ("update", 1, 2),
        ("insert", None, 1),
    ]
    found = graph.entity_history("node:Person", "ada").versions
    assert [one.commit.actor_id for one in found][-2:] == ["bob", "eve"]
    assert [one.changed for one in found] == [(), (), ("note",), ("age",), ()]
    ids = [one.graph_commit_id for one in graph.commits.list(all=True, reverse=True)]
    assert [ids.index(one.commit.graph_commit_id) for one in found] == [7, 5, 4, 2, 1]
    assert life(graph, limit=2) == [("insert", None, 7), ("delete", 2, None)]


def test_an_entity_that_never_was_has_no_history_and_a_type_that_is_not_is_told(graph):
    assert graph.entity_history("node:Person", "nobody").versions == ()
    with pytest.raises(NotFoundError, match="Nobody"):
        graph.entity_history("node:Nobody", "ada")
    with pytest.raises(NotFoundError, match="no such node"):
        graph.blame("node:Person", "nobody")


def test_history_goes_on_before_the_fork_and_knows_what_a_merge_did(graph):
    graph.branches.create("b")
    graph.mutate(AGE, params={"n": "ada", "a": 2}, branch="b")
    graph.mutate(AGE, params={"n": "ada", "a": 3}, branch="b")
    assert life(graph, "b") == [("update", 2, 3), ("update", 1, 2), ("insert", None, 1)]
    assert life(graph) == [("insert", None, 1)]


def test_blame_names_the_commit_of_every_value(graph):
    second = graph.mutate(AGE, params={"n": "ada", "a": 2}, actor="bob").commit_id
    third = graph.mutate(NOTE, params={"n": "ada", "t": "hi"}).commit_id
    graph.mutate(AGE, params={"n": "ada", "a": 2})  # as it was
    found = {one.name: one for one in graph.blame("node:Person", "ada").properties}
    first = graph.commits.list(all=True, reverse=True)[1].graph_commit_id
    assert {name: one.commit.graph_commit_id for name, one in found.items()} == {
        "id": first,
        "name": first,
        "photo": first,
        "age": second,
        "note": third,
    }
    assert (found["age"].value, found["age"].commit.actor_id) == (2, "bob")


def test_a_renamed_property_keeps_its_history(graph):
    graph.mutate(AGE, params={"n": "ada", "a": 2}, actor="bob")
    text = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")')
    rename(graph, text, table="node:Person", old="age", new="years")
    found = graph.entity_history("node:Person", "ada").versions
    assert [(one.op, one.changed) for one in found] == [("update", ("years",)), ("insert", ())]
    blamed = {one.name: one.commit.actor_id for one in graph.blame("node:Person", "ada").properties}
    assert blamed["years"] == "bob"


def test_cost_follows_the_changes_of_the_row(graph, monkeypatch):
    for number in range(60):
        graph.mutate(ADD, params={"n": f"p{number}", "a": number})
        if number % 30 == 7:
            graph.mutate(AGE, params={"n": "ada", "a": 100 + number})
    reads = []
    scan = Reader.scan
    monkeypatch.setattr(
        Reader,
        "scan",
        lambda self, *given, **more: reads.append(self) or scan(self, *given, **more),
    )
    assert len(life(graph)) == 3
    assert len([one for one in reads if one.handle.location.startswith("nodes/")]) <= 5


@pytest.mark.property
@pytest.mark.parametrize("seed", range(2))
def test_history_is_what_comparing_all_commits_tells(tmp_path, seed):
    dice = random.Random(seed)
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as graph:
        graph.mutate(ADD, params={"n": "else", "a": 0})
        for number in range(40):
            branch = "main" if number < 20 else "b"
            if number == 20:
                graph.branches.create("b")
            what = dice.choice("aaauugoc")
            name = dice.choice(["ada", "ada", "bo"])
            if what == "a":
                graph.mutate(ADD, params={"n": name, "a": dice.choice([1, 2])}, branch=branch)
            elif what == "u":
                graph.mutate(AGE, params={"n": name, "a": dice.choice([1, 2])}, branch=branch)
            elif what == "g":
                graph.mutate(GO, params={"n": name}, branch=branch)
            elif what == "o":
                graph.store.optimize(branch)
            else:
                session = graph.store.begin(branch)
                session.overwrite("node:Person", session.base.open("node:Person").scan())
                session.commit()
        for branch in ("main", "b"):
            expected, before = [], None
            for commit in graph.store.commits(branch):
                now = graph.at(commit.id, branch=branch).entity("node:Person", "ada")
                now = now and now["age"]
                if now != before:
                    expected.append((commit.id, before, now))
                before = now
            found = graph.entity_history("node:Person", "ada", branch=branch).versions
            assert [
                (
                    one.commit.graph_commit_id,
                    None if one.before is None else one.before["age"],
                    None if one.after is None else one.after["age"],
                )
                for one in reversed(found)
            ] == expected


def test_only_what_changed_is_looked_through(graph, monkeypatch):
    for number in range(4):
        graph.load({"Person": [{"name": f"p{number}-{n}"} for n in range(50)]}, "append")
    graph.mutate(AGE, params={"n": "ada", "a": 2})
    graph.mutate(AGE, params={"n": "p1-7", "a": 2})
    graph.mutate(GO, params={"n": "ada"})
    graph.mutate(ADD, params={"n": "ada", "a": 7})
    searched = []
    search = one_row._first

    def note(handle, filters, fragments):
        if fragments is not None:
            searched.extend(part.physical_rows for part in fragments)
        return search(handle, filters, fragments)

    monkeypatch.setattr(one_row, "_first", note)
    assert life(graph) == [
        ("insert", None, 7),
        ("delete", 2, None),
        ("update", 1, 2),
        ("insert", None, 1),
    ]
    assert searched
    assert max(searched) < 50, "files that stayed are not read again"


def test_a_row_with_a_blob_is_told_as_json(graph):
    line = b'{"type":"Person","data":{"name":"bob","photo":"base64:aGk="}}\n'
    graph.load(line, "merge")
    (told,) = graph.entity_rows("node:Person", "bob").to_json_rows()
    assert told["photo"] == "base64:aGk="  # as an export has it
    assert graph.entity("node:Person", "bob")["photo"] == b"hi"
