"""A whole graph goes to an object store and back."""

import pytest

import omnigraph
from omnigraph import GraphOptions
from tests.graph.test_copies import SCHEMA, add, fill, rows, same
from tests.support.fast import FAST

pytestmark = pytest.mark.s3


def test_a_graph_goes_to_an_object_store_and_back(tmp_path, root, options):
    chosen = GraphOptions(storage=options)
    with omnigraph.init(tmp_path / "a.omni", SCHEMA, options=FAST) as original:
        fill(original)
        omnigraph.clone(tmp_path / "a.omni", root, options=chosen)
        with omnigraph.connect(root, options=chosen) as copy:
            same(original, copy)
            add(copy, "far", branch="side")
    omnigraph.clone(root, tmp_path / "back.omni", options=chosen)
    with omnigraph.connect(tmp_path / "back.omni", options=FAST) as back:
        assert ("far", 1) in rows(back, branch="side")
        assert back.read_blob("Person", "bo", "photo") == b"\x00\xff" * 9
