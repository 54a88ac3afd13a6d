"""Rewrites change cost only: any query gives the same rows before and after all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.lower import lower
from omnigraph.compiler.ir.optimize import RULES, optimize
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typecheck import typecheck
from omnigraph.compiler.source import Source
from tests.compiler.ir.naive import Graph, rows

CATALOG = load_schema(
    Source(
        """
        node Person { name: String @key  age: I32? }
        node Badge { number: I32 @key  color: String? }
        edge Knows: Person -> Person { since: I32? }
        edge Wears: Person -> Badge
        """
    )
).catalog


def lowered(text: str):
    source = Source(text)
    return lower(typecheck(CATALOG, source, parse_queries(source).queries[0]))


def query(body: str, returned: str = "1 as one") -> str:
    header = "query q($n: I32?, $s: String)"
    return f"{header} {{ match {{ {body} }} return {{ {returned} }} }}"


people, badges = st.sampled_from("abcd"), st.sampled_from("xyz")
person_clauses = st.one_of(
    st.builds("${}: Person".format, people),
    st.builds('${}: Person {{ name: "P{}" }}'.format, people, st.integers(0, 3)),
    st.builds("${}: Person {{ name: $s }}".format, people),
    st.builds("${}: Person {{ age: {} }}".format, people, st.integers(0, 2)),
    st.builds("${}: Badge {{ number: {} }}".format, badges, st.integers(0, 2)),
    st.builds("${}: Badge {{ number: $n }}".format, badges),
    st.builds("${} knows ${}".format, people, people),
    st.builds("${} knows $_".format, people),
    st.builds("${} <knows> ${}".format, people, people),
    st.builds("${} knows{{1,2}} ${}".format, people, people),
    st.builds("${} knows{{2,3}} ${}".format, people, people),
    st.builds("${} wears ${}".format, people, badges),
)
edge_clauses = st.builds("${} $w:knows ${}".format, people, people)


@st.composite
def queries(draw) -> str:
    clauses = draw(st.lists(person_clauses, min_size=1, max_size=4))
    clauses += draw(st.lists(edge_clauses, max_size=1))
    names = sorted({word[1:].rstrip(":") for c in clauses for word in c.split() if word[0] == "$"})
    bound = [name for name in names if name in "abcd"]
    if bound:
        var, other = draw(st.sampled_from(bound)), draw(st.sampled_from(bound))
        clauses += draw(
            st.lists(
                st.sampled_from(
                    [
                        f"${var}.age > 0",
                        f"${var}.age <= ${other}.age",
                        f"${var}.age = ${other}.age",
                        f"$k: Badge $k.number = ${var}.age",
                        f"not {{ $h: Person $h.age = ${var}.age $h != ${var} }}",
                        f"not {{ $h: Person $h wears $i $i.number = ${var}.age }}",
                        f"${var} != ${other}",
                        f"${var}.age is null",
                        f"$s = ${var}.name",
                        f"not {{ ${var} knows $_ }}",
                        f"not {{ $h: Person {{ age: 1 }} ${var} knows $h }}",
                        f"not {{ $h: Person $h knows ${var} $h.age > 0 $i: Badge $h wears $i }}",
                        f"not {{ ${var} wears $i not {{ $i.number = 1 }} }}",
                        f"not {{ ${var}: Person {{ name: $s }} }}",
                        f"not {{ ${var}: Person }}",
                        f"not {{ $h: Person ${var} knows $g $g.id = $h.id $g.age > 0 }}",
                        f"not {{ $h: Person ${var} knows $g $g = $h $h wears $i $g knows $_ }}",
                        f"not {{ $h: Person ${var} $u:knows $h $u.since > 0 }}",
                        f"not {{ $h: Person ${var} knows{{1,2}} $h $h knows ${other} }}",
                    ]
                ),
                max_size=2,
            )
        )
    return query(" ".join(clauses))


@st.composite
def graphs(draw) -> Graph:
    count = draw(st.integers(1, 4))
    ages = draw(st.lists(st.none() | st.integers(0, 2), min_size=count, max_size=count))
    persons = {
        f"P{at}": {"id": f"P{at}", "name": f"P{at}", "age": age} for at, age in enumerate(ages)
    }
    badge_ids = range(draw(st.integers(0, 3)))
    found = {str(at): {"id": str(at), "number": at, "color": None} for at in badge_ids}
    ids = st.sampled_from(sorted(persons))
    knows = draw(st.lists(st.tuples(ids, ids, st.none() | st.integers(0, 2)), max_size=8))
    wears = (
        draw(st.lists(st.tuples(ids, st.sampled_from(sorted(found))), max_size=4)) if found else []
    )
    return Graph(
        {"Person": persons, "Badge": found},
        {
            "Knows": [
                {"id": f"K{at}", "src": src, "dst": dst, "since": since}
                for at, (src, dst, since) in enumerate(knows)
            ],
            "Wears": [{"id": f"W{at}", "src": s, "dst": d} for at, (s, d) in enumerate(wears)],
        },
    )


sizes = st.integers(0, 1000)
statistics = st.none() | st.builds(
    Statistics,
    st.fixed_dictionaries({"Person": sizes, "Badge": sizes}),
    st.fixed_dictionaries({"Knows": sizes, "Wears": sizes}),
)


@given(
    queries(), graphs(), statistics, st.none() | st.integers(0, 2), st.sampled_from(["P0", "P9"])
)
def test_no_rewrite_changes_the_rows(text, graph, sizes, n, s):
    plain = lowered(text)
    params = {"n": n, "s": s}
    expected = rows(plain, graph, params)
    facts = facts_of(CATALOG, sizes)
    rewritten = plain
    for rule in RULES:
        rewritten = rule(rewritten, facts)
        assert rows(rewritten, graph, params) == expected, explain_query(rewritten)


@given(queries(), statistics)
def test_rewriting_is_deterministic(text, sizes):
    facts = facts_of(CATALOG, sizes)
    once = optimize(lowered(text), facts)
    assert optimize(lowered(text), facts) == once


def planned(body: str, sizes: Statistics | None) -> list[str]:
    ir = optimize(lowered(query(body)), facts_of(CATALOG, sizes))
    return [line.strip() for line in explain_query(ir).splitlines()[1:-2]]


FEW_BADGES = Statistics({"Person": 100_000, "Badge": 10}, {"Knows": 1_000_000, "Wears": 50})


def test_without_sizes_the_order_of_the_source_is_kept():
    body = "$a: Person $a wears $x $x: Badge"
    assert planned(body, None) == ["scan a: Person", "expand a -[Wears]-> x: Badge"]
    partly = Statistics({"Person": 10}, {"Wears": 3})
    assert planned(body, partly) == planned(body, None)


def test_a_walk_starts_where_there_is_least():
    assert planned("$a: Person $a wears $x $x: Badge", FEW_BADGES) == [
        "scan x: Badge",
        "expand x <-[Wears]- a: Person",
    ]


def test_a_lookup_is_the_best_start():
    assert planned('$a: Person $a knows $b $b: Person { name: "P1" }', FEW_BADGES) == [
        'scan b: Person where b.id = "P1"',
        "expand b <-[Knows]- a: Person",
    ]


def test_the_thinner_branch_is_walked_first():
    assert planned("$a: Person { name: $s } $a knows $b $a wears $x", FEW_BADGES) == [
        "scan a: Person where a.id = $s",
        "expand a -[Wears]-> x: Badge",
        "expand a -[Knows]-> b: Person",
    ]


def test_a_cycle_is_closed_wherever_the_walk_starts():
    body = '$a: Person $a knows $b $b: Person { name: "P1" } $b knows $a'
    assert planned(body, FEW_BADGES) == [
        'scan b: Person where b.id = "P1"',
        "expand b <-[Knows]- a: Person",
        "expand b -[Knows]-> ~2: Person",
        "filter ~2.id = a.id",
    ]


def test_edge_variables_and_bounds_survive_a_new_start():
    body = "$a: Person $a $w:knows $b $b knows{1,3} $c $c wears $x $w.since > 1 $x: Badge"
    assert planned(body, FEW_BADGES) == [
        "scan x: Badge",
        "expand x <-[Wears]- c: Person",
        "expand c <-[Knows{1,3}]- b: Person",
        "expand b <-[w:Knows where w.since > 1]- a: Person",
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_is_named_after_its_file(rule):
    assert rule.__module__ == f"omnigraph.compiler.ir.rules.{rule.__name__}"
