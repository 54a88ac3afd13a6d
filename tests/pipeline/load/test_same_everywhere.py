"""One meaning, three ways to check it: the shared validator, Arrow here, Spark's joins."""

import contextlib
import itertools
import re
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph import GraphOptions
from omnigraph.api.words import Mode
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.model import EdgeType
from omnigraph.engine.write.change_set import ChangeSet
from omnigraph.engine.write.validate import find_violations
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.pipeline.checks.together import change_of
from tests.pipeline.conftest import edge, jsonl, node
from tests.support.fast import FAST

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("joins_on_spark")]

SCHEMA = """node P {
  name: String @key
  mail: String? @unique
  a: I64?
  b: F64?
  c: DateTime?
  @unique(a, b, c)
}

node N {
  text: String
}

edge K: P -> P {
  w: I32?
  @unique(src, dst)
}

edge B: P -> N @card(1..2)

edge L: N -> P @card(2..)
"""
NAMES = st.sampled_from(["p0", "p1", "p2", "p3"])
IDS = st.sampled_from(["n0", "n1", "n2"])
EDGE_IDS = st.none() | st.sampled_from(["e0", "e1", "e2"])
MAILS = st.none() | st.sampled_from(["m0", "m1", 'm"\\'])
SMALL = st.none() | st.sampled_from([0, 1])
FLOATS = st.none() | st.sampled_from([0.0, -0.0, 0.5])
MOMENTS = st.none() | st.sampled_from(["1969-12-31T23:59:59.999Z", "2020-01-01T00:00:00Z"])


def _with_id(record, row_id):
    if row_id is not None:
        record["data"]["id"] = row_id
    return record


