"""A real cluster on loopback: a master and two workers, on two addresses.

One test has Spark run copies of slow tasks, another one kills a worker during a load: it is the
last, because the worker stays dead.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pyspark
import pytest

import omnigraph
from omnigraph.api.upkeep import IndexStatus
from omnigraph.pipeline.load import commit as commit_module
from omnigraph.pipeline.load import job as load_module
from omnigraph.pipeline.model import SparkSettings
from omnigraph.pipeline.run.spark import OwnSpark
from omnigraph.pipeline.run.spark_jvm import NoJavaError, find_java
from omnigraph.pipeline.stages.fragments import write_part
from omnigraph.pipeline.stages.tasks import run_task
from omnigraph.storage.options import Retention, StorageOptions
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.pipeline.conftest import edge, jsonl, node, rows
from tests.pipeline.run.slow_tasks import AfterFirst, SlowFirst

pytestmark = [
    pytest.mark.slow,
    pytest.mark.own_spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("joins_on_spark"),
]

SCHEMA = """node Person {
  name: String @key
  bio: String? @index
}

edge Knows: Person -> Person
"""
PEOPLE = 4_000
ROOT = Path(__file__).parents[3]


class Cluster:
    """Processes of one cluster; they end with the test."""

    def __init__(self, folder):
        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        self.workers = []
        self._processes = []

    def start(self):
        main = "org.apache.spark.deploy.master.Master"
        # Every process chooses its ports by itself: who asks for a free one may lose it again.
        self._processes.append(
            self._start(main, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        )
        self.master = self._await_word(r"Starting Spark master at (spark://\S+)")
        self._web = f"http://127.0.0.1:{self._await_word(r'MasterWebUI.* at http://.*:([0-9]+)')}"
        for number in range(2):
            self.workers.append(self._worker(number))
        self._await_workers()

    def _worker(self, number):
        main = "org.apache.spark.deploy.worker.Worker"
        place = str(self._folder / f"worker{number}")
        found = self._start(
            main, "--host", f"127.0.0.{1 + number}", "-c", "1", "-m", "1g", "-d", place,
            "--webui-port", "0", self.master,
        )  # fmt: skip
        self._processes.append(found)
        return found

    def _start(self, *words):
        environment = {
            **os.environ,  # noqa: TID251 - the processes inherit everything
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._home / "bin" / "spark-class"), *words],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _await_word(self, pattern):
        """Wait until the processes have told something."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            text = (self._folder / "log").read_text()
            if found := re.search(pattern + "\\n", text):
                return found[1]
            time.sleep(0.1)
        raise AssertionError(text[-2_000:])

    def _await_workers(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{self._web}/json/", timeout=30) as answer,
            ):
                if answer.read().count(b'"ALIVE"') >= 3:
                    return
            time.sleep(0.2)
        raise AssertionError((self._folder / "log").read_text()[-2_000:])

    def await_idle(self):
        """Wait until no executor is left that could still write."""
        deadline = time.monotonic() + 60
        while any(_has_work_left(worker.pid) for worker in self.workers):
            assert time.monotonic() < deadline, "an executor outlives its context"
            time.sleep(0.05)

    def kill_worker(self):
        """End a worker with everything below it, executors and their Python included."""
        for process in _below(self.workers[0].pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def stop(self):
        for process in self._processes:
            for one in _below(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            process.wait()


def _below(pid):
    """A process and all its descendants."""
    found = [pid]
    for one in found:
        for thread in Path(f"/proc/{one}/task").glob("*/children"):  # each has its own
            with contextlib.suppress(OSError):
                found += [int(word) for word in thread.read_text().split()]
    return found


def _has_work_left(pid):
    """Whether a process has living descendants; one that has ended has no words any more."""
    for one in _below(pid)[1:]:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{one}/cmdline").read_bytes():
                return True
    return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:  # a machine may have no JDK; the package that stands in for it starts no executors
        find_java(is_local=False)
    except NoJavaError as missing:
        pytest.skip(str(missing))
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def connected(cluster, **more):
    """A context on the cluster; a process has one at a time."""
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "spark.sql.shuffle.partitions": "4",
        **more,
    }
    own = OwnSpark(SparkSettings(cluster.master, "512m", conf))
    try:
        yield own.context()
    finally:
        own.stop()


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def small_graph(folder):
    """A graph with small files, so that few rows already are several tasks."""
    storage = StorageOptions(
        durability="os",
        maintenance="manual",
        max_rows_per_file=500,
        retention=Retention(orphan_age_s=0.0),
    )
    options = omnigraph.GraphOptions(storage=storage)
    return omnigraph.init(str(folder / "g.omni"), SCHEMA, options=options)


def write_input(folder):
    """Eight files with the same number of people and of links between them."""
    people = [node("Person", name=f"p{at}", bio=f"word{at % 7} text") for at in range(PEOPLE)]
    links = [edge("Knows", f"p{at}", f"p{(at * 7) % PEOPLE}", id=f"k{at}") for at in range(PEOPLE)]
    files = []
    for at in range(8):
        files.append(folder / f"part{at}.jsonl")
        files[-1].write_bytes(jsonl(*people[at::8], *links[at::8]))
    return people, files


def assert_loaded_once(graph, result):
    """Every row is there, and none of them twice."""
    assert result.engine == "spark"
    assert (result.nodes_loaded, result.edges_loaded) == ({"Person": PEOPLE}, {"Knows": PEOPLE})
    for key, letter in (("node:Person", "p"), ("edge:Knows", "k")):
        ids = graph.store.snapshot().open(key).scan(["id"])["id"].to_pylist()
        assert sorted(ids) == sorted(f"{letter}{at}" for at in range(PEOPLE))


def test_copies_of_slow_tasks_change_nothing(cluster, tmp_path, monkeypatch):
    _, files = write_input(tmp_path)
    notes = {"read": tmp_path / "read", "write": tmp_path / "write"}
    for folder in notes.values():
        folder.mkdir()
    monkeypatch.setattr(load_module, "run_task", SlowFirst(run_task, notes["read"]))
    monkeypatch.setattr(commit_module, "write_part", SlowFirst(write_part, notes["write"]))
    with connected(cluster, **SPECULATION) as context, small_graph(tmp_path) as graph:
        before = len(graph.store.commits("main"))
        result = graph.load(files, spark=context)
        assert_loaded_once(graph, result)
        assert len(graph.store.commits("main")) == before + 1
    for folder in notes.values():
        assert {"0.0", "0.1"} <= {one.name for one in folder.iterdir()}
    cluster.await_idle()
    with omnigraph.connect(str(tmp_path / "g.omni"), options=graph._state.options) as graph:
        assert list((tmp_path / "g.omni" / "__staging").iterdir()) == []
        graph.store.cleanup(CleanupPolicy(keep_versions=1))  # what nobody committed goes by age
        assert_loaded_once(graph, result)
        told = [json.loads(one.read_text() or "[]") for one in notes["write"].glob("[0-9]*")]
        written = {name for names in told for name in names}
        assert len(written) > PEOPLE // 500 * 2, "only one attempt of each task wrote files"
        assert written & files_of(graph) == committed_files(graph)
        assert all(one.harmless for one in graph.verify())


def files_of(graph):
    """The names of all files of the graph, without their folders."""
    return {info.name.rpartition("/")[2] for info in graph.store.kernel.objects.list("")}


def committed_files(graph):
    """The names of the data files that the newest commit reads."""
    found = set()
    for key in ("node:Person", "edge:Knows"):
        for part in graph.store.snapshot().handle(key).dataset.get_fragments():
            found |= {Path(file.path).name for file in part.data_files()}
    return found


def test_a_cluster_loads_compacts_and_indexes_and_survives_a_dead_worker(
    cluster, tmp_path, monkeypatch
):
    people, files = write_input(tmp_path)
    notes = tmp_path / "read"
    notes.mkdir()
    with connected(cluster) as context, small_graph(tmp_path) as graph:
        before = len(graph.store.commits("main"))
        killer = KillDuringRead(cluster, tmp_path / "g.omni" / "__staging", notes)
        with monkeypatch.context() as patched:
            patched.setattr(load_module, "run_task", AfterFirst(run_task, notes))
            result = graph.load(files, spark=context, progress=killer)
        assert killer.has_killed, "the load was over before the worker was killed"
        assert_loaded_once(graph, result)
        assert len(graph.store.commits("main")) == before + 1
        expected = {key: rows(graph, key) for key in ("node:Person", "edge:Knows")}
        for part in (people[::50], people[1::50]):  # small fragments to merge
            graph.load(jsonl(*part), "merge")
        done = {one.table_key: one for one in graph.optimize(spark=context)}
        assert done["node:Person"].committed
        reports = graph.ensure_indices(spark=context)
        assert {one.status for one in reports} == {IndexStatus.BUILT}
        assert {key: rows(graph, key) for key in expected} == expected
        found = graph.store.snapshot().open("node:Person").scan(["id"], equals("id", "p17"))
        assert found["id"].to_pylist() == ["p17"]
        assert all(one.harmless for one in graph.verify())
        text = "match { $a: Person $a knows $b $b knows $c $c.name != $a.name }"
        text += " return { $c.bio as bio, count(distinct $a) as n } order { n desc }"
        here = graph.query(text)  # by executors in processes of their own
        assert graph.query(text, engine="spark", spark=context).table == here.table


class KillDuringRead:
    """Kills a worker that runs a task of the first stage, when another one has written."""

    def __init__(self, cluster, staging, notes):
        self._cluster, self._staging, self._notes = cluster, staging, notes
        self.has_killed = False

    def stage(self, name, tasks):
        if name == "read":
            threading.Thread(target=self._kill, daemon=True).start()

    def _kill(self):
        while not (any(self._staging.glob("*/*.arrow")) and self._is_at_work()):
            time.sleep(0.005)
        self._cluster.kill_worker()
        self.has_killed = True
        (self._notes / AfterFirst.GO).touch()

    def _is_at_work(self):
        waiting = {int(one.name) for one in self._notes.iterdir()}
        return not waiting.isdisjoint(_below(self._cluster.workers[0].pid))

    def done(self, rows, bad, size=0):
        pass
