"""What is known of the data chooses where a match starts, and is shown; it changes no answer."""

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import BoundQuery, compile_query
from omnigraph.compiler.ir.estimate import estimated_rows, reached
from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.ops import Direction
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.compiler.ir.reads import reads_of
from omnigraph.compiler.source import Source
from omnigraph.engine.read import selective
from omnigraph.engine.read.plan import _sampled
from tests.support.fast import FAST

SCHEMA = """
node Person { name: String @key  city: String  kind: enum(a, b)  ok: Bool  tags: [String]? }
node Firm { name: String @key  branch: String }
edge Knows: Person -> Person { since: I32 }
edge WorksAt: Person -> Firm
"""
CATALOG = load_schema(Source(SCHEMA)).catalog
SIZES = Statistics(
    {"Person": 1_000, "Firm": 100},
    {"Knows": 10_000, "WorksAt": 1_000},
    {("node:Person", "city"): 50, ("node:Firm", "branch"): 2, ("edge:Knows", "since"): 20},
)


def plan(match: str, statistics: Statistics = SIZES):
    text = f"query q($many: [String]) {{ match {{ {match} }} return {{ count(*) as n }} }}"
    return optimize(compile_query(CATALOG, text).ir, facts_of(CATALOG, statistics))


@pytest.mark.parametrize(
    ("match", "rows"),
    [
        ("$p: Person", [1_000]),
        ('$p: Person { name: "x" }', [1]),
        ('$p: Person { city: "x" }', [20]),
        ('$p: Person  $p.city != "x"', [980]),
        ('$p: Person  $p.city in ["x", "y", "z"]', [60]),
        ("$p: Person  $p.city in $many", [60]),
        ('$p: Person { name: "x" }  $p knows $f', [1, 10]),
        ('$p: Person { name: "x" }  $p <knows> $f', [1, 20]),
        ('$p: Person { name: "x" }  $p knows{1,2} $f', [1, 110]),
        ('$p: Person { name: "x" }  $p $k:knows $f  $k.since = 2000', [1, 0.5]),
        ('$p: Person { name: "x" }  $p knows{9,9} $f', [1, 1_000]),
        ("$p: Person  not { $p knows $f }", [1_000, 500, 10_000]),
        ("$p: Person  $q: Person  $p.city = $q.name", [1_000, 20_000, 1_000]),
        ("$p: Person  $q: Firm  $p.city = $q.branch", [1_000, 2_000, 100]),
    ],
)
def test_sizes_values_and_degrees_make_the_estimate(match, rows):
    ops = plan(match).ops
    assert estimated_rows(ops, SIZES) == pytest.approx(rows)


def test_a_match_starts_where_values_are_rarest():
    match = '$p: Person { city: "x" }  $p worksAt $f  $f: Firm { branch: "y" }'
    assert plan(match).ops[0].var == "p"
    common = Statistics(SIZES.nodes, SIZES.edges, {("node:Person", "city"): 2})
    assert plan(match, common).ops[0].var == "f"


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        ([str(at % 7) for at in range(50_000)], 7, 8),
        ([str(at) for at in range(50_000)], 5_000, 65_536),
        ([None] * 5_000, 1, 2),
        (["x", "y", None], 2, 4),
        ([], 0, 1),
    ],
)
def test_a_few_rows_tell_few_values_from_many(values, least, most):
    assert least <= _sampled(pa.array(values, pa.string())) <= most


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as opened:
        session = opened.store.begin()
        names = [f"p{at}" for at in range(60)]
        person = {
            "id": names,
            "name": names,
            "city": [f"c{at % 3}" for at in range(60)],
            "kind": ["a"] * 60,
            "ok": [True] * 60,
            "tags": pa.nulls(60, pa.list_(pa.string())),
        }
        session.append("node:Person", pa.table(person))
        knows = {"id": [f"k{at}" for at in range(60)], "src": names, "dst": names[::-1]}
        session.append("edge:Knows", pa.table({**knows, "since": pa.array([1] * 60, pa.int32())}))
        session.commit()
        yield opened


BY_CITY = 'query q() { match { $p: Person { city: "c1" }  $p knows $f } return { $f } }'
BY_NAME = 'query q() { match { $p: Person { name: "p1" }  $p knows $f } return { $f } }'


def notes(graph, text):
    return [line.partition("  | ")[2] for line in graph.explain(text).splitlines()[1:3]]


