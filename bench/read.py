"""Reads through the public API beside Ladybug, DuckDB and raw Lance: `python -m bench read`.

Same String keys, one query per call with parameters, Python rows on every side; results are
asserted equal before anything is timed.

What each row is bound by, at 100,000 persons and 1,000,000 acquaintances:

- point lookup: about 20 us of interpreter; two system calls ask for a newer commit, one binary
  search finds the row, three slices become Python values.
- hops with a distinct count: one gather of all edges of the frontier and one table of flags per
  step; below a few thousand edges the twenty or so NumPy calls of a step cost more than the edges.
- 2 hops, filter, 3 columns: taking three columns and making Python rows of them.
- friend of a friend: the same two steps; what is left is planning and calling, not the negation.
- group-by: one pass over a million edge targets and a count by code.
- nearest and BM25: see `bench/search.py`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ladybug
import lance

import omnigraph
from bench import _data
from bench._rounds import compare
from omnigraph.base.background import BACKGROUND
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import StorageOptions

LOOKUP = """query q($k: String) {
  match { $p: Person { key: $k } }
  return { $p.name as name, $p.age as age, $p.city as city }
}"""
HOP2 = """query q($k: String) {
  match { $p: Person { key: $k }  $p knows $f  $f knows $g }
  return { count(distinct $g) as n }
}"""
HOP3 = """query q($k: String) {
  match { $p: Person { key: $k }  $p knows $f  $f knows $g  $g knows $h }
  return { count(distinct $h) as n }
}"""
FILTERED = """query q($k: String) {
  match { $p: Person { key: $k }  $p knows $f  $f knows $g  $g.age > 40 }
  return distinct { $g.key as key, $g.name as name, $g.age as age }
}"""
FRIENDS = """query q($k: String) {
  match { $p: Person { key: $k }  $p knows $f  $f knows $g  not { $p knows $g } }
  return { count(distinct $g) as n }
}"""
GROUPS = """query q() {
  match { $p: Person  $p $w:knows $f }
  return { $f.city as city, count($w) as n }
}"""
NEAREST = """query q($v: Vector(128)) {
  match { $d: Doc }
  return { $d.key as key }
  order { nearest($d.vector, $v) }
  limit 10
}"""
BM25 = """query q($t: String) {
  match { $d: Doc }
  return { $d.key as key }
  order { bm25($d.text, $t) }
  limit 10
}"""

SMALL = 40_000
Ask = Callable[[Any], list[Any]]


def main() -> None:
    """Measure at the size given by BENCH_PERSONS (100,000 unless said)."""
    persons = int(os.environ.get("BENCH_PERSONS", "100000"))  # noqa: TID251 - a bench setting
    data = _data.make(persons)
    sys.stdout.write(f"{persons} persons, {data.tables['edge:Knows'].num_rows} acquaintances\n")
    with tempfile.TemporaryDirectory() as place:
        run(data, Path(place))
    # Small answers, where what every query costs by itself decides.
    few = _data.make(SMALL, docs=0)
    sys.stdout.write(f"{SMALL} persons, {few.tables['edge:Knows'].num_rows} acquaintances\n")
    with tempfile.TemporaryDirectory() as place:
        ours, bug = load_ours(few, Path(place)), load_ladybug(few, Path(place))
        compare_hops(ours, bug, few.seeds)
        ours.close()


def run(data: _data.Data, place: Path) -> None:
    """Load every contender and compare query by query."""
    ours = load_ours(data, place)
    bug = load_ladybug(data, place)
    duck = load_duckdb(data)
    docs = lance.write_dataset(data.tables["node:Doc"], str(place / "docs.lance"))
    docs.create_scalar_index("text", "INVERTED", with_position=False)

    compare_hops(ours, bug, data.seeds)
    groups = asker(ours, GROUPS, name=None)
    check("group-by over edges", groups, duck, [None])
    compare("group-by over edges", {"omnigraph": groups, "duckdb": duck}, [None] * 5)

    vectors = [row.as_py() for row in data.tables["node:Doc"]["vector"].slice(0, 20)]
    nearest = asker(ours, NEAREST, name="v")
    compare("exact nearest 10", {"omnigraph": nearest, "lance": lance_nearest(docs)}, vectors)
    texts = [f"{data.words[at]} {data.words[at + 7]}" for at in range(40, 60)]
    ranked = asker(ours, BM25, name="t")
    compare("BM25, best 10", {"omnigraph": ranked, "lance": lance_text(docs)}, texts)
    ours.close()


def compare_hops(ours: omnigraph.Graph, bug: Any, seeds: list[str]) -> None:
    """Compare what starts at one person."""
    pairs: list[tuple[str, str, str]] = [
        (
            "point lookup, 3 columns",
            LOOKUP,
            "MATCH (p:Person {key: $k}) RETURN p.name, p.age, p.city",
        ),
        ("2 hops, distinct count", HOP2, _hops(2) + " RETURN count(DISTINCT n2.key)"),
        ("3 hops, distinct count", HOP3, _hops(3) + " RETURN count(DISTINCT n3.key)"),
        (
            "2 hops, filter, 3 columns",
            FILTERED,
            _hops(2) + " WHERE n2.age > 40 RETURN DISTINCT n2.key, n2.name, n2.age",
        ),
        (
            "friend of a friend, not a friend",
            FRIENDS,
            _hops(2)
            + " WHERE NOT EXISTS { MATCH (n0)-[:Knows]->(n2) } RETURN count(DISTINCT n2.key)",
        ),
    ]
    for title, text, cypher in pairs:
        mine, theirs = asker(ours, text), bug_asker(bug, cypher)
        check(title, mine, theirs, seeds[:5])
        compare(title, {"omnigraph": mine, "ladybug": theirs}, seeds)


def load_ours(data: _data.Data, place: Path) -> omnigraph.Graph:
    """Return our graph with the data in it."""
    storage = StorageOptions(durability="os")
    graph = omnigraph.init(
        str(place / "g.omni"), _data.SCHEMA, options=GraphOptions(storage=storage, cache=None)
    )
    session = graph.store.begin()
    for key, rows in data.tables.items():
        session.append(key, rows)
    session.commit()
    return graph


def asker(graph: omnigraph.Graph, text: str, name: str | None = "k") -> Ask:
    """Return a call that runs one query and delivers Python rows."""

    def ask(value: Any) -> list[Any]:
        params = {} if name is None else {name: value}
        return graph.query(text, params=params).to_tuples()

    return ask


def load_ladybug(data: _data.Data, place: Path) -> Any:
    """Return a Ladybug connection with the persons and their acquaintances."""
    connection = ladybug.Connection(ladybug.Database(str(place / "bug.db")))
    connection.execute(
        "CREATE NODE TABLE Person(key STRING PRIMARY KEY, name STRING, age INT32, city STRING)"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since INT32)")
    person = data.tables["node:Person"].select(["key", "name", "age", "city"])  # noqa: F841 - by name
    knows = data.tables["edge:Knows"].select(["src", "dst", "since"])  # noqa: F841 - by name
    connection.execute("COPY Person FROM person")
    connection.execute("COPY Knows FROM knows")
    return connection


def bug_asker(connection: Any, cypher: str) -> Ask:
    """Return a call of a prepared Cypher query."""
    prepared = connection.prepare(cypher)

    def ask(value: Any) -> list[Any]:
        result = connection.execute(prepared, {"k": value})
        return [tuple(row) for row in result.get_all()]

    return ask


def load_duckdb(data: _data.Data) -> Ask:
    """Return the group-by of DuckDB over the same rows."""
    connection = duckdb.connect()
    person, knows = data.tables["node:Person"], data.tables["edge:Knows"]
    connection.register("person_arrow", person)
    connection.register("knows_arrow", knows)
    connection.execute("CREATE TABLE person AS SELECT * FROM person_arrow")
    connection.execute("CREATE TABLE knows AS SELECT * FROM knows_arrow")

    def ask(_: Any) -> list[Any]:
        found = connection.execute(
            "SELECT f.city, count(*) FROM knows k JOIN person f ON f.id = k.dst "
            "GROUP BY f.city ORDER BY f.city"
        )
        return list(found.fetchall())

    return ask


def lance_nearest(docs: Any) -> Ask:
    """Return Lance's exact search."""

    def ask(vector: Any) -> list[Any]:
        nearest = {"column": "vector", "q": vector, "k": 10, "metric": "cosine"}
        return list(docs.to_table(columns=["key"], nearest=nearest)["key"].to_pylist())

    return ask


def lance_text(docs: Any) -> Ask:
    """Return Lance's full-text search over its index."""

    def ask(text: Any) -> list[Any]:
        found = docs.to_table(columns=["key"], full_text_query=text, limit=10)
        return list(found["key"].to_pylist())

    return ask


def check(title: str, mine: Ask, theirs: Ask, inputs: list[Any]) -> None:
    """Refuse to time two queries that do not mean the same."""
    for one in inputs:
        ours, other = sorted(map(tuple, mine(one))), sorted(map(tuple, theirs(one)))
        if ours != other:
            raise SystemExit(f"{title}: results differ for {one}: {ours[:3]} and {other[:3]}")
    BACKGROUND.wait()  # what is measured is the image, not the way to it


def _hops(count: int) -> str:
    path = "".join(f"-[:Knows]->(n{number}:Person)" for number in range(1, count + 1))
    return f"MATCH (n0:Person {{key: $k}}){path}"


if __name__ == "__main__":
    main()
