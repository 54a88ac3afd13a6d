"""Pictures: the nodes and edges behind the rows of a query."""

import pytest

import omnigraph
from omnigraph.api.pictures import Picture
from omnigraph.errors import BadRequestError

SCHEMA = """
node Person { name: String @key  age: I32? }
node Company { code: String @key  title: String }
node Note { text: String }
edge Knows: Person -> Person
edge WorksAt: Person -> Company
"""
SEED = """query seed() {
  insert Person { name: "ada", age: 36 }
  insert Person { name: "bo", age: 41 }
  insert Person { name: "cy", age: 20 }
  insert Company { code: "c1", title: "<b>Acme</b>" }
  insert Knows { from: "ada", to: "bo" }
  insert Knows { from: "ada", to: "bo" }
  insert Knows { from: "bo", to: "cy" }
  insert Knows { from: "cy", to: "cy" }
  insert WorksAt { from: "bo", to: "c1" }
  insert Note { text: "alone" }
}"""


@pytest.fixture(scope="module", params=["selected rows", "resident tables"])
def graph(request, tmp_path_factory):
    with omnigraph.init(tmp_path_factory.mktemp("pictures") / "g.omni", SCHEMA) as made:
        made.mutate(SEED)
        if request.param == "resident tables":
            for _ in range(3):
                made.query("match { $a: Person $a knows $b } return { count($a) as n }")
        yield made


def nodes(picture: Picture) -> list[str]:
    return [node.id for node in picture.nodes]


def edges(picture: Picture) -> list[tuple[str, str, str]]:
    return sorted((edge.type, edge.source, edge.target) for edge in picture.edges)


def test_a_picture_has_the_nodes_and_edges_of_the_rows_that_are_returned(graph):
    result = graph.query(
        'match { $a: Person { name: "bo" } $a knows $b $a worksAt $c } return { $b.name, $c.title }'
    )
    picture = result.graph()
    assert sorted(nodes(picture)) == ["bo", "c1", "cy"]
    assert edges(picture) == [("Knows", "bo", "cy"), ("WorksAt", "bo", "c1")]
    assert {node.label for node in picture.nodes} == {"bo", "cy", "<b>Acme</b>"}
    assert picture.commit_id == result.commit_id
    assert not picture.truncated


def test_order_limit_and_offset_decide_what_is_shown(graph):
    text = "match { $p: Person } return { $p.name } order { $p.age desc } limit 1 offset 1"
    assert nodes(graph.query(text).graph()) == ["ada"]


def test_parallel_edges_are_all_shown_and_rows_stay_what_they_are(graph):
    result = graph.query('match { $a: Person { name: "ada" } $a knows $b } return { $b.name }')
    assert len(result) == 1
    assert edges(result.graph()) == [("Knows", "ada", "bo")] * 2


def test_an_edge_variable_shows_its_edges_only(graph):
    result = graph.query(
        'match { $a: Person { name: "ada" } $a $k:knows $b } return { $k.id } limit 1'
    )
    assert [edge.id for edge in result.graph().edges] == [result.scalar()]


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        ("$a knows $b", [("Knows", "bo", "cy"), ("Knows", "cy", "cy")]),
        ("$b knows $a", [("Knows", "bo", "cy"), ("Knows", "cy", "cy")]),
        ("$a <knows> $b", [("Knows", "bo", "cy"), ("Knows", "cy", "cy")]),
    ],
)
def test_edges_point_as_they_are_stored_and_come_once(graph, arrow, expected):
    shown = graph.picture(f"match {{ $a: Person $b: Person {arrow} }} return {{ $a.id, $b.id }}")
    assert [one for one in edges(shown) if one[1] != "ada"] == expected


