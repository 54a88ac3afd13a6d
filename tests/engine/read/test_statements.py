"""What reading promises, one statement per test: traversal, negation, null, order, groups."""

import pyarrow as pa
import pytest

from tests.engine.read.fixtures import Fixture, pairs, people, social

ALL = ["Alice", "Bob", "Charlie", "Diana"]


def names(match: str, fixture: Fixture | None = None) -> list[str]:
    return (fixture or social()).values(f"match {{ $p: Person {match} }} return {{ $p.name }}")


def reached(hops: str, *edges: str, start: str = "A") -> list[str]:
    graph = social(Person=people(**dict.fromkeys("ABCDE")), Knows=pairs(*edges), WorksAt=[])
    text = f'match {{ $p: Person {{ name: "{start}" }} $p knows{hops} $f }} return {{ $f.name }}'
    return graph.values(text)


# Traversal


def test_a_person_who_knows_nobody_yields_no_rows():
    assert names('$p.name = "Diana"  $p knows $f') == []


def test_a_graph_without_edges_has_nothing_to_traverse_and_everyone_is_unemployed():
    empty = social(Knows=[], WorksAt=[])
    assert names("$p knows $f", empty) == []
    assert names("not { $p worksAt $_ }", empty) == ALL


def test_a_chain_is_walked_within_the_bounds():
    chain = ("A>B", "B>C", "C>D")
    assert reached("{1,3}", *chain) == ["B", "C", "D"]
    assert reached("{2,3}", *chain) == ["C", "D"]
    assert reached("{2,2}", *chain) == ["C"]


def test_a_node_counts_at_its_shortest_distance_only():
    assert reached("{2,2}", "A>B", "A>C", "B>C") == []


def test_a_cycle_never_returns_its_start():
    assert reached("{1,3}", "A>B", "B>A") == ["B"]


def test_a_self_loop_is_seen_once_at_depth_one():
    assert reached("", "A>A", "A>B") == ["A", "B"]
    assert reached("{1,3}", "A>A", "A>B") == ["A", "B"]
    assert reached("{2,3}", "A>A", "A>B") == []


def test_parallel_edges_are_one_row_without_a_name_and_one_each_with_a_name():
    graph = social(Knows=pairs("Alice>Bob", "Alice>Bob", "Alice>Charlie"))
    assert graph.values("match { $p knows $f } return { $f.name }") == ["Bob", "Charlie"]
    found = graph.values("match { $p $k:knows $f } return { $f.name, $k }")
    assert found == [("Bob", "Knows-0"), ("Bob", "Knows-1"), ("Charlie", "Knows-2")]


def test_either_direction_is_walked_and_a_loop_is_one_edge():
    graph = social(Knows=pairs("Alice>Bob", "Charlie>Alice", "Alice>Alice"))
    text = 'match { $p: Person { name: "Alice" }  $p %s $f } return { $f.name }'
    assert graph.values(text % "<knows>") == ["Alice", "Bob", "Charlie"]
    assert graph.values(text % "$k:<knows>") == ["Alice", "Bob", "Charlie"]


def test_an_edge_is_walked_backwards_from_its_target():
    text = 'match { $c: Company { name: "Acme" }  $c worksAt $p } return { $p.name }'
    assert social().values(text) == ["Alice"]


def test_a_filter_on_the_far_end_constrains_the_near_one():
    assert names('$p worksAt $c  $c: Company { name: "Acme" }') == ["Alice"]
    assert names('$p worksAt $c  $c: Company { name: "Nowhere" }') == []


def test_columns_of_several_variables_stay_on_their_row():
    text = "match { $p: Person  $p knows $f  $p worksAt $c } return { $p.name, $f.name, $c.name }"
    assert social().values(text) == [
        ("Alice", "Bob", "Acme"),
        ("Alice", "Charlie", "Acme"),
        ("Bob", "Diana", "Globex"),
    ]


def test_equal_ids_of_two_types_never_leak_over_a_cross_type_edge():
    graph = social(
        Person=people(Acme=1, Bob=2),
        Knows=[],
        WorksAt=pairs("Bob>Acme", "Acme>Globex"),
    )
    text = 'match { $p: Person { name: "Bob" }  $p worksAt%s $c } return { $c.name }'
    assert graph.values(text % "{1,2}") == ["Acme"]
    assert graph.values(text % "{2,3}") == []


