"""Parts of a match that only share values are joined on them, not multiplied."""

import math

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Limits
from omnigraph.base.budget import Budget
from omnigraph.errors import BudgetExceededError
from tests.engine.read.fixtures import Fixture, pairs, people, social
from tests.support.fast import FAST


def test_equal_values_meet_and_null_meets_nothing():
    graph = social(Person=people(a=1, b=2, c=None, d=1, e=None), Knows=[], WorksAt=[])
    text = "match { $a: Person  $b: Person  $a.age = $b.age } return { $a.name, $b.name }"
    assert graph.values(text) == [("a", "a"), ("a", "d"), ("b", "b"), ("d", "a"), ("d", "d")]


def test_several_equalities_must_all_hold():
    graph = social(Person=people(a=1, b=2, c=1), Company=[{"name": "a"}], Knows=[], WorksAt=[])
    text = (
        "match { $a: Person  $b: Person  $c: Company  $a.age = $b.age  $b.name = $c.name  "
        "$a.name != $b.name } return { $a.name, $b.name, $c.name }"
    )
    assert graph.values(text) == [("c", "a", "a")]


SCHEMA = """
node L { k: String @key  i: I32?  j: I64?  u: U64?  f: F64?  g: F32?  b: Bool?  d: Date? }
node R { k: String @key  i: I32?  j: I64?  u: U64?  f: F64?  g: F32?  b: Bool?  d: Date? }
"""


@pytest.mark.parametrize(
    ("left", "right", "a", "b", "found"),
    [
        ("i", "j", [1, 2, None], [2, 3, None], [(1, 0)]),
        ("f", "f", [0.0, math.nan, 1.5], [-0.0, math.nan, 1.5], [(0, 0), (2, 2)]),
        ("f", "g", [0.5, 0.1], [0.5, 0.1], [(0, 0)]),  # 0.1 is another number when narrow
        ("u", "u", [2**64 - 1, 1], [2**64 - 1, 2], [(0, 0)]),
        ("u", "i", [2**64 - 1, 1], [-1, 1], [(1, 1)]),
        ("j", "f", [2**53 + 1, 7], [2.0**53, 7.0], [(1, 1)]),
        ("b", "b", [True, False, None], [False, None], [(1, 0)]),
        ("d", "d", [3, 4], [4, 5], [(1, 0)]),
    ],
)
def test_numbers_meet_as_the_numbers_they_are(left, right, a, b, found):
    graph = Fixture(
        SCHEMA,
        L=[{"k": str(at), left: one} for at, one in enumerate(a)],
        R=[{"k": str(at), right: one} for at, one in enumerate(b)],
    )
    text = f"match {{ $l: L  $r: R  $l.{left} = $r.{right} }} return {{ $l.k, $r.k }}"
    assert graph.values(text) == [(str(one), str(two)) for one, two in found]


def test_whole_walks_are_joined_and_negations_too():
    graph = social(Knows=pairs("Alice>Bob", "Bob>Diana"), Person=people(Alice=1, Bob=2, Diana=2))
    both = (
        "match { $a: Person  $a knows $b  $c: Person  $c knows $d  $b.age = $d.age  "
        "$a.name != $c.name } return { $a.name, $b.name, $c.name, $d.name }"
    )
    assert graph.values(both) == [
        ("Alice", "Bob", "Bob", "Diana"),
        ("Bob", "Diana", "Alice", "Bob"),
    ]
    alone = (
        "match { $a: Person  not { $b: Person  $a.age = $b.age  $a.name != $b.name } } "
        "return { $a.name }"
    )
    assert graph.values(alone) == ["Alice"]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("return distinct { $a.name }", ["a", "b"]),
        ("return distinct { $a.name, $a.age }", [("a", 1), ("b", 1)]),
        ("return { count(distinct $a) as n }", [2]),
        ("return { $a.age, count(distinct $a) as n }", [(1, 2)]),
    ],
)
def test_rows_that_a_join_makes_equal_count_once(answer, found):
    graph = social(Person=people(a=1, b=1, c=2), Knows=pairs("a>a", "a>b", "b>a", "b>b"))
    text = f"match {{ $a: Person  $a knows $x  $b: Person  $x.age = $b.age }} {answer}"
    assert graph.values(text) == found


def test_a_join_that_makes_too_many_rows_is_refused_before_it_makes_them():
    crowd = people(**{f"p{at}": at % 2 for at in range(200)})
    graph = social(Person=crowd, Knows=[], WorksAt=[])
    text = "match { $a: Person  $b: Person  $a.age = $b.age } return { $a.name, $b.name }"
    with pytest.raises(BudgetExceededError, match="Join needs 20000 rows; the row budget is 500"):
        graph.table(text, Budget(Limits(rows=500)))
    with pytest.raises(BudgetExceededError, match=r"Join needs \d+ bytes"):
        graph.table(text, Budget(Limits(bytes=100_000)))


def test_two_large_tables_are_joined_and_explain_says_so(tmp_path):
    count = 30_000
    names = [f"p{at:05}" for at in range(count)]
    ages = pa.array(np.random.default_rng(3).permutation(count), pa.int32())
    schema = "node P { name: String @key  age: I32? }\nnode Q { name: String @key  age: I32? }\n"
    text = (
        "query q() { match { $p: P  $q: Q  $p.age = $q.age  $p.name != $q.name } "
        "return { count(*) as n } }"
    )
    with omnigraph.init(tmp_path / "g.omni", schema, options=FAST) as graph:
        session = graph.store.begin()
        table = {"id": names, "name": names, "age": ages}
        session.append("node:P", pa.table(table))
        session.append("node:Q", pa.table(table))
        session.commit()
        limits = Limits(bytes=64 << 20, rows=count)  # the product would be 900 million rows
        for _ in range(2):
            assert graph.query(text, limits=limits).to_dicts() == [{"n": 0}]
        assert "join on p.age = q.age" in graph.explain(text)
        assert "by hash" in graph.explain(text)
        steps = graph.profile(text).steps
        assert [step.rows for step in steps if step.operator.startswith("join")] == [count]
