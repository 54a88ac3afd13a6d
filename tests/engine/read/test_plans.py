"""Queries that a rewrite once answered differently: the answer never depends on the plan."""

import pytest

import omnigraph
from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.optimize import COST, optimize, rewrite
from omnigraph.engine.read import plan
from tests.engine.read.fixtures import Fixture, social
from tests.support.answers import Question, listed
from tests.support.fast import FAST

SIZES = [(1, 1), (10_000, 1), (1, 10_000)]


def check(fixture: Fixture, match: str, result: str) -> None:
    question = Question(fixture.catalog, f"query q() {{ match {{ {match} }} {result} }}", {})
    wanted = listed(question.asked(fixture.rows))
    images = fixture.images
    plans = [question.plain_ir, question.ir]
    for people, companies in SIZES:
        sizes = Statistics({"Person": people, "Company": companies}, {"Knows": 3, "WorksAt": 2})
        plans.append(optimize(question.plain_ir, facts_of(fixture.catalog, sizes)))
    for one in plans:
        assert question.answered(images, one) == wanted


@pytest.mark.parametrize(
    "inner",
    [
        '$c: Company  $p worksAt $t  $t.id = $c.id  $t.name = "Acme"',
        "$c: Company  $p worksAt $t  $t.id = $c.id  $t.name != $p.name",
        '$c: Company  $p worksAt $t  $t = $c  $t.name = "Globex"  $c.name = "Acme"',
        "$p: Person",
        "$_ worksAt{1,2} $c  $p worksAt $c",
    ],
)
def test_a_negation_means_the_same_under_every_rewrite(inner):
    check(social(), f"$p: Person  not {{ {inner} }}", "return { $p.name }")


def test_nameless_nodes_of_a_negation_do_not_meet_those_outside():
    match = "$a knows $_  not { $a = $a  $_ worksAt{2,2} $c }  $_ <knows> $a  $a knows $b"
    check(social(), match, "return { $a, $b }")
    closing = "$a knows $b  $b knows $_  not { $_ knows $a }  $b <knows> $a"
    check(social(), closing, "return { $a, $b }")


def test_a_query_is_planned_once_for_selected_rows_and_once_for_resident_tables(
    tmp_path, monkeypatch
):
    planned = []

    def counted(ir, facts, rules):
        planned.append(rules)
        return rewrite(ir, facts, rules)

    monkeypatch.setattr(plan, "rewrite", counted)
    schema = "node P { k: String @key\n age: I32 }\nedge E: P -> P"
    insert = "query i($k: String) { insert P { k: $k, age: 1 } }"
    walk = "query q($k: String) { match { $a: P { k: $k }  $a e $b  $b.age > 0 } return { $b.k } }"
    with omnigraph.init(tmp_path / "g", schema, options=FAST) as graph:
        graph.mutate(insert, params={"k": "a"})
        graph.mutate(insert, params={"k": "b"})
        graph.mutate('query e() { insert E { from: "a", to: "b" } }')
        with omnigraph.connect(graph.uri, options=FAST) as fresh:
            for _ in range(4):
                assert fresh.query(walk, params={"k": "a"}).to_dicts() == [{"b.k": "b"}]
            assert planned == [COST, COST]
            fresh.mutate(insert, params={"k": "c"})  # the sizes are still of the same magnitude
            assert len(fresh.query(walk, params={"k": "c"})) == 0
            assert planned == [COST, COST]