def test_a_cycle_of_clauses_closes_on_the_same_node():
    graph = social(Knows=pairs("Alice>Bob", "Bob>Alice", "Bob>Diana"))
    text = "match { $a knows $b  $b knows $a } return { $a.name, $b.name }"
    assert graph.values(text) == [("Alice", "Bob"), ("Bob", "Alice")]


def test_an_edge_to_a_missing_node_is_no_edge():
    graph = social(Knows=pairs("Alice>Nobody", "Nobody>Bob", "Alice>Bob"))
    assert graph.values("match { $p knows{1,3} $f } return { $p, $f }") == [("Alice", "Bob")]


def test_unconnected_variables_combine_freely():
    text = "match { $p: Person  $c: Company } return { $p.name, $c.name }"
    assert social().values(text) == [(p, c) for p in ALL for c in ("Acme", "Globex")]


def test_nothing_bound_by_name_still_matches():
    assert social().values("match { $_ knows $_ } return { count(*) as n }") == [3]


# Negation


def test_people_without_an_employer():
    assert names("not { $p worksAt $_ }") == ["Charlie", "Diana"]
    assert names('not { $p worksAt $c  $c.name != "" }') == ["Charlie", "Diana"]


def test_people_not_employed_by_one_company():
    wanted = ["Bob", "Charlie", "Diana"]
    assert names('not { $p worksAt $c  $c.name = "Acme" }') == wanted
    assert names('not { $c: Company { name: "Acme" }  $p worksAt $c }') == wanted
    assert names('not { $p worksAt $c  $c: Company { name: "Acme" } }') == wanted


def test_double_negation_correlates_per_row():
    text = 'not { $p worksAt $c  not { $c.name = "Acme" } }'
    assert names(text) == ["Alice", "Charlie", "Diana"]
    two_jobs = social(WorksAt=pairs("Alice>Acme", "Alice>Globex", "Bob>Acme"))
    assert names(text, two_jobs) == ["Bob", "Charlie", "Diana"]


def test_negation_honours_hop_bounds():
    assert names("not { $p knows{2,2} $x }") == ["Bob", "Charlie", "Diana"]


def test_a_negated_traversal_is_walked_from_its_target_too():
    graph = social(WorksAt=pairs("Alice>Acme"))
    text = "match { $c: Company  not { $c worksAt $p } } return { $c.name }"
    assert graph.values(text) == ["Globex"]


def test_two_negations_may_use_one_name_for_different_types():
    assert names("not { $p knows $x }  not { $p worksAt $x }") == ["Charlie", "Diana"]
    assert names("not { $x worksAt $y  $p knows $x }") == ["Bob", "Charlie", "Diana"]


def test_a_negation_that_always_matches_keeps_nothing():
    assert names("not { $p: Person }") == []


def test_friend_of_a_friend_who_is_no_friend():
    text = """match { $a: Person { name: "Alice" }  $a knows $b  $b knows $c
                      not { $a knows $c } } return { $c.name }"""
    assert social().values(text) == ["Diana"]


# Null, numbers, texts


@pytest.fixture
def ages() -> Fixture:
    return social(Person=people(Alice=30, Bob=None, Charlie=35, Diana=None))


def test_a_comparison_with_null_is_never_true(ages):
    assert names("$p.age > 30", ages) == ["Charlie"]
    assert names("$p.age != 30", ages) == ["Charlie"]
    assert names("$p.age = $p.age", ages) == ["Alice", "Charlie"]
    assert names("not { $p.age > 30 }", ages) == ["Alice", "Bob", "Diana"]


def test_null_is_projected_and_tested(ages):
    assert ages.values("match { $p: Person } return { $p.age }") == [30, None, 35, None]
    assert names("$p.age is null", ages) == ["Bob", "Diana"]
    assert names("$p.age is not null", ages) == ["Alice", "Charlie"]


def test_null_comes_first_ascending_and_last_descending_with_ties_by_id(ages):
    text = "match { $p: Person } return { $p.name } order { $p.age %s }"
    assert ages.values(text % "asc") == ["Bob", "Diana", "Alice", "Charlie"]
    assert ages.values(text % "desc") == ["Charlie", "Alice", "Bob", "Diana"]


def test_ties_do_not_depend_on_the_order_of_loading():
    reversed_rows = social(Person=list(reversed(people(**dict.fromkeys(ALL, 1)))))
    text = "match { $p: Person } return { $p.name } order { $p.age }"
    assert reversed_rows.values(text) == ALL


