"""A graph of which some rows are hidden: whatever can be asked of a graph was thought of."""

import inspect

import pytest

import omnigraph
from omnigraph.api import protocols
from omnigraph.api.visibility import RowRules, RowRulesError
from omnigraph.base.budget import Limits
from omnigraph.errors import BudgetExceededError, NotFoundError
from omnigraph.graph import view
from omnigraph.graph.branch import GraphBranch
from omnigraph.graph.graph import Graph
from omnigraph.graph.seen import SeenGraph
from omnigraph.graph.view import GraphView
from tests.support.fast import FAST

SCHEMA = """
node P { slug: String @key
 vis: String }
node D { slug: String @key }
edge K: P -> P
"""
RULES = RowRules.of({"P": frozenset({'$n.vis = "public"'}), "K": None, "D": None})
READ_THROUGH_THE_READER = {
    "query",
    "query_at_hand",
    "stream",
    "profile",
    "explain",
    "picture",
    "show",
    "algorithms",
}
SAID_ANEW = {"snapshot", "read_blob", "entity_rows", "spark", "spark_query"}
ON_TOP = {"entity": "entity_rows", "export": "_selection", "iter_export": "_selection"}
OF_NO_ROW = {"uri", "catalog", "schema"}


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as made:
        lines = [f'{{"type":"P","data":{{"slug":"p{n}","vis":"public"}}}}' for n in range(3)]
        lines += ['{"type":"P","data":{"slug":"x","vis":"secret"}}']
        lines += [f'{{"edge":"K","from":"p{n}","to":"x","data":{{}}}}' for n in range(2)]
        lines += [
            '{"edge":"K","from":"p0","to":"p1","data":{}}',
            '{"type":"D","data":{"slug":"d"}}',
        ]
        made.load("\n".join(lines).encode(), "append")
        yield made


def test_every_way_to_read_a_state_was_thought_of():
    known = {name for name in vars(GraphView) if not name.startswith("_")}
    thought_of = READ_THROUGH_THE_READER | SAID_ANEW | ON_TOP.keys() | OF_NO_ROW
    assert known == thought_of, "does it show rows that `graph.seen` has to leave out?"
    source = inspect.getsource(view)
    assert source.count("state.reader") == 1, "queries are run by `_reader`, which knows the rules"
    for name, below in ON_TOP.items():
        assert below in inspect.getsource(getattr(GraphView, name))


def test_algorithms_see_what_is_visible(graph):
    seen = graph.under(RULES)
    for algorithms in (seen.algorithms, seen.branch("main").algorithms):
        rows = algorithms.degrees().to_tuples()
        assert rows == [("D", "d", 0), ("P", "p0", 1), ("P", "p1", 1), ("P", "p2", 0)]
        parts = algorithms.connected_components(nodes=["P"])
        assert parts["component"].to_pylist() == [0, 0, 1]
        assert len(algorithms.shortest_path(("P", "p0"))) == 2
        assert len(algorithms.pagerank(nodes=["P"])) == 3
        with pytest.raises(NotFoundError, match="no P 'x'"):
            algorithms.shortest_path(("P", "x"))
        with pytest.raises(RowRulesError):
            algorithms.degrees(write="vis")


def test_what_was_not_thought_of_needs_every_row(graph):
    seen = graph.under(RULES)
    given = {name for name in vars(SeenGraph) if not name.startswith("_")}
    open_ = {
        "uri", "schema", "plan_schema", "diff_schema", "schema_history", "commits", "tags",
        "cursor", "branches", "queries",
    }  # fmt: skip
    asked = {name for name in (*vars(Graph), *dir(protocols.AnyGraph)) if not name.startswith("_")}
    for name in asked - given - open_:
        with pytest.raises(RowRulesError):
            getattr(seen, name)
    branch = seen.branch("main")
    for name in {one for one in vars(GraphBranch) if not one.startswith("_")} - {"mutate", "name"}:
        if name not in vars(GraphView):
            with pytest.raises(RowRulesError):
                getattr(branch, name)
    with pytest.raises(RowRulesError):
        seen.branches.reset("main", to="x")
    with pytest.raises(RowRulesError):
        branch.spark(None)


