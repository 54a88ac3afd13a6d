"""Where the options of a load come from: the file, the environment, flags and arguments."""

import pytest

import omnigraph
from omnigraph.config.document import ConfigError
from omnigraph.config.environment import Environment
from omnigraph.config.load import load_settings
from omnigraph.graph.configured import pipeline_options
from omnigraph.pipeline.model import PipelineOptions, SparkSettings
from tests.pipeline.conftest import SCHEMA, jsonl, node
from tests.support.fast import FAST

FULL = """\
pipeline:
  engine: inline
  spark_above_mib: 10
  max_errors: 5
  staging: ./tmp
  spark:
    master: local[3]
    memory: 2g
    conf: {spark.executor.cores: 2, spark.speculation: true}
"""


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def found(text, **variables):
        (tmp_path / "omnigraph.yaml").write_text(text)
        return pipeline_options(load_settings(None, Environment(variables)))

    return found


def test_the_file_sets_everything(options, tmp_path):
    conf = {"spark.executor.cores": "2", "spark.speculation": "true"}
    assert options(FULL) == PipelineOptions(
        engine="inline",
        spark_above_bytes=10 << 20,
        max_errors=5,
        staging=tmp_path / "tmp",
        spark=SparkSettings("local[3]", "2g", conf),
        spark_memory="2g",
        spark_conf=conf,
    )
    assert options("") == PipelineOptions()


def test_the_environment_names_the_master(options):
    assert options(FULL, SPARK_MASTER="spark://x:7077").spark.master == "spark://x:7077"
    assert options("", SPARK_MASTER="local[1]").spark == SparkSettings("local[1]")


@pytest.mark.parametrize("wrong", ["engine: fast", "max_errors: 0", "spark: {conf: 3}"])
def test_what_cannot_be_is_refused_with_its_place(options, wrong):
    with pytest.raises(ConfigError, match=r"omnigraph.yaml:2"):
        options(f"pipeline:\n  {wrong}\n")


def test_options_of_the_graph_hold_unless_a_load_says_otherwise(tmp_path):
    pipeline = PipelineOptions(engine="inline", max_errors=2, staging=tmp_path / "staging")
    options = omnigraph.GraphOptions(storage=FAST.storage, pipeline=pipeline)
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=options) as graph:
        bad = jsonl(*(node("Person", name=f"p{at}", age=-1) for at in range(9)))
        with pytest.raises(omnigraph.OmniGraphError) as caught:
            graph.load(bad)
        assert (len(caught.value.violations), caught.value.total) == (2, 9)
        with pytest.raises(omnigraph.OmniGraphError) as caught:
            graph.load(bad, max_errors=3)
        assert len(caught.value.violations) == 3
        assert graph.load(jsonl(node("Person", name="x"))).engine == "inline"
        assert list((tmp_path / "staging").iterdir()) == []
