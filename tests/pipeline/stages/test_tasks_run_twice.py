"""Tasks that run more than once, as retries and speculation make them: one copy is committed."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph
from omnigraph.base.runner import InlineRunner
from omnigraph.pipeline.stages.fragments import Written
from omnigraph.storage.options import Retention, StorageOptions
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.pipeline.conftest import SCHEMA, edge, jsonl, node, rows

PEOPLE = 60
STORAGE = StorageOptions(
    durability="os",
    maintenance="manual",
    max_rows_per_file=20,
    retention=Retention(orphan_age_s=0.0),
)


class Twice:
    """Runs both copies of a task at the same time and counts one of them, first or second."""

    def __init__(self, winner):
        self.runs = {}
        self.lost = []
        self._winner = winner

    def map(self, _, task, specs):
        for spec in specs:
            start = threading.Barrier(2)

            def run(_, spec=spec, start=start):
                start.wait()
                return task(spec)

            with ThreadPoolExecutor(2) as pool:
                copies = list(pool.map(run, range(2)))
            self.runs[task.__name__] = self.runs.get(task.__name__, 0) + 1
            self.lost.append(copies[1 - self._winner])
            yield copies[self._winner]

    @property
    def lost_files(self):
        """Names of the files of fragments that nobody committed."""
        written = [one for one in self.lost if isinstance(one, Written)]
        found = [json.loads(part.metadata) for one in written for part in one.fragments]
        return {file["path"] for part in found for file in part["files"]}


@pytest.fixture
def graph(tmp_path):
    options = omnigraph.GraphOptions(storage=STORAGE)
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=options) as made:
        yield made


def files_of(graph):
    """The names of all files of the graph, without their folders."""
    return {info.name.rpartition("/")[2] for info in graph.store.kernel.objects.list("")}


@pytest.mark.parametrize("winner", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "merge"])
def test_a_task_that_runs_twice_is_committed_once(graph, tmp_path, monkeypatch, mode, winner):
    graph.load(jsonl(node("Person", name="before")))
    if mode == "merge":
        graph.load(jsonl(*(node("Person", name=f"p{at}") for at in range(5))), "append")
    before = len(graph.store.commits("main"))
    files = []
    for number in range(3):
        part = range(number, PEOPLE, 3)
        people = (node("Person", name=f"p{at}", age=7) for at in part)
        links = (edge("Knows", f"p{at}", f"p{at * 7 % PEOPLE}") for at in part)
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_bytes(jsonl(*people, *links))
    twice = Twice(winner)
    with monkeypatch.context() as patched:
        patched.setattr(InlineRunner, "map", lambda *words: twice.map(*words))
        result = graph.load(files, mode=mode, engine="inline")
    assert twice.runs["run_task"] == 3
    assert twice.runs["write_part"] >= 2
    assert (result.nodes_loaded, result.edges_loaded) == ({"Person": PEOPLE}, {"Knows": PEOPLE})
    assert len(graph.store.commits("main")) == before + 1
    assert_one_copy(graph, mode)
    assert all(one.harmless for one in graph.verify())
    assert list(graph.store.kernel.objects.path("__staging").iterdir()) == []
    assert len(twice.lost_files) >= 3
    assert twice.lost_files <= files_of(graph)
    graph.store.cleanup(CleanupPolicy(keep_versions=1))  # what nobody committed goes by its age
    assert twice.lost_files & files_of(graph) == set()
    assert_one_copy(graph, mode)


def assert_one_copy(graph, mode):
    people = graph.store.snapshot().open("node:Person").scan(["id", "age"]).to_pylist()
    expected = [(f"p{at}", 7) for at in range(PEOPLE)]
    if mode != "overwrite":
        expected.append(("before", None))
    assert sorted((row["id"], row["age"]) for row in people) == sorted(expected)
    links = rows(graph, "edge:Knows").values()
    assert graph.snapshot().table("edge:Knows").row_count == PEOPLE
    assert {(row["src"], row["dst"]) for row in links} == {
        (f"p{at}", f"p{at * 7 % PEOPLE}") for at in range(PEOPLE)
    }
