"""Odd input at execution: a typed error, or the right answer; never a wrong one."""

import pytest

from omnigraph.compiler.query.params import ParamError
from omnigraph.errors import CompileError, OmniGraphError
from tests.engine.read.fixtures import Fixture, library, social

NEAREST = """query q($v: Vector(3)) {
  match { $d: Doc } return { $d.slug } order { nearest($d.vec, $v) } limit 2
}"""


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        ([1.0, 0.0], "expected 3 values"),
        ([1.0, 0.0, 0.0, 0.0], "expected 3 values"),
        ([1.0, float("nan"), 0.0], "not a finite number"),
        ([1.0, float("inf"), 0.0], "not a finite number"),
        ([1.0, "x", 0.0], "expected number"),
        ("text", "expected"),
        (None, "null"),
    ],
)
def test_a_vector_that_is_none_is_refused_with_the_name_of_its_parameter(vector, problem):
    with pytest.raises(ParamError, match=problem) as caught:
        library().ask(NEAREST, v=vector)
    assert caught.value.param == "v"


def test_a_vector_literal_of_the_wrong_width_does_not_compile():
    with pytest.raises(CompileError, match="T15"):
        library().ask("match { $d: Doc } return { nearest($d.vec, [1.0]) as far }")


def test_a_zero_vector_is_equally_far_from_everything():
    assert library().values(NEAREST, v=[0, 0, 0]) == ["dl", "ml"]


def test_null_parameters_match_nothing_and_rank_nothing():
    text = """query q($v: Vector(3)?, $q: String?, $n: String?, $l: [String]?) {
      match { $d: Doc %s } return { $d.slug } %s }"""
    nothing = dict.fromkeys("vqnl")
    for clause in ("$d.slug = $n", "$d.slug != $n", "$d.slug in $l", "search($d.body, $q)"):
        assert library().values(text % (clause, ""), **nothing) == []
    for order in ("nearest($d.vec, $v)", "bm25($d.body, $q)"):
        assert library().values(text % ("", f"order {{ {order} }} limit 3"), **nothing) == []
    fused = "order { rrf(nearest($d.vec, $v), bm25($d.body, $q)) } limit 3"
    assert library().values(text % ("", fused), **nothing) == []
    assert len(library().values(text % ("$n is null", ""), **nothing)) == 5


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: Person } return { $p.name } limit 0",
        "match { $p: Person } return { $p.name } order { $p.age desc } limit 0",
        "match { $p: Person } return distinct { $p.age } limit 0",
        "match { $p: Person } return { $p.age, count(*) as n } limit 0",
    ],
)
def test_limit_zero_is_an_empty_result(body):
    assert social().ask(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: Person } return { $p.name, $p.age }",
        "match { $p knows $f } return { $p.name }",
        "match { $p knows{1,4} $f } return { $p.name } order { $f.age }",
        "match { $p $k:<knows> $f } return { $k, $p.name }",
        "match { $p: Person  not { $p worksAt $_ } } return { $p.name }",
        "match { $p: Person  $c: Company } return distinct { $c.name, $p.age }",
        "match { $p: Person } return { $p.age, count(*) as n, sum($p.age) as s }",
        'match { $p: Person  search($p.name, "x") } return { $p.name }',
        'match { $p: Person } return { $p.name } order { bm25($p.name, "x") }',
    ],
)
def test_empty_tables_give_empty_results(body):
    assert Fixture.ask(social(Person=[], Company=[], Knows=[], WorksAt=[]), body) == []


def test_vectors_of_an_empty_table_are_ranked_to_nothing():
    assert library(Doc=[], Wrote=[], Cites=[]).values(NEAREST, v=[1, 0, 0]) == []


def test_a_list_parameter_may_be_very_long():
    text = "query q($l: [String]) { match { $p: Person  $p.name in $l } return { $p.name } }"
    many = [f"x{at}" for at in range(100_000)]
    assert social().values(text, l=[*many, "Bob"]) == ["Bob"]
    quoted = ", ".join(f'"{one}"' for one in [*many[:2_000], "Bob"])
    literal = f"match {{ $p: Person  [{quoted}] contains $p.name }} return {{ $p.name }}"
    assert social().values(literal) == ["Bob"]


def test_counts_of_search_functions_are_checked():
    fuzzy = 'query q($e: I32?) { match { $d: Doc  fuzzy($d.title, "x", $e) } return { $d } }'
    fused = """query q($e: I32?) { match { $d: Doc } return { $d }
      order { rrf(bm25($d.title, "x"), bm25($d.body, "x"), $e) } limit 1 }"""
    for text in (fuzzy, fused):
        for value in (None, -1):
            with pytest.raises(OmniGraphError, match=r"'e'|max_edits|rrf"):
                library().ask(text, e=value)


def test_a_parameter_of_the_wrong_type_is_refused_before_anything_runs():
    text = "query q($n: I32) { match { $p: Person  $p.age > $n } return { $p.name } }"
    for value in ("x", 1.5, True, 2**40, [1]):
        with pytest.raises(ParamError):
            social().ask(text, n=value)


def test_numbers_that_are_none_compare_like_doubles_and_sort_before_numbers():
    graph = Fixture(
        "node N { k: String @key  x: F64? }",
        N=[
            {"k": "nan", "x": float("nan")},
            {"k": "null", "x": None},
            {"k": "low", "x": float("-inf")},
            {"k": "one", "x": 1.0},
        ],
    )
    assert graph.values("match { $n: N  $n.x != 1.0 } return { $n.k }") == ["low", "nan"]
    assert graph.values("match { $n: N  $n.x <= 1.0 } return { $n.k }") == ["low", "one"]
    ordered = graph.values("match { $n: N } return { $n.k } order { $n.x }")
    assert ordered == ["null", "nan", "low", "one"]
