"""Two loads at once: the one that commits later sees what the earlier one committed."""

import pytest

import omnigraph
from tests.pipeline.conftest import jsonl, node
from tests.support.fast import FAST

SCHEMA = "node P {\n  k: String @key\n  v: I64\n}\n"


class At:
    """Does something once, when a load gets to a stage."""

    def __init__(self, stage, action):
        self._stage, self._action = stage, action

    def stage(self, name, tasks):
        if name == self._stage and self._action is not None:
            action, self._action = self._action, None
            action()

    def done(self, rows, bad, size=0):
        pass


def _rows(value, keys):
    return jsonl(*(node("P", k=key, v=value) for key in keys))


@pytest.mark.parametrize("stage", ["read", "check", "write", "commit"])
@pytest.mark.parametrize("before", [[], ["k9"], ["k1"], ["k1", "k2", "k3"]])
def test_a_key_that_two_merges_bring_is_one_row_of_the_later(tmp_path, before, stage):
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as graph:
        if before:
            graph.load(_rows(0, before), "append")

        def other():
            graph.load(_rows(2, ["k1", "k2", "k4"]), "merge")

        graph.load(_rows(1, ["k1", "k2", "k3"]), "merge", progress=At(stage, other))
        stored = graph.store.snapshot().open("node:P").scan(["k", "v"]).to_pylist()
        expected = dict.fromkeys(before, 0) | {"k1": 1, "k2": 1, "k3": 1, "k4": 2}
        assert sorted((row["k"], row["v"]) for row in stored) == sorted(expected.items())
