"""Plans made ready: what is dropped, what is merged, and that neither shows in an answer."""

from __future__ import annotations

import pytest

from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir.ops import ReadIr
from omnigraph.engine.read.point import point_of
from omnigraph.engine.read.prepare import Prepared, prepare
from tests.engine.read.fixtures import pairs, people, social

GRAPH = social(
    Person=people(a=1, b=2, c=3, d=4),
    Knows=pairs("a>b", "a>c", "b>d", "c>d", "d>a", "a>d"),
    WorksAt=[],
)


def plan(body: str) -> Prepared:
    ir = compile_query(GRAPH.catalog, f"query q($k: String) {{ {body} }}").ir
    assert isinstance(ir, ReadIr)
    return prepare(ir)


def kept(found: Prepared) -> list[set[str]]:
    return [set(stage.keep) for stage in found.stages]


def test_variables_nobody_needs_any_more_are_dropped() -> None:
    found = plan("match { $a: Person  $a knows $b  $b knows $c } return { count($c) as n }")
    assert kept(found) == [{"a"}, {"b"}, {"c"}]
    assert not found.is_set


def test_rows_that_are_returned_one_by_one_keep_everything_that_orders_them() -> None:
    found = plan("match { $a: Person  $a knows $b } return { $b.name as n }")
    assert kept(found) == [{"a"}, {"a", "b"}]


@pytest.mark.parametrize(
    ("returned", "merges"),
    [
        ("return distinct { $b.age as n }", True),
        ("return { count(distinct $b) as n }", True),
        ("return { max($b.age) as n }", True),
        ("return { $a.name as a, min($b.age) as n }", True),
        ("return { sum($b.age) as n }", False),
        ("return { count(*) as n }", False),
        ("return { count(distinct $b) as n, count($b) as m }", False),
        ("return { max($b.age) as n } order { count($b) }", False),
    ],
)
def test_equal_rows_are_merged_only_where_that_cannot_be_seen(returned: str, merges: bool) -> None:
    assert plan(f"match {{ $a: Person  $a knows $b }} {returned}").is_set == merges


def test_a_step_between_two_bound_nodes_only_asks_whether_it_exists() -> None:
    found = plan(
        "match { $a: Person { name: $k }  $a knows $b  $b knows $c  not { $a knows $c } } "
        "return { count(distinct $c) as n }"
    )
    (inner,) = found.stages[-1].inner
    assert inner.into == "c"
    assert found.stages[-1].uses == {"a", "c"}


def test_paths_to_one_node_count_once_among_distinct_ones_and_each_otherwise() -> None:
    match = 'match { $a: Person { name: "a" }  $a knows $b  $b knows $c }'
    assert GRAPH.ask(f"{match} return {{ count(distinct $c) as n }}") == [{"n": 2}]
    assert GRAPH.ask(f"{match} return {{ count($c) as n }}") == [{"n": 3}]
    assert GRAPH.ask(f"{match} return {{ $c.name as n }}") == [{"n": "d"}, {"n": "d"}, {"n": "a"}]
    assert GRAPH.ask(f"{match} return distinct {{ $c.name as n }}") == [{"n": "a"}, {"n": "d"}]


def test_a_cycle_closes_over_an_existing_step() -> None:
    triangle = "match { $a: Person  $a knows $b  $b knows $c  $a knows $c }"
    assert GRAPH.ask(f"{triangle} return {{ $a.name as a, $b.name as b, $c.name as c }}") == [
        {"a": "a", "b": "b", "c": "d"},
        {"a": "a", "b": "c", "c": "d"},
    ]
    assert GRAPH.ask(f"{triangle} return {{ count(distinct $a) as n }}") == [{"n": 1}]


def test_a_step_nobody_looks_at_still_decides_who_is_in() -> None:
    assert GRAPH.ask("match { $a: Person  $a knows $x } return distinct { $a.name as n }") == [
        {"n": name} for name in "abcd"
    ]
    assert GRAPH.ask(
        "match { $a: Person  not { $x knows $a  $x.age > 1 } } return { $a.name as n }"
    ) == [{"n": "b"}, {"n": "c"}]


def test_a_product_with_a_dropped_side_keeps_its_multiplicity() -> None:
    assert GRAPH.ask("match { $a: Person  $b: Person } return { count($b) as n }") == [{"n": 16}]
    assert GRAPH.ask("match { $a: Person  $b: Person } return { count(distinct $b) as n }") == [
        {"n": 4}
    ]


@pytest.mark.parametrize(
    ("body", "is_point"),
    [
        ("match { $p: Person { name: $k } } return { $p.age as a, $p.name as n }", True),
        ("match { $p: Person { name: $k } } return { $p.age as a } limit 1", True),
        ("match { $p: Person { name: $k }  $p.age > 3 } return { $p.age as a }", False),
        ("match { $p: Person { name: $k } } return distinct { $p.age as a }", False),
        ("match { $p: Person { name: $k } } return { count($p) as n }", False),
        ("match { $p: Person { age: 3 } } return { $p.name as n }", False),
        ("match { $p: Person { name: $k }  $p knows $q } return { $p.name as n }", False),
    ],
)
def test_a_lookup_is_known_as_one(body: str, is_point: bool) -> None:
    assert (point_of(plan(body).ir) is not None) == is_point


@pytest.mark.parametrize("tail", ["", "limit 1", "limit 0", "offset 1", "order { $p.age }"])
def test_a_lookup_answers_like_any_other_query(tail: str) -> None:
    text = f"match {{ $p: Person {{ name: $k }} }} return {{ $p.age as a }} {tail}"
    looked_up = GRAPH.ask(f"query q($k: String) {{ {text} }}", k="c")
    assert looked_up == ([] if tail in ("limit 0", "offset 1") else [{"a": 3}])
    assert GRAPH.ask(f"query q($k: String) {{ {text} }}", k="nobody") == []
