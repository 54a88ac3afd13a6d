"""`update Edge set { from, to }`: an edge leads elsewhere and stays the edge it is."""

import pytest

import omnigraph
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import CompileError
from tests.support.fast import FAST

SCHEMA = """
node Person { name: String @key }
node Company { name: String @key src: I32? }
edge WorksAt: Person -> Company @card(1..1) { since: I32? @index }
edge Knows: Person -> Person { since: I32? }
"""
SEED = """query seed() {
  insert Person { name: "ada" } insert Person { name: "bo" } insert Person { name: "cy" }
  insert Company { name: "x" src: 1 } insert Company { name: "y" }
  insert WorksAt { from: "ada" to: "x" since: 2001 }
  insert WorksAt { from: "bo" to: "x" since: 2002 }
  insert Knows { from: "ada" to: "bo" since: 1 }
  insert Knows { from: "bo" to: "cy" since: 2 }
}"""
WORKS = """query works() { match { $p: Person $p $w:worksAt $c }
  return { $p.name as p, $c.name as c, $w.since as since } order { p } }"""
EMPLOYS = """query employs($c: String) { match { $c1: Company { name: $c } $p worksAt $c1 }
  return { $p.name as p } order { p } }"""
KNOWS = """query knows() { match { $a $k:knows $b }
  return { $a.name as a, $b.name as b } order { a, b } }"""
MOVE = "query move($p: String, $c: String) { update WorksAt set { to: $c } where from = $p }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as made:
        made.mutate(SEED)
        yield made


def works(graph):
    return [(row["p"], row["c"], row["since"]) for row in graph.query(WORKS)]


def employs(graph, company):
    return [row["p"] for row in graph.query(EMPLOYS, params={"c": company})]


def edge_ids(graph):
    text = "query q() { match { $p $w:worksAt $c } return { $w.id as id } }"
    return {row["id"] for row in graph.query(text)}


@pytest.mark.parametrize("warm", [False, True])
def test_an_edge_that_must_be_there_once_leads_elsewhere_in_one_statement(graph, warm):
    if warm:
        assert employs(graph, "x") == ["ada", "bo"]
    ids = edge_ids(graph)
    done = graph.mutate(MOVE, params={"p": "ada", "c": "y"})
    assert (done.affected_nodes, done.affected_edges) == (0, 1)
    assert works(graph) == [("ada", "y", 2001), ("bo", "x", 2002)]
    assert (employs(graph, "x"), employs(graph, "y")) == (["bo"], ["ada"])
    assert edge_ids(graph) == ids
    with omnigraph.connect(graph.uri) as fresh:
        assert works(fresh) == works(graph)
        assert [one.kind for one in fresh.verify()] == ["missing_edges"]


def test_other_properties_move_along_and_diffs_show_both_ends(graph):
    before = graph.snapshot().commit_id
    graph.mutate('query m() { update WorksAt set { to: "y" since: 2024 } where since = 2001 }')
    assert works(graph)[0] == ("ada", "y", 2024)
    (change,) = graph.diff(before, "main", images="both").to_dicts()
    assert (change["op"], change["before"]["dst"], change["after"]["dst"]) == ("update", "x", "y")


def test_both_ends_of_many_edges_move_at_once(graph):
    done = graph.mutate('query m() { update Knows set { from: "cy" to: "ada" } where since >= 1 }')
    assert done.affected_edges == 2
    assert [tuple(row.values()) for row in graph.query(KNOWS)] == [("cy", "ada"), ("cy", "ada")]


def test_a_statement_moves_what_an_earlier_one_put(graph):
    graph.mutate("""query m() {
      insert Company { name: "z" }
      insert Knows { from: "cy" to: "ada" since: 7 }
      update Knows set { to: "bo" } where since = 7
      update WorksAt set { to: "z" } where from = "bo"
    }""")
    assert {"a": "cy", "b": "bo"} in graph.query(KNOWS).to_dicts()
    assert employs(graph, "z") == ["bo"]


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        ('update WorksAt set { to: "nowhere" } where from = "ada"', "endpoint", "dst 'nowhere'"),
        ('update WorksAt set { from: "nobody" } where from = "ada"', "endpoint", "src 'nobody'"),
        ('update WorksAt set { from: "bo" } where from = "ada"', "cardinality", "'bo' has 2"),
        ('update WorksAt set { from: "cy" } where from = "ada"', "cardinality", "'ada' has 0"),
    ],
)
def test_a_move_that_breaks_a_rule_is_refused_with_its_statement(graph, text, rule, says):
    head, before = graph.snapshot().commit_id, works(graph)
    with pytest.raises(ConstraintError) as caught:
        graph.mutate(f'query m() {{ insert Person {{ name: "new" }} {text} }}')
    found = [one for one in caught.value.violations if says in one.message]
    assert [(str(one.rule), one.place) for one in found] == [(rule, "statement 2")]
    assert (graph.snapshot().commit_id, works(graph)) == (head, before)


def test_an_end_is_never_null(graph):
    with pytest.raises(ConstraintError, match="dst of WorksAt is null"):
        graph.mutate(
            'query m($c: String?) { update WorksAt set { to: $c } where from = "ada" }',
            params={"c": None},
        )
    with pytest.raises(CompileError):
        graph.mutate('query m() { update WorksAt set { to: null } where from = "ada" }')


def test_a_node_property_may_bear_the_name_of_an_end_s_column(graph):
    graph.mutate('query m() { update Company set { src: 5 } where name = "x" }')
    text = 'query q() { match { $c: Company { name: "x" } } return { $c.src as s } }'
    assert graph.query(text).to_dicts() == [{"s": 5}]


def test_nodes_that_still_lack_their_first_edge_are_told_by_verify(graph):
    graph.branches.create("dev")
    graph.mutate('query m() { insert Person { name: "dee" } }', branch="dev")
    found = [one for one in graph.verify() if one.kind == "missing_edges"]
    assert [(one.subject, one.detail, one.harmless) for one in found] == [
        ("edge:WorksAt on 'main'", "1 Person without any, 1 needed: 'cy'", True),
        ("edge:WorksAt on 'dev'", "2 Person without any, 1 needed: 'cy', 'dee'", True),
    ]
