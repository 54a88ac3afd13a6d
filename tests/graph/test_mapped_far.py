"""A graph in an object store, its tables kept on this machine: one look at the head, no data."""

from dataclasses import replace

import pytest

import omnigraph
from omnigraph import GraphOptions
from omnigraph.storage.files import layout
from omnigraph.storage.options import S3Options, StorageOptions
from omnigraph.storage.tables.handle import Tables
from tests.support import shelves
from tests.support.s3 import BUCKET, running_s3
from tests.support.shelves import COUNT, GROUPS, LOOKUP, TWO, settle, small

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        s3 = S3Options(**{**server.options(), "allow_http": True})
        options = GraphOptions(storage=StorageOptions(s3=s3, maintenance="manual"))
        place = f"s3://{BUCKET}/mapped/g.omni"
        shelves.make(place, options)
        yield place, options


def ask(graph):
    one = {"k": "p7"}
    asked = [(COUNT, None), (TWO, one), (LOOKUP, one), (GROUPS, None)]
    return [graph.query(text, params=params).to_dicts() for text, params in asked]


def test_the_first_queries_of_a_process_fetch_no_data(far, tmp_path, monkeypatch):
    small(monkeypatch)
    place, options = far
    options = replace(options, cache=tmp_path / "cache")
    with omnigraph.connect(place, options=options) as graph:
        for _ in range(2):
            expected = ask(graph)
            settle()
    opened, open_ = [], Tables._open
    monkeypatch.setattr(
        Tables, "_open", lambda self, *a, **b: opened.append(a[0]) or open_(self, *a, **b)
    )
    with omnigraph.connect(place, options=options, read_only=True) as graph:
        counters = graph.store.kernel.counters
        assert graph.schema  # what opening a graph takes is behind us
        counted = [counters.get("requests")]
        for _ in range(2):
            assert ask(graph) == expected
            counted.append(counters.get("requests"))
        first, again = counted[1] - counted[0], counted[2] - counted[1]
        # Every query asks whether the head moved; the first of all reads the contract, too.
        assert again == 2 * len(expected)
        assert first <= again + 1
        settle()
    assert set(opened) == {layout.MANIFEST}