def test_with_an_order_ties_go_by_the_names_of_the_variables():
    text = "match { $b: Person  $a: Person  $a knows $b } return { $a, $b }"
    declared = [("Alice", "Bob"), ("Alice", "Charlie"), ("Bob", "Diana")]
    assert social().values(text) == sorted(declared, key=lambda pair: pair[1])
    graph = social(Person=people(**dict.fromkeys(ALL, 1)))
    assert graph.values(text + " order { $a.age }") == declared


NUMBERS = """node N { k: String @key  count: I32?  ratio: F32?  big: I64?  whole: U64?  wide: F64?
  flag: Bool?  day: Date?  at: DateTime?  camelCase: String? }"""


def numbers(**values: object) -> Fixture:
    return Fixture(NUMBERS, N=[{"k": "x", **values}, {"k": "empty"}])


@pytest.mark.parametrize(
    ("stored", "clause", "matches"),
    [
        ({"count": 2}, "$n.count = 2.7", False),
        ({"count": 2}, "$n.count < 2.7", True),
        ({"count": 2}, "$n.count = 2.0", True),
        ({"count": 2}, "$n.count < 9999999999", True),
        ({"count": -2}, "$n.count > -9999999999", True),
        ({"ratio": 0.25}, "$n.ratio = 0.25", True),
        ({"ratio": 0.1}, "$n.ratio = 0.1", True),
        ({"ratio": 16777216.0}, "$n.ratio = 16777217", False),
        ({"ratio": 16777216.0}, "$n.ratio < 16777217", True),
        ({"ratio": 16777216.0}, "$n.ratio in [16777217, 16777216]", True),
        ({"wide": 9007199254740992.0}, "$n.wide = 9007199254740993", False),
        ({"wide": 9007199254740992.0}, "$n.wide < 9007199254740993", True),
        ({"wide": 9007199254740992.0}, "$n.wide <= 9007199254740993", True),
        ({"wide": 9007199254740992.0}, "$n.wide >= 9007199254740993", False),
        ({"wide": 9007199254740996.0}, "$n.wide > 9007199254740995", True),
        ({"wide": 9007199254740996.0}, "$n.wide <= 9007199254740995", False),
        ({"wide": 9007199254740992.0}, "$n.wide in [9007199254740993]", False),
        ({"big": 2**53 + 1, "wide": 2.0**53}, "$n.big > $n.wide", True),
        ({"whole": 2**64 - 1, "big": -1}, "$n.whole > $n.big", True),
        ({"flag": True}, "$n.flag = true", True),
        ({"flag": False}, "$n.flag < true", True),
        ({"day": 1}, 'date("1970-01-02") = $n.day', True),
        ({"at": 1}, '$n.at > datetime("1970-01-01T00:00:00Z")', True),
        ({"at": 1_699_999_999_999}, "$n.at < now()", True),
        ({"camelCase": "ab"}, '$n.camelCase starts_with "a"', True),
        ({"camelCase": "ab"}, '$n.camelCase contains "B"', False),
        ({"camelCase": "ab"}, '"xaby" contains $n.camelCase', True),
    ],
)
def test_comparisons_are_exact(stored, clause, matches):
    found = numbers(**stored).values(f"match {{ $n: N  {clause} }} return {{ $n.k }}")
    assert found == (["x"] if matches else [])


def test_literals_match_inline_as_they_do_in_clauses():
    graph = numbers(flag=True, day=1, at=0, count=3)
    inline = """match { $n: N { flag: true, day: date("1970-01-02"), count: 3,
                                at: datetime("1970-01-01T00:00:00Z") } } return { $n.k }"""
    assert graph.values(inline) == ["x"]


def test_a_comparison_of_two_variables_sees_their_join():
    text = "match { $a knows $b  $a.age < $b.age } return { $a.name, $b.name }"
    assert social().values(text) == [("Alice", "Charlie"), ("Bob", "Diana")]


# Groups


def test_friends_are_counted_per_person_who_has_some():
    text = "match { $p: Person  $p knows $f } return { $p.name, count($f) as friends }"
    table = social().table(text)
    assert table.column_names == ["p.name", "friends"]
    assert table.to_pylist() == [
        {"p.name": "Alice", "friends": 2},
        {"p.name": "Bob", "friends": 1},
    ]


