"""The Python API for reads, over real Lance tables."""

import dataclasses
import threading

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.budget import Limits
from omnigraph.errors import (
    AlreadyExistsError,
    BadRequestError,
    BudgetExceededError,
    CompileError,
    NotFoundError,
)
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  age: I32?
}

node Company {
  name: String @key
}

edge Knows: Person -> Person {
  since: Date?
}

edge WorksAt: Person -> Company
"""
FRIENDS = (
    "query friends($name: String) { match { $p: Person { name: $name }  $p knows $f } "
    "return { $f.name } }"
)


def people(*rows):
    return pa.table(
        {
            "id": [name for name, _ in rows],
            "name": [name for name, _ in rows],
            "age": pa.array([age for _, age in rows], pa.int32()),
        }
    )


def knows(*pairs):
    return pa.table(
        {
            "id": [f"{a}-{b}" for a, b in pairs],
            "src": [a for a, _ in pairs],
            "dst": [b for _, b in pairs],
            "since": pa.array([None] * len(pairs), pa.date32()),
        }
    )


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as opened:
        write = opened.store.begin()
        write.append("node:Person", people(("Alice", 30), ("Bob", 25), ("Charlie", None)))
        write.append("edge:Knows", knows(("Alice", "Bob"), ("Alice", "Charlie")))
        write.commit()
        yield opened


def names(graph, **options):
    return [row["f.name"] for row in graph.query(FRIENDS, params={"name": "Alice"}, **options)]


def test_a_query_reads_what_was_written(graph):
    assert names(graph) == ["Bob", "Charlie"]
    assert graph.query(FRIENDS, params={"name": "Nobody"}).to_dicts() == []


def test_another_connection_sees_the_same_graph(graph):
    with omnigraph.connect(graph.uri, read_only=True) as other:
        assert names(other) == ["Bob", "Charlie"]
        assert other.schema == SCHEMA
        assert other.catalog.schema_hash == graph.catalog.schema_hash


def test_a_long_lived_reader_follows_writes_of_another_handle(graph):
    with omnigraph.connect(graph.uri, read_only=True) as reader:
        assert names(reader) == ["Bob", "Charlie"]
        write = graph.store.begin()
        write.append("node:Person", people(("Diana", 28)))
        write.append("edge:Knows", knows(("Alice", "Diana")))
        write.commit()
        assert names(reader) == ["Bob", "Charlie", "Diana"]
        write = graph.store.begin()
        write.delete("edge:Knows", ["Alice-Bob"])
        write.upsert("node:Person", people(("Charlie", 99)))
        write.commit()
        rows = reader.query(
            "query a() { match { $p: Person $p knows $f } return { $f.name, $f.age } }"
        )
        assert rows.to_dicts() == [
            {"f.name": "Charlie", "f.age": 99},
            {"f.name": "Diana", "f.age": 28},
        ]


def test_own_writes_and_those_of_others_mix_in_one_reader(graph):
    insert = (
        "query m($n: String, $a: I32) { insert Person { name: $n, age: $a } "
        'insert Knows { from: "Alice", to: $n } }'
    )
    assert names(graph) == ["Bob", "Charlie"]
    with omnigraph.connect(graph.uri, options=FAST) as other:
        assert names(other) == ["Bob", "Charlie"]
        for number in range(3):
            graph.mutate(insert, params={"n": f"own{number}", "a": number})
            assert f"own{number}" in names(graph)
            other.mutate(insert, params={"n": f"other{number}", "a": number})
            other.mutate(f'query m() {{ delete Person where name = "own{number}" }}')
            assert names(graph) == names(other)
        graph.mutate('query m() { update Person set { age: 50 } where name = "other1" }')
        assert names(graph) == names(other) == ["Bob", "Charlie", "other0", "other1", "other2"]
        ages = "query a() { match { $p: Person } return { $p.name, $p.age } }"
        assert graph.query(ages).to_dicts() == other.query(ages).to_dicts()


def test_the_past_stays_readable_by_commit_and_by_version(graph):
    before = graph.snapshot()
    write = graph.store.begin()
    write.delete("edge:Knows", ["Alice-Bob"])
    write.commit()
    assert names(graph) == ["Charlie"]
    assert names(graph, at=before.commit_id) == ["Bob", "Charlie"]
    assert names(graph, at=before.manifest_version) == ["Bob", "Charlie"]


def test_branches_are_read_apart(graph):
    graph.store.branches.create("draft")
    write = graph.store.begin("draft")
    write.delete("edge:Knows", ["Alice-Bob"])
    write.commit()
    assert names(graph, branch="draft") == ["Charlie"]
    assert names(graph) == ["Bob", "Charlie"]


def test_queries_come_from_text_or_from_a_file(graph, tmp_path):
    path = tmp_path / "q.gq"
    path.write_text(FRIENDS + "\n" + FRIENDS.replace("friends", "others"))
    assert len(graph.query(path, "others", {"name": "Alice"})) == 2
    assert len(graph.query(str(path), "friends", {"name": "Alice"})) == 2
    with pytest.raises(NotFoundError, match=r"q2\.gq"):
        graph.query(tmp_path / "q2.gq")
    with pytest.raises(BadRequestError, match="multiple queries"):
        graph.query(path, params={"name": "Alice"})
    with pytest.raises(NotFoundError, match="query 'friend' not found"):
        graph.query(path, "friend")


def test_mistakes_are_typed_errors(graph):
    with pytest.raises(CompileError, match="T6"):
        graph.query("query a() { match { $p: Person } return { $p.agee } }")
    with pytest.raises(BadRequestError, match="parameter 'name' not provided"):
        graph.query(FRIENDS)
    with pytest.raises(BadRequestError, match="is a mutation"):
        graph.query('query a() { delete Person where name = "x" }')
    with pytest.raises(NotFoundError, match="branch 'none'"):
        graph.query(FRIENDS, params={"name": "x"}, branch="none")
    with pytest.raises(NotFoundError):
        graph.query(FRIENDS, params={"name": "x"}, at="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_limits_stop_a_query_and_say_which(graph):
    text = "query a() { match { $a: Person  $b: Person } return { $a, $b } }"
    with pytest.raises(BudgetExceededError, match="row budget is 5"):
        graph.query(text, limits=Limits(rows=5))
    with pytest.raises(BudgetExceededError, match="time budget"):
        graph.query(text, limits=Limits(seconds=0.0))


def test_init_refuses_an_existing_graph_and_a_broken_schema(graph, tmp_path):
    with pytest.raises(AlreadyExistsError):
        omnigraph.init(graph.uri, SCHEMA)
    assert names(graph) == ["Bob", "Charlie"]
    with pytest.raises(CompileError):
        omnigraph.init(str(tmp_path / "bad.omni"), "node {")
    assert not (tmp_path / "bad.omni").exists()
    with pytest.raises(NotFoundError):
        omnigraph.connect(str(tmp_path / "none.omni"))


def test_a_closed_graph_says_so(graph):
    graph.close()
    graph.close()
    with pytest.raises(BadRequestError, match="closed"):
        graph.query(FRIENDS)


def test_threads_read_one_graph(graph):
    failures = []

    def read():
        wrong = [found for _ in range(20) if (found := names(graph)) != ["Bob", "Charlie"]]
        failures.extend(wrong)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_budget_too_small_for_the_graph_changes_no_answer(graph):
    tiny = dataclasses.replace(FAST, image_bytes=1)
    with omnigraph.connect(graph.uri, options=tiny) as poor:
        for _ in range(3):
            assert names(poor) == names(graph)
            assert poor._state.reader.cache.nbytes == 0
        text = "query a() { match { $p: Person } return { $p.name } }"
        assert poor.query(text).to_dicts() == graph.query(text).to_dicts()


def test_results_become_frames(graph):
    result = graph.query("query a() { match { $p: Person } return { $p.name, $p.age } }")
    assert result.to_pandas()["p.name"].tolist() == ["Alice", "Bob", "Charlie"]
    assert result.to_polars()["p.age"].to_list() == [30, 25, None]
    assert result.to_arrow().num_rows == 3


def test_explain_shows_the_plan_for_the_sizes_at_hand(graph):
    assert "Knows" in graph.explain(FRIENDS)
    backwards = (
        'query b() { match { $p: Person  $p worksAt $c  $c: Company { name: "x" } } return { $p } }'
    )
    with omnigraph.connect(graph.uri, options=FAST) as other:
        write = other.store.begin()
        write.append("node:Company", pa.table({"id": ["x"], "name": ["x"]}))
        write.commit()
        # The one company is looked up first, whatever the text says first.
        assert "scan c: Company where c.id" in other.explain(backwards).splitlines()[1]
        assert other.query(backwards).to_dicts() == []


def test_a_plan_is_kept_while_sizes_stay_alike(graph):
    first = graph.explain(FRIENDS)
    graph.mutate('query m() { insert Company { name: "x" } }')
    assert graph.explain(FRIENDS) == first
    assert names(graph) == ["Bob", "Charlie"]


def test_a_plan_follows_the_branch_it_is_asked_for(graph):
    graph.branches.create("large")
    people = [f'insert Person {{ name: "p{at}", age: 1 }}' for at in range(40)]
    graph.mutate(f"query m() {{ {' '.join(people)} }}", branch="large")
    before = graph.explain(FRIENDS)
    assert graph.explain(FRIENDS, branch="large") != before
    past = graph.snapshot().commit_id
    assert graph.explain(FRIENDS, branch="large", at=past) == before


def test_a_first_look_at_a_cold_table_reads_only_its_rows_beside_resident_ones(graph, monkeypatch):
    for _ in range(3):
        names(graph)  # persons and their acquaintances become resident
    whole = []
    read = graph._state.reader.cache.table
    monkeypatch.setattr(
        graph._state.reader.cache,
        "table",
        lambda table, *rest, **more: whole.append(table.key) or read(table, *rest, **more),
    )
    lookup = 'query q() { match { $c: Company { name: "Acme" } } return { $c.name as n } }'
    graph.query(lookup)
    assert "node:Company" not in whole
    graph.query(lookup)
    assert "node:Company" in whole
