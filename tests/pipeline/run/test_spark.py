"""The same tasks on Spark: same rows, same faults, one process that is gone afterwards."""

import gzip
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.engine.write.violations import ConstraintError
from omnigraph.pipeline.checks.spark_checks import SparkChecks
from omnigraph.pipeline.load import job as load
from omnigraph.pipeline.model import UnreadableError
from omnigraph.pipeline.run.spark import SparkRunner
from omnigraph.pipeline.run.spark_jvm import SparkError
from tests.pipeline.conftest import edge, jsonl, node, rows
from tests.pipeline.stages.test_tasks import LINES, outcome

pytestmark = pytest.mark.xdist_group("spark")


def test_a_spark_of_our_own_leaves_ctrl_c_alone(spark):
    # As Python found it: in the background of a shell it is ignored from the start.
    assert signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN)


@settings(
    max_examples=5,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(files=st.lists(st.lists(LINES, max_size=20), min_size=2, max_size=2))
def test_spark_finds_the_same_rows_ids_and_faults(spark, tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("same")
    paths = [folder / f"{at}.jsonl" for at in range(len(files))]
    for path, lines in zip(paths, files, strict=True):
        path.write_bytes(b"".join(lines))
    inline = outcome(paths, folder, 500)
    assert outcome(paths, folder, 500, SparkRunner(spark)) == inline


def test_a_load_on_spark_gives_the_same_graph(graph, spark, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(jsonl(*(node("Person", name=f"p{at}") for at in range(50))))
    links = [edge("Knows", f"p{at}", f"p{at + 1}", id=f"k{at}") for at in range(49)]
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(jsonl(*links)))
    data = [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]
    inline = graph.load(data, engine="inline")
    found = {key: rows(graph, key) for key in ("node:Person", "edge:Knows")}
    result = graph.load(data, spark=spark)
    assert (inline.engine, result.engine) == ("inline", "spark")
    assert result.tables == inline.tables
    assert {key: rows(graph, key) for key in found} == found


def test_spark_compares_keys_only_where_one_process_could_not_hold_them(graph, spark, monkeypatch):
    made = []

    class Counted(SparkChecks):
        def __init__(self, *args):
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(load, "SparkChecks", Counted)
    monkeypatch.setattr(load, "ROWS_IN_ONE_PROCESS", 3)
    people = [node("Person", name=name) for name in ("ann", "bob")]
    graph.load(jsonl(*people, edge("Knows", "ann", "bob")), spark=spark)
    assert made == [], "three rows, and none is committed"
    with pytest.raises(ConstraintError, match="'ann' exists already"):
        graph.load(jsonl(*people), mode="append", spark=spark)
    assert len(made) == 1, "two rows beside two committed ones"
    with pytest.raises(ConstraintError, match="'zoe' not found in Person"):
        graph.load(jsonl(edge("Knows", "ann", "zoe")), mode="append", spark=spark)
    assert len(made) == 2, "an edge beside one committed edge and two people"


def test_faults_and_broken_files_are_reported_as_inline(graph, spark, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(jsonl(node("Person", name="x", age=-1)) + b"{}\n")
    messages = []
    for engine in ("inline", "spark"):
        with pytest.raises(ConstraintError) as caught:
            graph.load(tmp_path / "a.jsonl", engine=engine, spark=spark)
        messages.append([str(one) for one in caught.value.violations])
    assert messages[0] == messages[1]
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(jsonl(node("Person", name="x")) * 99)[:-9])
    with pytest.raises(UnreadableError):
        graph.load(tmp_path / "b.jsonl.gz", engine="spark", spark=spark)


def _fails(spec):
    raise ValueError(f"no luck with {spec}")


def test_a_task_that_breaks_is_an_error_of_spark(spark):
    with pytest.raises(SparkError, match="the Spark job failed"):
        list(SparkRunner(spark).map(_fails, [1]))


def test_a_spark_of_our_own_is_gone_after_the_load(tmp_path):
    program = """
        import contextlib, os, sys
        import omnigraph
        from pathlib import Path
        folder = Path(sys.argv[1])
        schema = "node P {\\n  name: String @key\\n}\\n"
        with omnigraph.init(str(folder / "g.omni"), schema) as graph:
            data = b'{"type":"P","data":{"name":"x"}}'
            result = graph.load(data, engine="spark")
            assert result.engine == "spark", result
        kids = []
        for thread in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread may end while it is looked at
                kids += thread.read_text().split()
        print("children:", *kids or ["none"])
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "children: none\n"
    assert not any(Path(tmp_path / "g.omni" / "__staging").iterdir())
