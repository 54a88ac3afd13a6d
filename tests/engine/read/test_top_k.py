"""A ranked match is made around the best nodes only, and answers as if it were made in full."""

from random import Random

import pytest

from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.ops import NodeScan
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.engine.read import top_k
from omnigraph.engine.read.prepare import prepare
from tests.engine.read.fixtures import Fixture, library, pairs
from tests.support.answers import Question, listed

NEAR = "nearest($d.vec, [1.0, 0.0, 0.0])"
WORDS = 'bm25($d.body, "red fox")'


def shelf(rng: Random) -> Fixture:
    """Return many documents with few different vectors and texts, so that many tie."""
    docs = [
        {
            "slug": f"d{at:03}",
            "title": "x",
            "body": rng.choice([None, "red", "red fox", "fox fox", "blue dog"]),
            "vec": rng.choice([None, [1, 0, 0], [1, 1, 0], [rng.randint(0, 8) / 8, 1, 1]]),
        }
        for at in range(50)
    ]
    names = [f"a{at}" for at in range(9)]
    some = [
        f"{rng.choice(names)}>{rng.choice(docs)['slug']}" for _ in range(rng.choice([0, 4, 90]))
    ]
    cites = [f"{rng.choice(docs)['slug']}>{rng.choice(docs)['slug']}" for _ in range(60)]
    authors = [{"name": name} for name in names]
    return library(Author=authors, Doc=docs, Wrote=pairs(*some), Cites=pairs(*cites))


@pytest.mark.parametrize("score", [NEAR, WORDS])
@pytest.mark.parametrize(
    "match",
    [
        "$d: Doc  $a wrote $d",
        "$d: Doc  $d cites $e  $a wrote $e",
        '$d: Doc  $d cites $e  not { $a wrote $d }  $e.slug > "d05"',
        "$d: Doc  $x: Author",
        "$a wrote $d",
    ],
)
def test_the_answer_is_that_of_the_whole_match(score, match):
    for seed in range(3):
        rng = Random(seed)
        fixture = shelf(rng)
        sizes = Statistics({"Doc": 120, "Author": 100_000}, {"Wrote": 90, "Cites": 200})
        for limit in (0, 7, 40):
            rest = f"order {{ {score} }} limit {limit} offset {rng.choice([0, 3])}"
            text = f"query q() {{ match {{ {match} }} return {{ $d, {score} as s }} {rest} }}"
            question = Question(fixture.catalog, text, {})
            led = optimize(question.plain_ir, facts_of(fixture.catalog, sizes))
            assert isinstance(led.ops[0], NodeScan)
            wanted = listed(question.asked(fixture.rows))
            for plan in (question.ir, led):
                assert question.answered(fixture.images, plan) == wanted


def test_a_large_match_starts_at_the_ranked_node():
    sizes = Statistics({"Doc": 200_000, "Author": 100_000}, {"Wrote": 200_000, "Cites": 10})
    text = f"query q() {{ match {{ $a wrote $d }} return {{ $a }} order {{ {NEAR} }} limit 10 }}"
    question = Question(library().catalog, text, {})
    plan = optimize(question.plain_ir, facts_of(library().catalog, sizes))
    assert plan.ops[0] == NodeScan("d", "Doc")
    assert prepare(plan).is_led
    lookup = text.replace("$a wrote", '$a: Author { name: "ann" }  $a wrote')
    known = optimize(
        Question(library().catalog, lookup, {}).plain_ir, facts_of(library().catalog, sizes)
    )
    assert known.ops[0].var == "a", "one author has few documents, however they rank"


def test_few_nodes_are_matched_when_they_yield_enough_rows(monkeypatch):
    matched: list[int] = []
    run = top_k.run_stages

    def watched(stages, rows, ctx):
        matched.append(rows.size)
        return run(stages, rows, ctx)

    monkeypatch.setattr(top_k, "run_stages", watched)
    docs = [{"slug": f"d{at:04}", "title": "x", "vec": [1, at, 0]} for at in range(2_000)]
    cites = pairs(*(f"d{at:04}>d{at // 2:04}" for at in range(1, 2_000)))
    text = f"match {{ $d: Doc  $d cites $e }} return {{ $e }} order {{ {NEAR} }} limit 5"
    found = library(Doc=docs, Wrote=[], Cites=cites).values(text)
    assert found == ["d0000", "d0001", "d0001", "d0002", "d0002"]
    assert matched == [1, 5, 80]
