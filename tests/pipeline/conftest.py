"""A small schema with every kind of property, and a graph of it."""

from __future__ import annotations

import orjson
import pytest

import omnigraph
from omnigraph.pipeline.run.spark import OwnSpark, SparkSettings
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  email: String? @unique
  age: I32?
  level: enum(junior, senior)?
  big: U64?
  score: F32?
  exact: F64?
  active: Bool?
  born: Date?
  seen: DateTime?
  tags: [String]?
  days: [Date]?
  sizes: [I64]?
  photo: Blob?
  place: Vector(3)?

  @range(age, 0..150)
  @check(email, "@")
}

node Note {
  text: String
}

node Slot {
  room: String
  hour: I32
  @key(room, hour)
}

edge Knows: Person -> Person {
  since: Date?
  weight: F64?
}

edge Boss: Person -> Person @card(0..1)

edge Wrote: Person -> Note
"""


def node(kind, **data):
    return {"type": kind, "data": data}


def edge(kind, src, dst, **data):
    return {"edge": kind, "from": src, "to": dst, "data": data}


def jsonl(*records):
    return b"".join(orjson.dumps(one) + b"\n" for one in records)


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as made:
        yield made


@pytest.fixture(scope="session")
def spark():
    """One Spark for all tests of a run; a context, as a caller would bring."""
    own = OwnSpark(SparkSettings(master="local[2]", memory="512m"))
    try:
        yield own.context()
    finally:
        own.stop()


@pytest.fixture(scope="module")
def joins_on_spark():
    """Spark compares the keys of every load on it, however few there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.pipeline.load.job.ROWS_IN_ONE_PROCESS", -1)
        yield


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A graph for tests that load whole tables and do not mind what is in them."""
    place = str(tmp_path_factory.mktemp("shared") / "g.omni")
    with omnigraph.init(place, SCHEMA, options=FAST) as made:
        yield made


def rows(graph, table, branch="main"):
    """All rows of a table by id, as plain values."""
    found = graph.store.snapshot(branch).open(table).scan()
    return {row["id"]: row for row in omnigraph.QueryResult(found).to_dicts()}
