"""Mutations through the public API: what they change, what they refuse, what stays as it was."""

from dataclasses import replace

import numpy as np
import pytest

import omnigraph
from omnigraph.compiler.compile import compile_query
from omnigraph.engine.write.commit import OvertakenError, commit_changes
from omnigraph.engine.write.mutate import run_mutation
from omnigraph.errors import BadRequestError, ConflictError, IntegrityError
from omnigraph.storage.commit.session import UNCONDITIONAL
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  age: I32?
  email: String? @unique
  level: enum(junior, senior)?
  score: F32?
  tags: [String]?
  born: Date?

  @range(age, 0..150)
  @check(email, "^[^@]+@[^@]+$")
}

node Company {
  name: String @key
}

node Note {
  text: String
}

edge Knows: Person -> Person {
  since: Date?
}

edge WorksAt: Person -> Company @card(0..1)

edge Owns: Person -> Note {
  @unique(src, dst)
}
"""
SEED = """query seed() {
  insert Person { name: "Alice", age: 30 }
  insert Person { name: "Bob", age: 25 }
  insert Person { name: "Charlie", age: 35 }
  insert Person { name: "Diana", age: 28 }
  insert Company { name: "Acme" }
  insert Company { name: "Globex" }
  insert Knows { from: "Alice", to: "Bob" }
  insert Knows { from: "Alice", to: "Charlie" }
  insert Knows { from: "Bob", to: "Diana" }
  insert WorksAt { from: "Alice", to: "Acme" }
  insert WorksAt { from: "Bob", to: "Globex" }
}
"""


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as opened:
        opened.mutate(SEED)
        yield opened


def do(graph, body, **params):
    types = {str: "String", int: "I64", float: "F64", type(None): "String?", list: "[String]"}
    declared = ", ".join(f"${name}: {types[type(value)]}" for name, value in params.items())
    result = graph.mutate(f"query m({declared}) {{ {body} }}", params=params)
    return result.affected_nodes, result.affected_edges


def ages(graph):
    rows = graph.query(
        "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
    )
    return {row["name"]: row["age"] for row in rows}


def edges(graph, edge):
    rows = graph.query(f"query q() {{ match {{ $a $e:{edge} $b }} return {{ $a, $b, $e }} }}")
    return sorted((row["a"], row["b"]) for row in rows)


def commits(graph):
    return len(graph.store.commits())


def test_one_query_is_one_commit(graph):
    assert commits(graph) == 2  # genesis and the seed
    assert ages(graph) == {"Alice": 30, "Bob": 25, "Charlie": 35, "Diana": 28}
    assert edges(graph, "knows") == [("Alice", "Bob"), ("Alice", "Charlie"), ("Bob", "Diana")]


def test_inserting_an_existing_key_replaces_the_whole_row(graph):
    do(graph, 'update Person set { email: "a@x" } where name = "Alice"')
    assert do(graph, 'insert Person { name: "Alice", age: 31 }') == (1, 0)
    row = graph.query(
        'query q() { match { $p: Person { name: "Alice" } } return { $p.age, $p.email } }'
    ).to_dicts()
    assert row == [{"p.age": 31, "p.email": None}]
    assert len(ages(graph)) == 4


def test_a_new_node_is_a_valid_end_in_the_same_query(graph):
    body = 'insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Alice" }'
    assert do(graph, body) == (1, 1)
    assert ("Eve", "Alice") in edges(graph, "knows")


def test_insert_then_update_of_one_key_counts_both_and_keeps_the_last(graph):
    before = commits(graph)
    body = 'insert Person { name: "Eve", age: 1 } update Person set { age: 2 } where name = "Eve"'
    assert do(graph, body) == (2, 0)
    assert ages(graph)["Eve"] == 2
    assert commits(graph) == before + 1


def test_chained_updates_see_intermediate_values(graph):
    body = (
        'update Person set { age: 99 } where name = "Alice" '
        "update Person set { age: 10 } where age > 50"
    )
    do(graph, body)
    assert ages(graph)["Alice"] == 10


def test_updates_of_many_rows_and_several_predicates(graph):
    assert do(graph, "update Person set { age: 1 } where age >= 28 and age < 35") == (2, 0)
    assert ages(graph) == {"Alice": 1, "Bob": 25, "Charlie": 35, "Diana": 1}


def test_edges_can_be_updated(graph):
    body = 'update Knows set { since: date("2020-01-02") } where from = "Alice" and to = "Bob"'
    assert do(graph, body) == (0, 1)
    rows = graph.query(
        "query q() { match { $a $e:knows $b  $e.since is not null } return { $a, $b } }"
    )
    assert rows.to_dicts() == [{"a": "Alice", "b": "Bob"}]


def test_deleting_a_node_takes_its_edges_along(graph):
    assert do(graph, 'delete Person where name = "Alice"') == (1, 3)
    assert edges(graph, "knows") == [("Bob", "Diana")]
    assert edges(graph, "worksAt") == [("Bob", "Globex")]
    assert "Alice" not in ages(graph)


def test_overlapping_deletes_count_rows_once(graph):
    assert do(graph, 'delete Person where name = "Alice" delete Person where age > 29') == (2, 3)


def test_a_null_does_not_protect_a_row_from_a_later_delete(graph):
    do(graph, 'insert Person { name: "Eve" }')
    assert do(graph, 'delete Person where age > 29 delete Person where name = "Eve"')[0] == 3


def test_edges_are_deleted_by_their_ends(graph):
    assert do(graph, 'delete Knows where from = "Alice"') == (0, 2)
    assert "Alice" in ages(graph)


def test_a_node_and_its_edges_can_be_deleted_in_one_query(graph):
    body = 'delete Knows where from = "Alice" delete Person where name = "Alice"'
    assert do(graph, body) == (1, 3)


def test_nothing_to_do_is_no_commit(graph):
    before = commits(graph)
    result = graph.mutate('query m() { update Person set { age: 1 } where name = "Nobody" }')
    assert (result.affected_nodes, result.commit_id) == (0, None)
    assert do(graph, "delete Person where age > 1000") == (0, 0)
    assert commits(graph) == before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param('insert Person { name: "X", age: 151 }', "> max 150", id="range max"),
        pytest.param('update Person set { age: -1 } where name = "Bob"', "< min 0", id="range min"),
        pytest.param('insert Person { name: "X", email: "nope" }', "@check violation", id="check"),
        pytest.param(
            'insert Knows { from: "Alice", to: "X" }', "dst 'X' not found", id="missing end"
        ),
        pytest.param('insert WorksAt { from: "Alice", to: "Globex" }', "has 2 edges", id="card"),
    ],
)
def test_broken_rules_write_nothing_and_the_graph_stays_writable(graph, body, message):
    before = commits(graph), ages(graph), edges(graph, "knows"), edges(graph, "worksAt")
    with pytest.raises(IntegrityError, match=message):
        do(graph, body)
    assert (commits(graph), ages(graph), edges(graph, "knows"), edges(graph, "worksAt")) == before
    do(graph, 'insert Person { name: "Next" }')


def test_unique_is_checked_inside_the_query_and_against_committed_rows(graph):
    do(graph, 'update Person set { email: "a@x" } where name = "Alice"')
    with pytest.raises(IntegrityError, match=r"@unique violation on Person\.email"):
        do(graph, 'insert Person { name: "Eve", email: "a@x" }')
    with pytest.raises(IntegrityError, match="@unique violation"):
        do(
            graph,
            'insert Person { name: "E", email: "b@x" } insert Person { name: "F", email: "b@x" }',
        )
    do(graph, 'insert Person { name: "Alice", email: "a@x" }')  # itself
    do(graph, 'update Person set { email: "c@x" } where name = "Alice"')
    do(graph, 'insert Person { name: "Eve", email: "a@x" }')  # free again


def test_composite_unique_compares_the_whole_tuple(graph):
    do(graph, 'insert Note { text: "n" }')
    note = graph.query("query q() { match { $n: Note } return { $n } }").to_dicts()[0]["n"]
    do(graph, 'insert Owns { from: "Alice", to: $n }', n=note)
    do(graph, 'insert Owns { from: "Bob", to: $n }', n=note)
    with pytest.raises(IntegrityError, match=r"@unique violation on Owns\.\(dst, src\)"):
        do(graph, 'insert Owns { from: "Alice", to: $n }', n=note)


@pytest.mark.parametrize(
    ("prop", "kind", "value"),
    [
        pytest.param("age", "I64", 2**31, id="too large for I32"),
        pytest.param("age", "F64", 1.5, id="fraction into an integer"),
        pytest.param("level", "String", "boss", id="enum from a parameter"),
        pytest.param("score", "F64", 1e300, id="too large for F32"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_their_statement(graph, prop, kind, value):
    text = f'query m($v: {kind}) {{ insert Person {{ name: "X", {prop}: $v }} }}'
    with pytest.raises(IntegrityError, match=rf"statement 1: .*Person\.{prop}"):
        graph.mutate(text, params={"v": value})
    assert "X" not in ages(graph)


def test_all_violations_are_reported_together(graph):
    body = (
        'insert Person { name: "X", age: 200 } insert Person { name: "Y", email: "bad" } '
        'insert Knows { from: "Nobody", to: "X" }'
    )
    with pytest.raises(IntegrityError) as caught:
        do(graph, body)
    found = [(str(one.rule), one.place) for one in caught.value.violations]
    assert found == [
        ("range", "statement 1"),
        ("check", "statement 2"),
        ("endpoint", "statement 3"),
    ]
    assert caught.value.violations[0].row_id == "X"


def test_a_value_that_does_not_fit_does_not_hide_what_else_is_wrong(graph):
    text = """query m($age: I64) {
      insert Person { name: "X", age: 200 }
      insert Person { name: "Y", age: $age }
      update Person set { email: "bad" } where name = "Bob"
      insert Knows { from: "Y", to: "X" }
    }"""
    with pytest.raises(IntegrityError) as caught:
        graph.mutate(text, params={"age": 2**40})
    found = [(str(one.rule), one.prop, one.place) for one in caught.value.violations]
    assert found == [
        ("type", "age", "statement 2"),
        ("range", "age", "statement 1"),
        ("check", "email", "statement 3"),
    ]


def test_a_row_written_twice_is_blamed_on_the_statement_that_wrote_it_last(graph):
    body = (
        'insert Person { name: "X", age: 1 } insert Person { name: "Y", age: 1 } '
        "update Person set { age: 151 } where age = 1"
    )
    with pytest.raises(IntegrityError) as caught:
        do(graph, body)
    assert [one.place for one in caught.value.violations] == ["statement 3", "statement 3"]


def test_the_first_hundred_broken_rules_are_told_and_all_are_counted(graph):
    people = [f'insert Person {{ name: "p{number}", age: 151 }}' for number in range(150)]
    with pytest.raises(IntegrityError, match="and 149 more") as caught:
        do(graph, " ".join(people))
    told = caught.value.violations
    assert (len(told), caught.value.total) == (100, 150)
    assert (told[-1].row_id, told[-1].place) == ("p99", "statement 100")


def test_deletes_are_not_mixed_with_inserts(graph):
    with pytest.raises(BadRequestError, match="split into separate mutations"):
        do(graph, 'insert Person { name: "X" } delete Person where name = "Bob"')


def test_reads_are_not_mutations(graph):
    with pytest.raises(BadRequestError, match="is a read"):
        graph.mutate("query q() { match { $p: Person } return { $p } }")


def test_the_actor_is_kept_on_the_commit(graph):
    result = graph.mutate('query m() { insert Company { name: "X" } }', actor="act-alice")
    commit = graph.store.commits()[-1]
    assert (commit.id, commit.actor) == (result.commit_id, "act-alice")


def test_a_conditional_write_needs_the_branch_where_it_was(graph):
    head = graph.snapshot().commit_id
    graph.mutate('query m() { insert Company { name: "X" } }', if_head=head)
    with pytest.raises(ConflictError):
        graph.mutate('query m() { insert Company { name: "Y" } }', if_head=head)


def test_repeating_a_request_under_its_key_writes_once(graph):
    text = "query m($n: String) { insert Note { text: $n } }"
    first = graph.mutate(text, params={"n": "a"}, idempotency_key="k1")
    again = graph.mutate(text, params={"n": "a"}, idempotency_key="k1")
    assert (again.commit_id, again.affected_nodes, again.replayed) == (first.commit_id, 1, True)
    assert len(graph.query("query q() { match { $n: Note } return { $n } }")) == 1
    with pytest.raises(ConflictError):
        graph.mutate(text, params={"n": "b"}, idempotency_key="k1")


def test_branches_are_written_apart(graph):
    graph.store.branches.create("draft")
    graph.mutate('query m() { delete Person where name = "Bob" }', branch="draft")
    assert "Bob" in ages(graph)
    rows = graph.query("query q() { match { $p: Person } return { $p.name } }", branch="draft")
    assert [row["p.name"] for row in rows] == ["Alice", "Charlie", "Diana"]


def test_a_concurrent_delete_of_an_end_stops_the_edge(graph):
    with omnigraph.connect(graph.uri) as other:
        session = graph.store.begin()
        other.mutate('query m() { delete Person where name = "Diana" }')
        text = 'query m() { insert Knows { from: "Alice", to: "Diana" } }'
        compiled = compile_query(graph.catalog, text)
        mutated = run_mutation(compiled.ir, session.base, graph.catalog, {}, lambda: "e1")
        with pytest.raises(OvertakenError, match="dst 'Diana' not found"):
            commit_changes(session, mutated.changes, graph.catalog, UNCONDITIONAL, None)
    assert ("Alice", "Diana") not in edges(graph, "knows")


def test_a_concurrent_edge_stops_the_delete_of_its_end_and_names_the_statement(graph):
    with omnigraph.connect(graph.uri) as other:
        session = graph.store.begin()
        other.mutate('query m() { insert WorksAt { from: "Diana", to: "Acme" } }')
        text = 'query m() { delete Note where text = "n" delete Person where name = "Diana" }'
        compiled = compile_query(graph.catalog, text)
        mutated = run_mutation(compiled.ir, session.base, graph.catalog, {}, lambda: "e1")
        with pytest.raises(OvertakenError, match="src 'Diana' is deleted") as caught:
            commit_changes(session, mutated.changes, graph.catalog, UNCONDITIONAL, None)
    assert isinstance(caught.value, ConflictError)
    moved = f"others changed edge:WorksAt meanwhile, up to commit {graph.snapshot().commit_id}"
    assert moved in str(caught.value)
    assert [one.place for one in caught.value.violations] == ["statement 2"]
    assert ("Diana", "Acme") in edges(graph, "worksAt")


def test_reopening_gives_the_same_graph(graph):
    do(
        graph,
        'update Person set { tags: $t, born: date("1990-05-05") } where name = "Bob"',
        t=["a", "b"],
    )
    text = "query q() { match { $p: Person } return { $p.name, $p.age, $p.tags, $p.born } }"
    expected = graph.query(text).to_dicts()
    with omnigraph.connect(graph.uri, read_only=True) as other:
        assert other.query(text).to_dicts() == expected


@pytest.fixture
def staffed(tmp_path):
    """Ann has the two reviewers every author needs; Bob has none."""
    schema = """node Person {
      name: String @key
    }

    edge ReviewedBy: Person -> Person @card(2..3)
    """
    with omnigraph.init(str(tmp_path / "staffed.omni"), schema, options=FAST) as opened:
        opened.mutate(
            'query m() { insert Person { name: "Ann" } insert Person { name: "Bob" } '
            'insert Person { name: "Eve" } insert ReviewedBy { from: "Ann", to: "Bob" } '
            'insert ReviewedBy { from: "Ann", to: "Eve" } }'
        )
        yield opened


@pytest.mark.parametrize(
    ("body", "left"),
    [
        pytest.param('delete ReviewedBy where to = "Bob"', 1, id="one edge"),
        pytest.param('delete ReviewedBy where from = "Ann"', 0, id="all edges"),
        pytest.param('delete Person where name = "Bob"', 1, id="by cascade"),
    ],
)
def test_a_delete_must_leave_a_source_enough_edges(staffed, body, left):
    with pytest.raises(IntegrityError, match=rf"source 'Ann' has {left} edges \(min 2\)") as caught:
        do(staffed, body)
    assert caught.value.violations[0].place == "statement 1"
    assert len(edges(staffed, "reviewedBy")) == 2


def test_of_several_deletes_the_one_that_takes_too_much_is_named(staffed):
    do(staffed, 'insert ReviewedBy { from: "Ann", to: "Ann" }')
    body = (
        'delete ReviewedBy where from = "Bob" delete ReviewedBy where to = "Ann" '
        'delete Person where name = "Eve"'
    )
    with pytest.raises(IntegrityError, match=r"source 'Ann' has 1 edges \(min 2\)") as caught:
        do(staffed, body)
    assert [one.place for one in caught.value.violations] == ["statement 3"]


def test_a_source_may_go_with_its_edges_and_one_without_edges_may_stay_so(staffed):
    assert do(staffed, 'delete Person where name = "Ann"') == (1, 2)
    assert do(staffed, 'delete Person where name = "Bob"') == (1, 0)


def test_enough_edges_are_asked_for_once_the_query_is_over(staffed):
    body = 'insert ReviewedBy { from: "Bob", to: "Ann" }'
    with pytest.raises(IntegrityError, match=r"source 'Bob' has 1 edges \(min 2\)"):
        do(staffed, body)
    assert do(staffed, f"{body} {body}") == (0, 2)


def test_values_that_repeat_are_shown_as_queries_write_them(tmp_path):
    schema = """node Slot {
      name: String @key
      day: Date?
      at: DateTime?
      free: Bool?

      @unique(at)
      @unique(day, free)
    }"""
    with omnigraph.init(str(tmp_path / "slots.omni"), schema, options=FAST) as graph:
        fill = 'at: datetime("2026-01-02T03:04:05.006Z"), day: date("2026-01-02"), free: true'
        with pytest.raises(IntegrityError) as caught:
            do(graph, f'insert Slot {{ name: "a", {fill} }} insert Slot {{ name: "b", {fill} }}')
    texts = [one.message for one in caught.value.violations]
    assert texts == [
        "@unique violation on Slot.at: 2026-01-02T03:04:05.006Z is also the value of 'a'",
        "@unique violation on Slot.(day, free): (2026-01-02, true) is also the value of 'a'",
    ]
    moment = caught.value.violations[0].value
    assert (moment.hour, moment.microsecond) == (3, 6_000)


def test_thousands_of_statements_are_one_commit_where_the_last_word_on_a_key_counts(graph):
    people = [
        f'insert Person {{ name: "p{number % 1_500}", age: {number // 1_500} }}'
        for number in range(3_000)
    ]
    before = commits(graph)
    assert do(graph, " ".join(people)) == (3_000, 0)
    assert commits(graph) == before + 1
    found = ages(graph)
    assert {found[f"p{number}"] for number in range(1_500)} == {1}
    assert len(found) == 1_504


class Lengths:
    """An embedder whose vectors are the lengths of texts; remembers what it was asked."""

    space = "lengths"

    def __init__(self):
        self.asked = []

    def embed_documents(self, texts, dim):
        self.asked.append(list(texts))
        return np.array([[len(text)] * dim for text in texts], np.float32)

    def embed_query(self, text, dim):
        return np.array([len(text)] * dim, np.float32)


@pytest.mark.parametrize(
    ("body", "asked", "vectors"),
    [
        pytest.param(
            'insert Doc { slug: "b", text: "bb" } update Doc set { text: "four" } where slug = "b"',
            [["four"]],
            {"a": 1, "b": 4},
            id="insert then update",
        ),
        pytest.param(
            'insert Doc { slug: "b", text: "bb" } update Doc set { text: "three" } '
            'where slug = "a"',
            [["bb", "three"]],
            {"a": 5, "b": 2},
            id="a new and an old row in one batch",
        ),
        pytest.param(
            'update Doc set { note: "n" } where slug = "a"', [], {"a": 1}, id="another property"
        ),
        pytest.param(
            'update Doc set { text: "bb" } where slug = "a" '
            'update Doc set { text: "ccc" } where slug = "a"',
            [["ccc"]],
            {"a": 3},
            id="another text twice",
        ),
        pytest.param(
            'update Doc set { meaning: [9.0, 9.0] } where slug = "a" '
            'update Doc set { text: "a", note: "n" } where slug = "a"',
            [],
            {"a": 9},
            id="a given vector and the same text",
        ),
        pytest.param(
            'update Doc set { meaning: [9.0, 9.0] } where slug = "a" '
            'update Doc set { text: "bb" } where slug = "a"',
            [["bb"]],
            {"a": 2},
            id="a given vector and then another text",
        ),
        pytest.param(
            'update Doc set { text: "bb" } where slug = "a" '
            'update Doc set { meaning: [9.0, 9.0] } where slug = "a"',
            [],
            {"a": 9},
            id="another text and then a given vector",
        ),
    ],
)
def test_a_required_vector_is_made_from_the_text_a_query_leaves(tmp_path, body, asked, vectors):
    schema = """node Doc {
      slug: String @key
      text: String
      note: String?
      meaning: Vector(2) @embed("text")
    }"""
    embedder = Lengths()
    options = replace(FAST, embedder=embedder)
    with omnigraph.init(str(tmp_path / "docs.omni"), schema, options=options) as docs:
        do(docs, 'insert Doc { slug: "a", text: "a" }')
        embedder.asked.clear()
        do(docs, body)
        rows = docs.query("query q() { match { $d: Doc } return { $d.slug, $d.meaning } }")
        assert {row["d.slug"]: row["d.meaning"][0] for row in rows} == vectors
    assert embedder.asked == asked


def told(error):
    return [(str(one.rule), one.prop, one.row_id, one.place) for one in error.value.violations]


def test_everything_a_refused_row_breaks_is_told_at_once(graph):
    text = """query m($age: I64, $score: F64, $level: String?) {
      insert Person { name: "Eve", age: $age, score: $score, email: "nowhere", level: $level }
      insert Person { name: "Zoe", age: 200 }
    }"""
    params = {"age": 2**40, "score": 1e300, "level": "boss"}
    with pytest.raises(IntegrityError) as error:
        graph.mutate(text, params=params)
    assert told(error) == [
        ("type", "age", "Eve", "statement 1"),
        ("type", "score", "Eve", "statement 1"),
        ("enum", "level", "Eve", "statement 1"),
        ("check", "email", "Eve", "statement 1"),
        ("range", "age", "Zoe", "statement 2"),
    ]
    assert set(ages(graph)) == {"Alice", "Bob", "Charlie", "Diana"}


def test_everything_a_refused_update_breaks_is_told_at_once(graph):
    text = """query m($age: I64) {
      update Person set { age: $age, email: "nowhere" } where name = "Bob"
    }"""
    with pytest.raises(IntegrityError) as error:
        graph.mutate(text, params={"age": 2**40})
    assert told(error) == [
        ("type", "age", None, "statement 1"),
        ("check", "email", "Bob", "statement 1"),
    ]
    assert ages(graph)["Bob"] == 25