RECORDS = st.one_of(
    st.builds(
        lambda name, mail, a, b, c: node("P", name=name, mail=mail, a=a, b=b, c=c),
        NAMES,
        MAILS,
        SMALL,
        FLOATS,
        MOMENTS,
    ),
    st.builds(lambda row_id: node("N", id=row_id, text="x"), IDS),
    st.builds(lambda a, b, row_id: _with_id(edge("K", a, b), row_id), NAMES, NAMES, EDGE_IDS),
    st.builds(lambda a, b, row_id: _with_id(edge("B", a, b), row_id), NAMES, IDS, EDGE_IDS),
    st.builds(lambda a, b, row_id: _with_id(edge("L", a, b), row_id), IDS, NAMES, EDGE_IDS),
)
DATA = st.lists(RECORDS, max_size=12)
TABLES = ("node:P", "node:N", "edge:K", "edge:B", "edge:L")
BROKEN = st.sampled_from([node("P"), node("Robot"), node("N", id="n0"), edge("K", "p0", None)])
MADE_UP = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
_branches = itertools.count()


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph with tiny fragments, so that few rows already are many."""
    place = str(tmp_path_factory.mktemp("same") / "g.omni")
    options = GraphOptions(storage=replace(FAST.storage, max_rows_per_file=3))
    with omnigraph.init(place, SCHEMA, options=options) as made:
        yield made


def stored(graph, branch):
    """All rows of all tables, without ids that were made up."""
    found = {}
    for key in TABLES:
        rows = graph.store.snapshot(branch).open(key).scan().to_pylist()
        for row in rows:
            row["id"] = MADE_UP.sub("made up", row["id"])
        found[key] = sorted(rows, key=repr)
    return found


def outcome(graph, base, data, mode, on_error, branch=None, **how):
    """What a load did or was refused for, on a branch of its own."""
    branch = branch or f"b{next(_branches)}"
    graph.branches.create(branch, source=base)
    try:
        done = graph.load(data, mode, branch=branch, on_error=on_error, **how)
    except ConstraintError as error:
        answer = ("refused", [_told(one) for one in error.violations], error.total)
    else:
        told = [_told(one) for one in done.skipped_rows]
        answer = ("loaded", done.tables, done.skipped, told, stored(graph, branch))
    graph.branches.delete(branch)
    return answer


def _told(one):
    message = MADE_UP.sub("made up", one.message)
    return (one.place, one.rule, one.type_name, one.prop, one.value, message)


def given_ids_only(records):
    return [one for one in records if "name" in one["data"] or "id" in one["data"]]


def prepared(graph, before):
    """A branch with the sound part of some rows."""
    base = f"base{next(_branches)}"
    graph.branches.create(base)
    graph.load(jsonl(*before), "merge", branch=base, on_error="skip", engine="inline")
    return base


MODES = st.sampled_from(["overwrite", "append", "merge"])


def test_repeated_datetimes_are_told_with_their_time_everywhere(graph, spark):
    moment = "2020-01-01T10:30:00.250Z"
    rows = [node("P", name=name, a=1, b=0.5, c=moment) for name in ("x", "y")]
    inline = outcome(graph, "main", jsonl(*rows), "append", "fail", engine="inline")
    assert moment in inline[1][0][-1]
    assert outcome(graph, "main", jsonl(*rows), "append", "fail", spark=spark) == inline


def test_edges_that_lose_their_ends_to_a_load_without_sound_edges_refuse_it(graph, spark):
    base = prepared(graph, [node("P", name="p0"), node("P", name="p1"), edge("K", "p1", "p0")])
    data = jsonl(node("P", name="p0"), edge("K", "p0", "nobody"))  # replaces p1 away
    inline = outcome(graph, base, data, "overwrite", "skip", engine="inline")
    assert (inline[0], inline[2]) == ("refused", 2)
    assert [told[0] for told in inline[1]] == ["<bytes>:2", None]
    assert "replaced away" in inline[1][1][-1]
    assert outcome(graph, base, data, "overwrite", "skip", spark=spark) == inline


def test_rows_under_ids_that_exist_are_not_compared_with_those_they_cannot_replace(graph, spark):
    base = prepared(
        graph,
        [
            *(node("P", name=name, mail=f"m{name}") for name in ("p0", "p1")),
            node("N", id="n0", text="x"),
            *(edge("B", "p0", "n0", id=f"e{at}") for at in range(2)),
        ],
    )
    data = jsonl(
        node("P", name="p0", mail="mp0"),
        node("P", name="p2", mail="mp0"),
        edge("B", "p0", "n0", id="e0"),
        edge("B", "p1", "n0", id="e1"),
    )
    inline = outcome(graph, base, data, "append", "fail", engine="inline")
    assert inline[0] == "refused"
    assert outcome(graph, base, data, "append", "fail", spark=spark) == inline


@settings(max_examples=4)
@given(
    before=DATA, records=DATA, broken=st.lists(BROKEN, max_size=1), mode=MODES, skip=st.booleans()
)
def test_spark_and_inline_do_and_refuse_the_same(graph, spark, before, records, broken, mode, skip):
    base = prepared(graph, before)
    data = jsonl(*records, *broken)
    on_error = "skip" if skip else "fail"
    inline = outcome(graph, base, data, mode, on_error, engine="inline")
    assert outcome(graph, base, data, mode, on_error, spark=spark) == inline


@pytest.mark.exhaustive
@settings(max_examples=150)
@given(
    before=DATA, records=DATA, broken=st.lists(BROKEN, max_size=1), mode=MODES, skip=st.booleans()
)
def test_spark_and_inline_agree_on_many_more(graph, spark, before, records, broken, mode, skip):
    base = prepared(graph, before)
    data = jsonl(*records, *broken)
    on_error = "skip" if skip else "fail"
    inline = outcome(graph, base, data, mode, on_error, engine="inline")
    assert outcome(graph, base, data, mode, on_error, spark=spark) == inline


@settings(max_examples=60)
@given(before=DATA, records=DATA, mode=MODES)
def test_a_load_breaks_the_rules_the_shared_validator_knows(graph, before, records, mode):
    base = prepared(graph, before)
    records = list({_identity(one): one for one in given_ids_only(records)}.values())
    expected = sorted(
        (one.rule, one.message)
        for one in find_violations(
            _changes(graph, records, mode), graph.store.snapshot(base), graph.catalog
        )
    )
    answer = outcome(graph, base, jsonl(*records), mode, "fail", engine="inline")
    found = sorted((one[1], one[-1]) for one in answer[1]) if answer[0] == "refused" else []
    assert found == expected


class Meanwhile:
    """Does something when a load that has been checked is about to commit."""

    def __init__(self, act):
        self._act = act

    def stage(self, name, tasks):
        if name == "commit":
            act, self._act = self._act, lambda: None
            act()

    def done(self, rows, bad, size=0):
        pass


DELETIONS = st.lists(NAMES, max_size=2)


@settings(max_examples=60, phases=[Phase.generate])
@given(
    before=DATA,
    records=st.lists(RECORDS, min_size=1, max_size=12),
    beside=DATA,
    deleted=DELETIONS,
    mode=st.sampled_from(["append", "merge"]),
)
def test_a_load_beside_a_writer_is_a_load_after_it(graph, before, records, beside, deleted, mode):
    base = prepared(graph, before)

    def write(branch):
        graph.load(jsonl(*beside), "merge", branch=branch, on_error="skip", engine="inline")
        for name in deleted:
            with contextlib.suppress(ConstraintError):
                graph.mutate(DELETE, params={"n": name}, branch=branch)

    after = f"after{next(_branches)}"
    graph.branches.create(after, source=base)
    write(after)
    expected = outcome(graph, after, jsonl(*records), mode, "fail", engine="inline")
    current = outcome(graph, base, jsonl(*records), mode, "fail", engine="inline")
    branch = f"b{next(_branches) + 1}"
    beside_it = Meanwhile(lambda: write(branch))
    found = outcome(
        graph,
        base,
        jsonl(*records),
        mode,
        "fail",
        engine="inline",
        progress=beside_it,
        branch=branch,
    )
    # What was refused before anybody else wrote stays refused for what it was refused for.
    assert found == (expected if current[0] == "loaded" else current)


DELETE = "query q($n: String) { delete P where name = $n }"


def _identity(record):
    kind = record.get("type") or record["edge"]
    return kind, record["data"].get("name") or record["data"]["id"]


def _changes(graph, records, mode):
    """The same rows as a change set, made by hand."""
    tables = {}
    for record in records:
        word = "node" if "type" in record else "edge"
        tables.setdefault(f"{word}:{record.get('type') or record['edge']}", []).append(record)
    found = {}
    for key, listed in sorted(tables.items()):
        kind = graph.catalog.type_named(key)
        rows = [
            {
                **dict.fromkeys(kind.properties),
                **one["data"],
                "id": one["data"].get("name") or one["data"]["id"],
                **({"src": one["from"], "dst": one["to"]} if isinstance(kind, EdgeType) else {}),
            }
            for one in listed
        ]
        schema = pa.schema([pa.field(f.name, f.type) for f in arrow_schema(kind)])
        moments = {
            None: None,
            "1969-12-31T23:59:59.999Z": -1,
            "2020-01-01T00:00:00Z": 1577836800000,
        }
        for row in rows:
            if "c" in row:
                row["c"] = moments[row["c"]]
        columns = [
            pa.array([row[f.name] for row in rows], pa.int64()).view(pa.date64())
            if pa.types.is_date64(f.type)
            else pa.array([row[f.name] for row in rows], f.type)
            for f in schema
        ]
        found[key] = change_of(pa.Table.from_arrays(columns, schema=schema), Mode(mode), False)
    return ChangeSet(found)