def test_a_count_of_nothing_is_zero_and_a_group_of_nothing_is_absent():
    nobody = 'match { $p: Person { name: "Zoe" } }'
    assert social().ask(
        nobody + " return { count($p) as n, max($p.age) as m, sum($p.age) as s }"
    ) == [{"n": 0, "m": None, "s": None}]
    assert social().ask(nobody + " return { $p.name, count($p) as n }") == []


def test_aggregates_have_the_types_they_promise():
    text = """match { $p: Person } return { min($p.name) as a, max($p.name) as z, avg($p.age) as m,
              sum($p.age) as s, min($p.age) as lo, count($p.age) as n }"""
    table = social().table(text)
    assert table.to_pylist() == [
        {"a": "Alice", "z": "Diana", "m": 29.5, "s": 118.0, "lo": 25, "n": 4}
    ]
    kinds = [pa.string(), pa.string(), pa.float64(), pa.float64(), pa.int32(), pa.int64()]
    assert table.schema.types == kinds
    nobody = text.replace("$p: Person", '$p: Person { name: "Zoe" }')
    assert social().table(nobody).schema.types == kinds


def test_nulls_form_one_group_and_are_not_counted(ages):
    text = "match { $p: Person } return { $p.age, count($p) as all, count($p.age) as known }"
    assert ages.values(text) == [(None, 2, 0), (30, 1, 1), (35, 1, 1)]


def test_groups_come_by_key_and_are_ordered_by_aggregates():
    text = "match { $p knows $f } return { $p.name, count($f) as n } order { n, $p.name desc }"
    assert social().values(text) == [("Bob", 1), ("Alice", 2)]
    by_hidden = (
        "match { $p knows $f } return { $p.name, count($f) as n } order { min($f.age) desc }"
    )
    assert social().values(by_hidden) == [("Bob", 1), ("Alice", 2)]


def test_a_sum_does_not_depend_on_the_order_of_rows():
    values = [1e16, 1.0, -1e16, 1.0, 0.1, 0.2, 0.3]
    rows = [{"k": f"n{at}", "wide": one} for at, one in enumerate(values)]
    text = "match { $n: N } return { sum($n.wide) as s }"
    sums = {
        Fixture(NUMBERS, N=order).values(text)[0]
        for order in (rows, rows[::-1], rows[3:] + rows[:3])
    }
    assert sums == {2.6}


def test_a_sum_of_large_integers_is_rounded_once():
    rows = [{"k": str(at), "big": one} for at, one in enumerate([2**53, 1, 1, 2**62, -(2**62)])]
    assert Fixture(NUMBERS, N=rows).values("match { $n: N } return { sum($n.big) as s }") == [
        2.0**53 + 2
    ]


def test_distinct_removes_equal_rows_and_orders_by_columns():
    text = "match { $p knows $f } return distinct { $p.name }"
    assert social().values(text) == ["Alice", "Bob"]
    assert social().values(text + " order { $p.name desc }") == ["Bob", "Alice"]


def test_lists_and_vectors_can_be_grouped_and_made_distinct():
    graph = Fixture(
        "node N { k: String @key  tags: [I64]?  v: Vector(2)? }",
        N=[
            {"k": "a", "tags": [10], "v": [1, 2]},
            {"k": "b", "tags": [9], "v": [1, 2]},
            {"k": "c", "tags": [9], "v": None},
            {"k": "d", "tags": None, "v": [0, 9]},
        ],
    )
    grouped = graph.values("match { $n: N } return { $n.tags, count(*) as n }")
    assert grouped == [(None, 1), ([9], 2), ([10], 1)]
    assert graph.values("match { $n: N } return distinct { $n.v }") == [None, [0, 9], [1, 2]]
    assert graph.values("match { $n: N } return { count(distinct $n.v) as n }") == [2]


# Window


def test_offset_and_limit_count_ordered_rows():
    text = "match { $p: Person } return { $p.name }"
    assert social().values(text + " limit 2") == ALL[:2]
    assert social().values(text + " limit 2 offset 3") == ALL[3:]
    assert social().values(text + " offset 9") == []
    assert social().values(text + " limit 0") == []


def test_an_empty_result_has_the_types_of_a_full_one():
    text = "match { $p: Person } return { $p, $p.age, 1 as one, now() as t } limit %d"
    assert social().table(text % 0).schema == social().table(text % 1).schema
