"""Queries that a rewrite once answered differently: the answer never depends on the plan."""

import pytest

from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.optimize import optimize
from tests.engine.read.fixtures import Fixture, social
from tests.support.answers import Question, listed

SIZES = [(1, 1), (10_000, 1), (1, 10_000)]


def check(fixture: Fixture, match: str, result: str) -> None:
    question = Question(fixture.catalog, f"query q() {{ match {{ {match} }} {result} }}", {})
    wanted = listed(question.asked(fixture.rows))
    images = fixture.images()
    plans = [question.plain_ir, question.ir]
    for people, companies in SIZES:
        sizes = Statistics({"Person": people, "Company": companies}, {"Knows": 3, "WorksAt": 2})
        plans.append(optimize(question.plain_ir, facts_of(fixture.catalog, sizes)))
    for plan in plans:
        assert question.answered(images, plan) == wanted


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
