"""Whole numbers up to 2^64-1, in literals, parameters, keys and writes."""

import pytest

import omnigraph
from tests.support.fast import FAST

TOP, HALF = 2**64 - 1, 2**63
SCHEMA = "node Case {\n  number: U64 @key\n  weight: U64? @index\n  shift: I64?\n}\n"
ADD = "query add($n: U64, $w: U64?, $s: I64?) { insert Case { number: $n weight: $w shift: $s } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with omnigraph.init(str(tmp_path_factory.mktemp("u64") / "g"), SCHEMA, options=FAST) as made:
        for number, weight, shift in ((1, TOP, 1), (HALF, 5, -1), (TOP, HALF, -5), (7, None, None)):
            made.mutate(ADD, params={"n": number, "w": weight, "s": shift})
        yield made


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        (f"$c.weight = {TOP}", [1]),
        (f"$c.weight >= {HALF}", [1, TOP]),
        (f"$c.weight < {HALF + 1}", [HALF, TOP]),
        (f"$c.weight != {HALF}", [1, HALF]),
        (f"$c.weight in [{TOP}, 5]", [1, HALF]),
        ("$c.weight > -1", [1, HALF, TOP]),
        ("$c.weight > $c.shift", [1, HALF, TOP]),
        (f"$c.shift < {TOP}", [1, HALF, TOP]),
        (f"$c.shift > {TOP}", []),
        (f"$c.number = {TOP}", [TOP]),
        (f"$c.number > {HALF}", [TOP]),
    ],
)
def test_literals_reach_the_last_number(graph, filter_, found):
    text = f"query q() {{ match {{ $c: Case {filter_} }} return {{ $c.number as n }} }}"
    assert sorted(row["n"] for row in graph.query(text)) == found


@pytest.mark.parametrize("number", [1, HALF, TOP])
def test_parameters_reach_the_last_number(graph, number):
    text = (
        "query q($n: U64) { match { $c: Case { number: $n } } return { $c.number as n, $n as p } }"
    )
    for given in (number, str(number)):
        assert graph.query(text, params={"n": given}).to_dicts() == [{"n": number, "p": number}]


def test_extremes_and_order_of_large_numbers(graph):
    text = "query q() { match { $c: Case } return { max($c.weight) as hi, min($c.weight) as lo } }"
    assert graph.query(text).to_dicts() == [{"hi": TOP, "lo": 5}]
    text = "query q() { match { $c: Case } return { $c.weight as w } order { $c.weight desc } }"
    assert [row["w"] for row in graph.query(text)] == [TOP, HALF, 5, None]


def test_large_numbers_are_written_and_found_by_mutations(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as graph:
        graph.mutate(ADD, params={"n": TOP - 1, "w": TOP, "s": 0})
        change = f"query m() {{ update Case set {{ weight: {HALF} }} where weight = {TOP} }}"
        assert graph.mutate(change).affected_nodes == 1
        ask = "query q() { match { $c: Case } return { $c.number as n, $c.weight as w } }"
        assert graph.query(ask).to_dicts() == [{"n": TOP - 1, "w": HALF}]
        gone = f"query m() {{ delete Case where number = {TOP - 1} }}"
        assert graph.mutate(gone).affected_nodes == 1


def test_extremes_of_moments_and_truths(tmp_path):
    schema = "node Day {\n  name: String @key\n  on: Date?\n  at: DateTime?\n  done: Bool?\n}\n"
    rows = (
        ("a", "2026-02-01", "2026-02-01T10:00:00Z", True),
        ("b", "1969-12-31", "1969-12-31T23:59:59.999Z", False),
        ("c", None, None, None),
    )
    with omnigraph.init(str(tmp_path / "g"), schema, options=FAST) as graph:
        for name, on, at, done in rows:
            add = (
                "query add($n: String, $o: Date?, $a: DateTime?, $d: Bool?)"
                " { insert Day { name: $n on: $o at: $a done: $d } }"
            )
            graph.mutate(add, params={"n": name, "o": on, "a": at, "d": done})
        ask = (
            "query q() { match { $d: Day } return { min($d.on) as a, max($d.on) as b,"
            " min($d.at) as c, max($d.at) as d, min($d.done) as e, max($d.done) as f } }"
        )
        (row,) = graph.query(ask).to_dicts()
        assert [str(row[name]) for name in "ab"] == ["1969-12-31", "2026-02-01"]
        assert [row[name].year for name in "cd"] == [1969, 2026]
        assert (row["e"], row["f"]) == (False, True)
        none = ask.replace("$d: Day }", '$d: Day { name: "c" } }')
        assert set(graph.query(none).to_dicts()[0].values()) == {None}
