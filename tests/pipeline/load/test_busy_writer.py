"""A load of several tasks beside somebody who commits to the same tables all the time."""

import threading
import time
from itertools import pairwise

import pytest

import omnigraph
from tests.pipeline.conftest import SCHEMA, edge, jsonl, node, rows
from tests.support.fast import FAST

PEOPLE = 20_000


class Busy:
    """Adds one person and one edge after another, in a connection of its own."""

    def __init__(self, uri):
        self.written = 0
        self.errors = []
        self._uri = uri
        self._stop = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        assert self._begun.wait(60)
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def wait_beyond(self, count):
        """Wait until more than so many were written."""
        deadline = time.monotonic() + 60
        while self.written <= count and not self.errors:
            assert time.monotonic() < deadline, "the busy writer does not get its turn"
            time.sleep(0.005)

    def _run(self):
        try:
            with omnigraph.connect(self._uri, options=FAST) as graph:
                while not self._stop.is_set():
                    name = f"busy{self.written}"
                    graph.mutate(
                        f'query q() {{ insert Person {{ name: "{name}" }} '
                        f'insert Knows {{ from: "{name}", to: "hub" }} }}'
                    )
                    self.written += 1
                    self._begun.set()
        except Exception as error:  # noqa: BLE001 - looked at by the test, which then fails
            self.errors.append(error)
            self._begun.set()


class Watching:
    """Remembers how much the busy writer had written when each stage began.

    It commits only when somebody else has since it began to read.
    """

    def __init__(self, busy):
        self._busy = busy
        self.at = {}
        self.tasks = {}

    def stage(self, name, tasks):
        if name == "commit":
            self._busy.wait_beyond(self.at["read"])
        self.at.setdefault(name, self._busy.written)
        self.tasks[name] = tasks

    def done(self, rows, bad, size=0):
        pass


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as made:
        made.load(jsonl(node("Person", name="hub"), node("Person", name="p0", age=1)))
        yield made


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_load_beside_a_busy_writer_gets_its_turn_and_both_keep_their_rows(graph, tmp_path, mode):
    first = 1 if mode == "append" else 0
    files = []
    for number in range(4):
        path = tmp_path / f"{number}.jsonl"
        part = range(first + number, PEOPLE, 4)
        path.write_bytes(
            jsonl(
                *(node("Person", name=f"p{at}", age=7) for at in part),
                *(edge("Knows", f"p{at}", "hub") for at in part),
            )
        )
        files.append(path)
    before = len(graph.store.commits("main"))
    with Busy(graph.uri) as busy:
        watching = Watching(busy)
        result = graph.load(files, mode=mode, engine="inline", progress=watching)
        written = busy.written
    assert busy.errors == []
    assert watching.tasks["read"] == 4
    assert watching.at["read"] < watching.at["commit"] <= written
    loaded = PEOPLE - first
    assert (result.nodes_loaded, result.edges_loaded) == ({"Person": loaded}, {"Knows": loaded})
    people = rows(graph, "node:Person")
    theirs = {f"busy{at}" for at in range(busy.written)}
    assert set(people) == {"hub", *theirs, *(f"p{at}" for at in range(PEOPLE))}
    assert people["p0"]["age"] == (1 if mode == "append" else 7)
    ends = [(row["src"], row["dst"]) for row in rows(graph, "edge:Knows").values()]
    expected = {*theirs, *(f"p{at}" for at in range(first, PEOPLE))}
    assert len(ends) == len(expected)
    assert set(ends) == {(name, "hub") for name in expected}
    line = graph.store.commits("main")
    for one, following in pairwise(line):
        assert (following.parent, following.sequence) == (one.id, one.sequence + 1)
    new = [one.id for one in line[before:]]
    assert len(new) == busy.written + 1
    assert new.count(result.commit_id) == 1
    assert all(one.harmless for one in graph.verify())