def test_explain_tells_access_paths_and_expectations_as_they_are_now(graph):
    assert notes(graph, BY_CITY) == ["filtered scan, about 6 rows", "scan by src, about 6 rows"]
    assert notes(graph, BY_NAME) == ["filtered scan, about 1 row", "scan by src, about 1 row"]
    graph.ensure_indices()
    assert notes(graph, BY_NAME) == ["index on id, about 1 row", "index on src, about 1 row"]
    for _ in range(2):
        assert len(graph.query(BY_CITY)) == 20
    # Resident now, so how often a city occurs is known.
    assert notes(graph, BY_CITY) == ["by column, about 16 rows", "adjacency out, about 16 rows"]
    assert notes(graph, BY_NAME) == ["by id, about 1 row", "adjacency out, about 1 row"]
    profile = graph.profile(BY_CITY)
    assert [(step.access, step.expected, step.rows) for step in profile.steps] == [
        ("by column", 16.0, 20),
        ("adjacency out", 16.0, 20),
        (None, None, 20),
    ]


def test_explaining_is_no_use_and_repeats_itself(graph):
    first = graph.explain(BY_CITY)
    assert [graph.explain(BY_CITY) for _ in range(3)] == [first] * 3


def test_a_list_of_tags_has_no_values_to_count(graph):
    text = 'query q() { match { $p: Person  $p.tags contains "x" } return { $p } }'
    for _ in range(3):
        assert len(graph.query(text)) == 0


def test_many_steps_through_a_large_table_without_an_index_read_it_whole(graph, monkeypatch):
    monkeypatch.setattr(selective, "LARGE_TABLE", 10)
    monkeypatch.setattr(selective, "SCANS", 2)
    monkeypatch.setattr(selective, "SMALL_TABLE", 10)
    steps = " ".join(f"$n{at} knows $n{at + 1}" for at in range(4))
    text = f'query q() {{ match {{ $n0: Person {{ name: "p1" }}  {steps} }} return {{ $n4 }} }}'
    snapshot, catalog = graph.store.snapshot(), graph.catalog
    ir = compile_query(catalog, text).ir
    assert selective.selective_images(ir, reads_of(ir), snapshot, catalog, BoundQuery({})) is None
    answer = graph.query(text).to_dicts()
    graph.ensure_indices()
    indexed = selective.selective_images(
        ir, reads_of(ir), graph.store.snapshot(), catalog, BoundQuery({})
    )
    assert indexed is not None
    assert graph.query(text).to_dicts() == answer == [{"n4": "p1"}]


@pytest.mark.parametrize("degree", [0.0, 0.5, 0.999_999, 1.0, 1.5, 2.0, 10.0])
@pytest.mark.parametrize("hops", [(1, 1), (1, 2), (2, 5), (7, 7), (1, 40), (3, 64)])
def test_a_walk_is_expected_to_reach_the_sum_of_its_steps(degree, hops):
    plain = min(sum(degree**hop for hop in range(hops[0], hops[1] + 1)), 1_000_000.0)
    sizes = Statistics({"Person": 1_000_000}, {"Knows": int(degree * 1_000_000)})
    found = reached("Knows", Direction.OUT, "Person", "Person", hops, sizes)
    assert found == pytest.approx(plain)


@pytest.mark.parametrize("edges", [1, 999, 1_000, 1_001, 10_000])
@pytest.mark.parametrize("last", [370, 100_000_000, 2_147_483_647])
def test_a_walk_without_end_is_expected_to_reach_every_node_at_most(edges, last):
    sizes = Statistics({"Person": 1_000}, {"Knows": edges})
    found = reached("Knows", Direction.OUT, "Person", "Person", (1, last), sizes)
    assert 0.0 < found <= 1_000.0


def test_a_walk_without_end_is_planned_and_run(tmp_path):
    schema = "node P { k: String @key }\nedge E: P -> P\n"
    with omnigraph.init(tmp_path / "g.omni", schema, options=FAST) as graph:
        graph.mutate(
            'query i() { insert P { k: "a" } insert P { k: "b" } '
            'insert E { from: "a", to: "b" } insert E { from: "b", to: "a" } }'
        )
        for last in (370, 1_000_000, 2_147_483_647):
            text = f"query q() {{ match {{ $p: P  $p e{{1,{last}}} $q }} return {{ $q.k }} }}"
            for _ in range(2):  # on single rows first, then on resident tables
                assert graph.query(text).to_dicts() == [{"q.k": "b"}, {"q.k": "a"}]
            assert f"E{{1,{last}}}" in graph.explain(text)
