"""What a process tells of its calls: metrics if wanted, slow calls without their values."""

import importlib
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
import omnigraph.pipeline.embed.graph
import omnigraph.pipeline.export.write
import omnigraph.pipeline.load.job
from omnigraph.base.budget import Limits
from omnigraph.base.metrics import METRICS
from omnigraph.cli.app import run
from omnigraph.errors import BadRequestError, BudgetExceededError
from omnigraph.graph import GraphOptions
from omnigraph.storage.counters import GAUGES, TOTALS
from tests.support.fast import FAST

ROOT = Path(__file__).parents[2]
SCHEMA = "node P { k: String @key }"
ADD = "query add($k: String) { insert P { k: $k } }"
FIND = "query find($k: String) { match { $p: P { k: $k } } return { $p.k } }"

EVERY = "query every() { match { $p: P } return { $p.k } }"


@pytest.fixture
def metrics():
    METRICS.reset()
    METRICS.activate()
    yield METRICS
    METRICS.activate(active=False)
    METRICS.reset()


def values(metrics):
    """Return every sample by its name and labels."""
    lines = [line for line in metrics.text().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_graph_at_work_is_seen_from_queries_down_to_the_disk(tmp_path, metrics):
    durable = replace(FAST, storage=replace(FAST.storage, durability="full"))
    with omnigraph.init(tmp_path / "g", SCHEMA, options=durable) as graph:
        graph.mutate(ADD, params={"k": "a"})
        graph.load(b'{"type": "P", "data": {"k": "b"}}\n', "append", engine="inline")
        for _ in range(3):
            assert len(graph.query(FIND, params={"k": "a"})) == 1
        with pytest.raises(BudgetExceededError):
            graph.query("query all() { match { $p: P } return { $p.k } }", limits=Limits(rows=1))
        with pytest.raises(BadRequestError):
            graph.query(ADD, params={"k": "a"})
        graph.export(tmp_path / "out.jsonl")
    found = values(metrics)
    assert found['omnigraph_queries_total{kind="query",outcome="ok"}'] == 3
    assert found['omnigraph_queries_total{kind="query",outcome="limit"}'] == 1
    assert found['omnigraph_queries_total{kind="query",outcome="refused"}'] == 1
    assert found['omnigraph_queries_total{kind="mutation",outcome="ok"}'] == 1
    assert found['omnigraph_query_seconds_count{kind="query"}'] == 5
    assert found["omnigraph_query_rows_total"] == 3
    assert found['omnigraph_budget_refusals_total{limit="rows"}'] == 1
    assert found['omnigraph_jobs_total{job="load",outcome="ok"}'] == 1
    assert found['omnigraph_job_rows_total{job="load"}'] == 1
    assert found['omnigraph_job_rows_total{job="export"}'] == 2
    assert found["omnigraph_storage_fsyncs_total"] > 0
    assert found['omnigraph_plan_cache_total{result="miss"}'] >= 1


def test_a_slow_call_is_told_by_name_and_never_by_value(tmp_path, caplog):
    options = GraphOptions(storage=FAST.storage, slow_query_ms=0)
    with (
        caplog.at_level(logging.WARNING, "omnigraph.slow"),
        omnigraph.init(tmp_path / "g", SCHEMA, options=options) as graph,
    ):
        graph.mutate(ADD, params={"k": "secret"})
        assert len(graph.query(FIND, params={"k": "secret"})) == 1
        with pytest.raises(BadRequestError):
            graph.query(FIND, "find", params={"k": 1})
    told = [record.getMessage() for record in caplog.records if record.name == "omnigraph.slow"]
    assert [re.sub(r"\d+ ms", "N ms", one) for one in told] == [
        "mutation 'add' on 'main' took N ms, 0 rows: ok",
        "query 'find' on 'main' took N ms, 1 rows: ok",
        "query 'find' on 'main' took N ms, 0 rows: refused",
    ]


def test_the_environment_says_what_is_slow_and_refuses_what_is_no_time(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setenv("OMNIGRAPH_SLOW_QUERY_MS", "0")
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as graph:
        graph.mutate(ADD, params={"k": "a"})
    assert "mutation 'add'" in caplog.text
    monkeypatch.setenv("OMNIGRAPH_SLOW_QUERY_MS", "soon")
    with pytest.raises(BadRequestError, match="OMNIGRAPH_SLOW_QUERY_MS cannot be 'soon'"):
        omnigraph.connect(tmp_path / "g")


@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_the_command_notes_what_it_was_asked_to(how, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST).close()
    words = ["read", "g.omni", "-e", "query all() { match { $p: P } return { $p.k } }"]
    monkeypatch.setenv("OMNIGRAPH_SLOW_QUERY_MS", "0")
    if how == "environment":
        monkeypatch.setenv("OMNIGRAPH_LOG", "warning")
    elif how == "file":
        Path("omnigraph.yaml").write_text("logging:\n  level: warning\n")
    log = logging.getLogger("omnigraph")
    before = (log.level, log.propagate, [*log.handlers])
    try:
        assert run(["--log-level", "warning", *words] if how == "flag" else words) == 0
    finally:
        log.level, log.propagate, log.handlers = before
        logging.root.manager._clear_cache()  # levels are kept by every logger below
    assert "WARNING omnigraph.slow: query 'all'" in capsys.readouterr().err
    assert run(["--log-level", "loud", *words]) == 2
    assert "use debug, info, warning, error" in capsys.readouterr().err


def test_every_metric_stands_in_the_manual_and_nothing_else_does():
    for name in ("omnigraph.server.app", "omnigraph.mcp.service"):  # have metrics of their own
        importlib.import_module(name)
    manual = (ROOT / "docs" / "configuration.md").read_text()
    row = re.compile(r"^\| `(omnigraph_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", re.MULTILINE)
    listed = row.findall(manual)
    told = [
        (one.name, one.kind, ", ".join(f"`{label}`" for label in one.labels), one.help)
        for one in METRICS.metrics()
    ]
    assert [(name, kind, labels.strip(), text) for name, kind, labels, text in listed] == told
    for name, kind, _, _ in told:
        assert name.endswith("_total") == (kind == "counter")


def test_everything_that_storage_counts_is_a_metric():
    source = "".join(path.read_text() for path in (ROOT / "src/omnigraph/storage").rglob("*.py"))
    assert {*re.findall(r'counters\.add\(\s*"(\w+)"', source)} <= {*TOTALS}
    assert {*re.findall(r'counters\.(?:set|peak)\(\s*"(\w+)"', source)} <= {*GAUGES}
    dynamic = re.findall(r'counters\.(?:add|set|peak)\(\s*(?!")(\S+)', source)
    assert dynamic == []


def test_reading_at_the_newest_commit_costs_what_reading_the_branch_costs(tmp_path, metrics):
    place = str(tmp_path / "g.omni")
    with (
        omnigraph.init(place, SCHEMA, options=FAST) as writer,
        omnigraph.connect(place, options=FAST) as graph,
    ):
        for number in range(3):
            made = writer.mutate(ADD, params={"k": f"k{number}"}).commit_id
            for _ in range(2):  # the first run reads, and the second is planned for what was read
                assert len(graph.query(EVERY)) == number + 1
            before = values(metrics)
            # Nothing is looked up in the history: it is the very state of the branch.
            assert graph.store.snapshot_at(commit_id=made) is graph.store.snapshot()
            assert len(graph.query(EVERY, at=made)) == number + 1
            assert len(graph.at(made).query(EVERY)) == number + 1
            after = values(metrics)
            ways = {name for name in after if name.startswith("omnigraph_images_total")}
            assert {name: after[name] for name in ways} == {
                name: before.get(name, 0) for name in ways
            }
            missed = 'omnigraph_plan_cache_total{result="miss"}'
            assert after.get(missed) == before.get(missed)
