"""Changes of schema that make values: defaults, backfills, wider types; what inserts leave out."""

from __future__ import annotations

import datetime as dt
import io

import orjson
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.merges import MergeConflictError
from omnigraph.api.schemas import SchemaUnsupportedError
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables.index import list_indexes
from tests.support.fast import FAST

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  big: U32
  rate: F32?
  level: enum(a, b)?
  nick: String?
}
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = {
    "name": ["ada", "bo", "cy"],
    "age": [36, None, 7],
    "big": [1, 2, 2**32 - 1],
    "rate": [0.1, None, -2.5],
    "level": ["a", None, "b"],
    "nick": ["A", "B", None],
}


LAZY = pytest.param("lazy branch", marks=pytest.mark.exhaustive)


@pytest.fixture(params=["main", LAZY, "forked branch", "empty"])
def place(request, tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as graph:
        if request.param == "empty":
            yield graph, "main", []
            return
        fill(graph)
        if request.param == "main":
            yield graph, "main", ["ada", "bo", "cy"]
            return
        graph.branches.create("side")
        if request.param == "forked branch":
            graph.mutate('query q() { insert Person { name: "di", big: 4 } }', branch="side")
            graph.mutate('query q() { delete Person where name = "di" }', branch="side")
        yield graph, "side", ["ada", "bo", "cy"]


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as opened:
        fill(opened)
        yield opened


def fill(graph):
    people = pa.table(PEOPLE).cast(
        pa.schema(
            {
                "name": pa.string(),
                "age": pa.int32(),
                "big": pa.uint32(),
                "rate": pa.float32(),
                "level": pa.string(),
                "nick": pa.string(),
            }
        )
    )
    knows = pa.table({"from": ["ada"], "to": ["bo"], "since": pa.array([3], pa.int32())})
    graph.load({"Person": people, "Knows": knows}, "append")


def stored(graph, branch="main", key="node:Person", at=None):
    rows = graph._state.snapshot(branch, at).open(key).scan().to_pylist()
    return {row.pop("id"): row for row in rows}


def edited(*changes, text=SCHEMA):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def values(rows, name):
    return [rows[key][name] for key in sorted(rows)]


TAGGED = 'rank: I64 @default(7)\n  tag: String? @default("t")'
F32 = [pa.scalar(0.1, pa.float32()).as_py(), None, -2.5]
BIG = [1, 2, 2**32 - 1]
NICKS = ["A", "B", None]


def added(text):
    """Return the change that puts a property in front of the age."""
    return "  age: I32?", f"  {text}\n  age: I32?"


def step(name, change, values, told):
    return pytest.param(*change, name, values, id=told)


NACK = '  nack: String? @rename_from("nick")\n  n: I32 @default(1)\n'
STEPS = [
    step("rank", added("rank: I64 @default(-5)"), [-5] * 3, "default"),
    step("e", added("e: enum(x, y) @default(y)"), ["y"] * 3, "enum"),
    step("d", added('d: Date @default("2024-01-31")'), [dt.date(2024, 1, 31)] * 3, "date"),
    step("alias", added("alias: String? @backfill(nick)"), NICKS, "property"),
    step("key", added("key: String @backfill(name)"), ["ada", "bo", "cy"], "key"),
    step("wide", added("wide: I64 @backfill(big)"), BIG, "wider copy"),
    step("ok", added("ok: Bool? @backfill(true)"), [True] * 3, "literal"),
    step("s", added('s: String? @default("d")'), [None] * 3, "nullable default"),
    step("age", ("age: I32?", "age: I64?"), [36, None, 7], "I32 to I64"),
    step("big", ("big: U32", "big: U64"), BIG, "U32 to U64"),
    step("big", ("big: U32", "big: I64"), BIG, "U32 to I64"),
    step("rate", ("rate: F32?", "rate: F64?"), F32, "F32 to F64"),
    step("nick", ("nick: String?", "nick: [String]?"), [["A"], ["B"], None], "list"),
    step("level", ("level: enum(a, b)?", "level: String?"), ["a", None, "b"], "enum to String"),
    step("wide", ("big: U32", 'wide: U64? @rename_from("big")'), BIG, "renamed, relaxed, wider"),
    step("nack", ("  nick: String?\n", NACK), NICKS, "rename beside a fill"),
    step("big", ("big: U32\n", "big: U32?\n  n: I32 @default(1)\n"), BIG, "relax beside a fill"),
]


@pytest.mark.parametrize(("old", "new", "name", "expected"), STEPS)
def test_values_are_made_and_everything_else_stays(place, old, new, name, expected):
    graph, branch, keys = place
    graph.ensure_indices()
    was, before = graph.snapshot(branch).commit_id, stored(graph, branch)
    text = edited((old, new))
    done = graph.apply_schema(text, branch=branch)
    assert done.applied
    rows = stored(graph, branch)
    assert sorted(rows) == keys
    assert values(rows, name) == expected[: len(keys)]
    for key in keys:
        for column, value in before[key].items():
            if column in rows[key] and column != name:
                assert rows[key][column] == value
    columns = set(graph.branch(branch).catalog.nodes["Person"].properties)
    assert {*graph._state.snapshot(branch).open("node:Person").schema.names} == {"id", *columns}
    assert stored(graph, branch, at=was) == before
    read = f"query q() {{ match {{ $p: Person }} return {{ $p.name, $p.{name} as v }} }}"
    assert [row["v"] for row in graph.query(read, branch=branch).to_dicts()] == expected[
        : len(keys)
    ]
    assert graph.apply_schema(text, branch=branch).applied is False
    missing = (
        "wide: 9" if "wide" in columns and name == "wide" and "big" not in columns else "big: 9"
    )
    extra = ', key: "k"' if name == "key" else ", wide: 9" if new.startswith("  wide") else ""
    graph.mutate(
        f'query q() {{ insert Person {{ name: "zed", {missing}{extra} }} }}', branch=branch
    )
    graph.optimize(branch)
    assert sorted(stored(graph, branch)) == [*keys, "zed"]
    assert not [found for found in graph.verify() if not found.harmless]


def test_a_moment_is_the_same_for_all_rows_and_near(graph):
    before = SYSTEM_CLOCK.now_us()
    graph.apply_schema(edited(("  age: I32?", "  seen: DateTime @default(now())\n  age: I32?")))
    after = SYSTEM_CLOCK.now_us()
    text = "query q() { match { $p: Person } return distinct { $p.seen as s } }"
    (row,) = graph.query(text).to_dicts()
    seen = row["s"] if row["s"].tzinfo else row["s"].replace(tzinfo=dt.UTC)
    assert before // 1_000 <= seen.timestamp() * 1_000 + 0.5 <= after // 1_000 + 1


def test_values_that_break_a_rule_are_listed_and_nothing_is_written(graph):
    before = graph.snapshot()
    ranged = ("  nick: String?\n", "  nick: String?\n  n: I32 @default(1)\n  @range(n, 5..)\n")
    for change, told in (
        (added("alias: String @backfill(nick)"), "null in a required"),
        (added("n: I32 @default(1) @unique"), "is also the value"),
        (ranged, "value 1 < min 5"),
    ):
        with pytest.raises(ConstraintError, match=told):
            graph.apply_schema(edited(change))
        assert graph.snapshot() == before
    both = added("x: I32 @default(1)\n  y: I32 @backfill(x)")
    with pytest.raises(SchemaUnsupportedError, match="is new itself"):
        graph.apply_schema(edited(both))
    with pytest.raises(SchemaUnsupportedError, match="changing property type"):
        graph.apply_schema(edited(("big: U32", "big: I32")))


def test_what_an_insert_leaves_out_gets_its_default(graph):
    text = edited(
        ("  age: I32?", '  rank: I64 @default(7)\n  tag: String? @default("t")\n  age: I32?'),
        ("{ since: I32? }", "{ since: I32? @default(5) }"),
    )
    graph.apply_schema(text)
    graph.mutate('query q() { insert Person { name: "di", big: 1 } }')
    graph.mutate('query q() { insert Person { name: "ed", big: 1, rank: 1, tag: "own" } }')
    given = 'query q($t: String?) { insert Person { name: "fi", big: 1, tag: $t } }'
    graph.mutate(given, params={"t": None})
    graph.mutate('query q() { insert Knows { from: "di", to: "ed" } }')
    rows = stored(graph)
    assert [(rows[key]["rank"], rows[key]["tag"]) for key in ("di", "ed", "fi")] == [
        (7, "t"),
        (1, "own"),
        (7, None),
    ]
    assert sorted(row["since"] for row in stored(graph, key="edge:Knows").values()) == [3, 5]


def test_a_load_fills_what_is_required_and_an_export_loads_back(graph, tmp_path):
    text = edited(added(TAGGED))
    graph.apply_schema(text)
    plain, full = {"name": "di", "big": 1}, {"name": "ed", "big": 1, "rank": 2, "tag": "x"}
    lines = b"".join(orjson.dumps({"type": "Person", "data": one}) + b"\n" for one in (plain, full))
    graph.load(lines, "append")
    graph.load({"Person": pa.table({"name": ["fi"], "big": pa.array([1], pa.uint32())})}, "append")
    rows = stored(graph)
    assert [(rows[key]["rank"], rows[key]["tag"]) for key in ("di", "ed", "fi")] == [
        (7, None),
        (2, "x"),
        (7, None),
    ]
    out = io.BytesIO()
    graph.export(out)
    with omnigraph.init(tmp_path / "again", text, options=FAST) as again:
        again.load(out.getvalue(), "append")
        assert stored(again) == rows


def test_a_default_may_change_or_go_and_rows_stay(graph):
    graph.apply_schema(edited(("  age: I32?", "  rank: I64 @default(7)\n  age: I32?")))
    done = graph.apply_schema(edited(("  age: I32?", "  rank: I64 @default(8)\n  age: I32?")))
    assert [step.kind for step in done.steps] == ["update_default"]
    graph.mutate('query q() { insert Person { name: "di", big: 1 } }')
    assert values(stored(graph), "rank") == [7, 7, 7, 8]
    graph.apply_schema(edited(("  age: I32?", "  rank: I64\n  age: I32?")))
    with pytest.raises(omnigraph.errors.CompileError, match="needs `rank`"):
        graph.mutate('query q() { insert Person { name: "ed", big: 1 } }')


@pytest.mark.parametrize("into", ["main", "dev"])
def test_a_merge_fills_rows_of_the_side_that_knew_nothing_of_it(graph, into):
    graph.branches.create("dev")
    graph.apply_schema(
        edited(("  age: I32?", "  rank: I64 @default(7)\n  age: I64?")), branch="dev"
    )
    graph.mutate('query q() { insert Person { name: "di", big: 1, rank: 2 } }', branch="dev")
    graph.mutate('query q() { update Person set { rank: 3 } where name = "bo" }', branch="dev")
    graph.mutate('query q() { insert Person { name: "ed", big: 1 } }')
    graph.mutate('query q() { update Person set { age: 1 } where name = "cy" }')
    tried = graph.branches.merge("dev" if into == "main" else "main", into=into, preview=True)
    assert tried.conflicts == ()
    graph.branches.merge("dev" if into == "main" else "main", into=into)
    rows = stored(graph, into)
    assert {key: (row["rank"], row["age"]) for key, row in rows.items()} == {
        "ada": (7, 36),
        "bo": (3, None),
        "cy": (7, 1),
        "di": (2, None),
        "ed": (7, None),
    }
    graph.branches.merge(into, into="dev" if into == "main" else "main")
    assert stored(graph, "main") == stored(graph, "dev")
    assert not [found for found in graph.verify() if not found.harmless]


def test_a_difference_across_a_wider_type_is_none(graph):
    before = graph.snapshot().commit_id
    graph.apply_schema(edited(("age: I32?", "age: I64?"), ("nick: String?", "nick: [String]?")))
    assert [one.id for one in graph.diff(before, "main", columns=["age"])] == []
    graph.mutate('query q() { update Person set { age: 1 } where name = "cy" }')
    assert [one.id for one in graph.diff(before, "main", columns=["age"])] == ["cy"]
    assert graph.entity_history("node:Person", "cy").versions
    assert graph.blame("node:Person", "cy").properties


TWICE = (
    (("age: I32?", "age: I64?"), ("rate: F32?", "rate: F64?"), ("enum(a, b)?", "String?")),
    (("age: I64?", "age: [I64]?"), ("rate: F64?", "rate: [F64]?"), ("level: S", "level: [S")),
)


def widened_twice(graph, branch="main"):
    first = edited(*TWICE[0])
    graph.apply_schema(first, branch=branch, allow_data_loss=True)
    second = edited(*TWICE[1], text=first).replace("[String?", "[String]?")
    graph.apply_schema(second, branch=branch)


def test_a_difference_across_types_that_were_widened_twice_is_none(graph):
    before = graph.snapshot().commit_id
    widened_twice(graph)
    for sides in ((before, "main"), ("main", before)):
        assert list(graph.diff(*sides, images="both")) == []
    graph.mutate('query q() { update Person set { age: [1, 2] } where name = "cy" }')
    (cy,) = graph.diff(before, "main", images="both")
    assert (cy.before["age"], cy.after["age"]) == ([7], [1, 2])
    versions = graph.entity_history("node:Person", "cy").versions
    assert [one.op for one in versions][-1] == "insert"
    blamed = {one.name: one.value for one in graph.blame("node:Person", "cy").properties}
    assert (blamed["age"], blamed["level"]) == ([1, 2], ["b"])


def test_a_merge_brings_types_that_were_widened_twice(graph):
    graph.branches.create("dev")
    widened_twice(graph, "dev")
    graph.mutate('query q() { update Person set { age: 12 } where name = "cy" }')
    graph.branches.merge("dev")
    assert values(stored(graph), "age") == [[36], None, [12]]
    assert values(stored(graph), "level") == [["a"], None, ["b"]]


def test_branches_that_widened_a_type_in_different_ways_can_be_compared(graph):
    graph.branches.create("dev")
    graph.apply_schema(edited(("age: I32?", "age: I64?")))
    graph.apply_schema(edited(("age: I32?", "age: [I32]?")), branch="dev")
    assert list(graph.diff("main", "dev")) == []
    graph.mutate('query q() { update Person set { age: 5000000000 } where name = "cy" }')
    for sides in (("main", "dev"), ("dev", "main")):
        assert [one.id for one in graph.diff(*sides, images="both")] == ["cy"]


def test_values_that_no_type_of_both_sides_holds_are_a_conflict(graph):
    graph.branches.create("dev")
    graph.apply_schema(edited(("big: U32", "big: I64")))
    graph.apply_schema(edited(("big: U32", "big: U64")), branch="dev")
    assert list(graph.diff("main", "dev")) == []
    graph.mutate('query q() { insert Person { name: "di", big: -5 } }')
    with pytest.raises(omnigraph.errors.ConflictError, match="do not fit"):
        list(graph.diff("dev", "main"))
    assert [one.id for one in graph.diff("dev", "main", columns=["age"])] == ["di"]


def test_a_fill_that_is_interrupted_leaves_before_or_after(graph, monkeypatch):
    from omnigraph.base import failpoints

    assert isinstance(graph.store, GraphStore)
    text = edited(("  age: I32?", "  rank: I64 @default(7)\n  age: I64?"))
    for gap in ("publish.after_staging", "publish.after_sidecar", "publish.after_tables"):
        before = graph.schema
        failpoints.enable(f"{gap}=raise")
        try:
            graph.apply_schema(text)
        except omnigraph.errors.OmniGraphError:
            assert graph.schema == before
        finally:
            failpoints.disable_all()
        columns = {*graph._state.snapshot("main").open("node:Person").schema.names}
        assert columns == {"id", *graph.catalog.nodes["Person"].properties}
        graph.mutate('query q() { update Person set { nick: "n" } where name = "bo" }')
    graph.apply_schema(text)
    assert values(stored(graph), "rank") == [7] * 3
    assert not [found for found in graph.verify() if not found.harmless]


def test_an_index_of_a_widened_column_is_built_anew(graph):
    text = edited(("age: I32?", "age: I32? @index"), ("nick: String?", "nick: String? @unique"))
    graph.apply_schema(text)
    graph.ensure_indices()
    wider = edited(("age: I32?", "age: I64?"), text=text)
    graph.apply_schema(wider)
    names = [index.columns for index in list_indexes(graph.store.snapshot().handle("node:Person"))]
    assert ("age",) not in names
    assert ("nick",) in names
    found = graph.query("query q() { match { $p: Person  $p.age > 10 } return { $p.name as n } }")
    assert found.to_tuples() == [("ada",)]
    graph.mutate("query q() { update Person set { age: 11 } where age = 36 }")
    assert {one.column: str(one.status) for one in graph.ensure_indices()}["age"] == "built"
    graph.mutate('query q() { insert Person { name: "di", big: 1, age: 12 } }')
    found = graph.query("query q() { match { $p: Person  $p.age > 10 } return { $p.name as n } }")
    assert found.to_tuples() == [("ada",), ("di",)]
    assert not [found for found in graph.verify() if not found.harmless]


MADE = [
    pytest.param("alias: String? @backfill(nick)", None, id="nullable"),
    pytest.param("alias: String @backfill(name)", "null in a required property", id="required"),
    pytest.param("seen: DateTime @default(now())", "null in a required property", id="moment"),
]


@pytest.mark.parametrize(("text", "told"), MADE)
def test_a_merge_makes_no_value_that_the_other_side_has_made_already(graph, text, told):
    graph.branches.create("dev")
    graph.apply_schema(edited(added(text)), branch="dev")
    graph.mutate('query q() { update Person set { nick: "own" } where name = "bo" }')
    before, schema = graph.snapshot(), graph.schema
    tried = graph.branches.merge("dev", preview=True)
    if told is None:
        # Nobody can say what the alias of a row is whose nick was changed here meanwhile.
        assert [(one.row_id, one.columns) for one in tried.conflicts] == [("bo", ("nick", "alias"))]
        graph.branches.merge("dev", columns=True)
        rows = stored(graph)
        assert values(rows, "alias") == ["A", "B", None]
        assert values(rows, "nick") == ["A", "own", None]
        return
    assert {one.row_id for one in tried.conflicts} == {"ada", "bo", "cy"}
    assert all(told in one.message for one in tried.conflicts)
    with pytest.raises(MergeConflictError):
        graph.branches.merge("dev")
    assert (graph.snapshot(), graph.schema) == (before, schema)
    graph.apply_schema(edited(added(text)))
    graph.branches.merge("dev", strategy="ours")
    assert values(stored(graph), "nick") == ["A", "own", None]
    assert not [found for found in graph.verify() if not found.harmless]