def test_a_picture_has_the_visible_nodes_and_edges(graph):
    text = "match { $p: P\n$p k $q } return { $p.slug }"
    seen = graph.under(RULES)
    for found in (seen.picture(text), seen.query(text).draw(50), seen.show()):
        assert "x" not in {one.id for one in found.nodes if one.type == "P"}
        assert len(found.edges) == 1
    assert len(graph.picture(text).edges) == 3


def test_rules_follow_the_rows_from_commit_to_commit(graph):
    seen, text = graph.under(RULES), "match { $p: P } return { count(*) as n }"
    assert seen.query(text).scalar() == 3
    graph.mutate('update P set { vis: "secret" } where slug = "p0"')
    assert seen.query(text).scalar() == 2
    graph.mutate('insert P { slug: "new", vis: "public" }')
    assert seen.query(text).scalar() == 3
    graph.mutate('update P set { vis: "public" } where slug = "x"')
    assert seen.query(text).scalar() == 4


def test_a_refusal_for_memory_says_nothing_of_whole_tables(graph):
    seen = graph.under(RULES)
    text, tight = "match { $p: P } return { $p.slug }", Limits(bytes=1)
    for ask in (seen.query, seen.stream, seen.picture, seen.profile, seen.branch("main").query):
        with pytest.raises(BudgetExceededError) as caught:
            ask(text, limits=tight)
        assert caught.value.message.endswith("than the memory budget allows, which is 1 bytes")
        assert caught.value.limit == 1
    with pytest.raises(BudgetExceededError, match="needs 3 rows; the row budget is 1"):
        seen.query("match { $p: P } return { $p.slug, $p.vis }", limits=Limits(rows=1))


def test_two_rules_of_one_graph_never_see_the_rows_of_each_other(graph):
    secret = graph.under(RowRules.of({"P": frozenset({'$n.vis = "secret"'})}))
    public, text = graph.under(RULES), "match { $p: P } return { $p.slug }"
    for _ in range(5):  # plans and images are kept
        assert secret.query(text).to_dicts() == [{"p.slug": "x"}]
        assert len(public.query(text)) == 3
        assert len(graph.query(text)) == 4


def test_a_condition_that_means_nothing_any_more_hides_its_type(graph, caplog):
    seen = graph.under(RULES)
    graph.apply_schema(SCHEMA.replace(" vis: String", ' kind: String @rename_from("vis")'))
    assert seen.query("match { $p: P } return { count(*) as n }").scalar() == 0
    assert "all rows of node:P are hidden" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        '$n.vis = "a" } return { $n.slug } }',
        "$n k $m",
        "$m: P",
        'bm25($n.slug, "x") > 1',
        "$n.vis = $n.slug\n$x.vis = $n.vis",
        "not { $n k $m }",
        "",
        "$n.vis = $given",
    ],
)
def test_a_rule_is_a_condition_on_one_row_and_nothing_else(graph, text, caplog):
    seen = graph.under(RowRules.of({"P": frozenset({text})}))
    assert seen.query("match { $p: P } return { count(*) as n }").scalar() == 0
    assert "are hidden" in caplog.text


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('insert D { slug: "new" }', True),
        ('insert P { slug: "new", vis: "public" }', False),
        ('insert K { from: "p0", to: "p1" }', False),
        ('delete K where from = "p0"', False),
        ('delete P where slug = "zz"', False),
    ],
)
def test_only_what_is_seen_whole_is_written(graph, text, allowed):
    seen, before = graph.under(RULES), graph.snapshot().commit_id
    if allowed:
        assert seen.mutate(text).affected_nodes == 1
        return
    with pytest.raises(RowRulesError):
        seen.mutate(text)
    assert graph.snapshot().commit_id == before