def test_a_group_shows_all_rows_it_was_made_of(graph):
    text = """match { $a: Person $a knows $b } return { $b.name, count($a) as n }
              order { n desc, $b.name desc } limit 1"""
    result = graph.query(text)
    assert result.to_dicts() == [{"b.name": "cy", "n": 2}]
    picture = result.graph()
    assert sorted(nodes(picture)) == ["bo", "cy"]
    assert picture.row_count == 2


def test_a_total_shows_everything_it_counts(graph):
    assert len(graph.picture("match { $p: Person } return { count($p) as n }").nodes) == 3
    skipped = graph.picture("match { $p: Person } return { count($p) as n } limit 0")
    assert skipped.nodes == ()


def test_a_distinct_row_shows_all_rows_it_stands_for(graph):
    text = "match { $a: Person $a knows $b } return distinct { $b.name } limit 1"
    assert sorted(nodes(graph.query(text).graph())) == ["ada", "bo"]


def test_a_way_of_several_hops_is_shown_by_its_ends(graph):
    text = 'match { $a: Person { name: "ada" } $a knows{2,3} $b } return { $b.name }'
    (way,) = graph.query(text).graph().edges
    assert (way.id, way.source, way.target) == (None, "ada", "cy")
    assert (way.min_hops, way.max_hops) == (2, 3)


def test_what_is_inside_not_is_not_shown(graph):
    picture = graph.picture("match { $p: Person not { $p worksAt $_ } } return { $p.name }")
    assert sorted(nodes(picture)) == ["ada", "cy"]
    assert picture.edges == ()


def test_a_picture_is_of_the_state_its_rows_were_read_from(tmp_path):
    text = "match { $p: Person } return { $p.name }"
    with omnigraph.init(tmp_path / "g.omni", SCHEMA) as graph:
        result = graph.query(text)
        graph.mutate('query more() { insert Person { name: "di" } }')
        assert result.graph().nodes == ()
        assert nodes(graph.picture(text)) == ["di"]


def test_rows_are_left_out_where_there_are_too_many_nodes(graph):
    result = graph.query("match { $a: Person $a knows $b } return { $a.name, $b.name }")
    picture = result.graph(max_nodes=2)
    assert picture.truncated
    assert nodes(picture) == ["ada", "bo"]
    for odd in (0, 2_001, True, "many"):
        with pytest.raises(BadRequestError):
            result.graph(max_nodes=odd)


def test_part_of_a_result_knows_nothing_of_the_rest(graph):
    result = graph.query("match { $p: Person } return { $p.name }")
    with pytest.raises(BadRequestError, match="no whole result"):
        result[:1].graph()


def test_a_picture_goes_to_networkx_and_back_as_json(graph):
    result = graph.query("match { $a: Person $a knows $b } return { $a.name, $b.name }")
    made = result.to_networkx()
    assert made.number_of_edges() == 4
    assert made.nodes["Person", "ada"]["label"] == "ada"
    picture = result.graph()
    assert Picture.from_json_value(picture.to_json_value()) == picture


def test_an_overview_shows_some_of_every_type(graph):
    picture = graph.show()
    assert {node.type for node in picture.nodes} == {"Person", "Company", "Note"}
    assert {edge.type for edge in picture.edges} == {"Knows", "WorksAt"}
    assert len(graph.at(graph.snapshot().commit_id).show(1).edges) <= 3


def test_a_drawing_needs_nothing_from_outside_and_holds_no_markup_of_the_data(graph):
    html = graph.show()._repr_html_()
    assert html.startswith("<svg")
    assert "&lt;b&gt;Acme" in html
    assert "<b>" not in html
    for word in ("<script", "href=", "src=", "@import", "onload"):
        assert word not in html


def test_a_drawing_of_the_same_graph_is_the_same(graph):
    assert graph.show().to_svg() == graph.show().to_svg()


def test_nothing_is_drawn_of_nothing(graph):
    picture = graph.picture('match { $p: Person { name: "nobody" } } return { $p.name }')
    assert picture.nodes == ()
    assert "<svg" in picture._repr_html_()
