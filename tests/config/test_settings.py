"""Settings as values: what they are by themselves, and how they open a graph."""

import pytest

import omnigraph
from omnigraph.base.budget import PROCESS, Limits
from omnigraph.config.environment import Environment
from omnigraph.config.limits import LimitSettings, limits_in_force
from omnigraph.config.load import load_settings
from omnigraph.config.settings import Settings
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph.configured import graph_options, input_options, settled
from omnigraph.graph.options import GraphOptions
from omnigraph.pipeline.model import PipelineOptions, SparkSettings
from omnigraph.storage.options import S3Options, StorageOptions

NOTHING = Environment({})
FILE = """\
storage:
  durability: os
embedding:
  provider: mock
limits:
  query_seconds: 7
  job_memory: 2GiB
  process_memory: none
pipeline:
  spark:
    master: local[3]
graphs:
  people:
    uri: ./people.omni
"""


def maintenance_of(tmp_path, text):
    (tmp_path / "omnigraph.yaml").write_text(text)
    found = load_settings(str(tmp_path / "omnigraph.yaml"), NOTHING)
    kept = found.storage_options("g.omni").retention
    return kept.keep_versions, kept.keep_s


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", (None, None)),
        ("maintenance:\n  keep: 10\n", (10, None)),
        ("maintenance:\n  older_than: 7d\n", (None, 604_800)),
        ("maintenance:\n  keep: none\n  older_than: none\n", (None, None)),
        ("maintenance:\n  keep: 3\n  older_than: 90\n", (3, 90)),
    ],
)
def test_the_past_goes_by_itself_only_if_the_settings_say_so(tmp_path, text, kept):
    assert maintenance_of(tmp_path, text) == kept


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("keep: many", "`maintenance.keep` cannot be `many`"),
        ("keep: -1", "`maintenance.keep` cannot be `-1`"),
        ("older_than: 7y", "`maintenance.older_than`: unknown duration unit 'y'"),
        ("older_than: 1d12h", "`maintenance.older_than`: invalid duration '1d12h'"),
    ],
)
def test_a_retention_that_makes_no_sense_is_refused_at_its_place(tmp_path, line, message):
    with pytest.raises(BadRequestError, match=r"omnigraph\.yaml:2:") as refused:
        maintenance_of(tmp_path, f"maintenance:\n  {line}\n")
    assert message in refused.value.message


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PROCESS, "limit", PROCESS.limit)  # graph_options sets it

    def found(text=FILE, **variables):
        (tmp_path / "omnigraph.yaml").write_text(text)
        return load_settings(None, Environment(variables))

    return found


def test_settings_open_a_graph_as_they_say(settings, tmp_path):
    uri = str(tmp_path / "people.omni")
    options = graph_options(settings(), uri)
    assert options.storage.durability == "os"
    assert options.embedder.space.startswith("mock")
    assert options.limits.seconds == 7
    assert options.job_limits.bytes == 2 << 30
    assert options.pipeline.spark == SparkSettings("local[3]")
    with omnigraph.init(uri, "node P { name: String @key }", options=options) as graph:
        assert graph._state.options.limits.seconds == 7


def test_the_environment_stands_above_the_file_and_below_the_program(settings):
    said = settings(OMNIGRAPH_QUERY_SECONDS="9", SPARK_MASTER="spark://x:7077")
    options = graph_options(said, "people.omni")
    assert options.limits.seconds == 9
    assert options.pipeline.spark.master == "spark://x:7077"


def test_options_of_a_program_leave_nothing_to_the_environment():
    here = Environment({"SPARK_MASTER": "local[2]", "OMNIGRAPH_QUERY_SECONDS": "5"})
    inherited = limits_in_force(here)
    found = settled(GraphOptions(limits=Limits(rows=3)), here, inherited)
    assert (found.limits.rows, found.limits.seconds) == (3, 5)
    assert found.job_limits == inherited.job
    assert found.pipeline.spark == SparkSettings("local[2]")
    own = GraphOptions(pipeline=PipelineOptions(spark=SparkSettings("local[9]")))
    assert settled(own, here, inherited).pipeline.spark == SparkSettings("local[9]")
    assert settled(GraphOptions(), NOTHING, limits_in_force(NOTHING)).pipeline.spark is None


def test_inputs_are_reached_like_the_graph_or_by_the_environment():
    own = S3Options(endpoint="https://here")
    there = Environment({"AWS_ENDPOINT_URL_S3": "https://there"})
    assert input_options(GraphOptions(storage=StorageOptions(s3=own)), there) == own
    assert input_options(GraphOptions(), there).endpoint == "https://there"
    with pytest.raises(BadRequestError, match="not encrypted"):
        input_options(GraphOptions(), Environment({"AWS_ENDPOINT_URL_S3": "http://there"}))


def test_names_are_looked_up_and_misses_name_what_there_is(settings):
    found = settings()
    assert found.graph("people").uri.endswith("people.omni")
    with pytest.raises(NotFoundError, match="known graphs: people"):
        found.graph("nope")
    with pytest.raises(NotFoundError, match="known aliases: none"):
        found.alias("nope")


def test_query_files_are_beside_the_settings_first_and_then_below_the_roots(tmp_path):
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "a.gq").touch()
    found = Settings(NOTHING, path=tmp_path / "omnigraph.yaml", query_roots=("queries",))
    assert found.find_query_file("a.gq") == tmp_path / "queries" / "a.gq"
    (tmp_path / "a.gq").touch()
    assert found.find_query_file("a.gq") == tmp_path / "a.gq"
    with pytest.raises(NotFoundError, match=r"query file 'b\.gq' not found"):
        found.find_query_file("b.gq")


@pytest.mark.parametrize(
    ("variables", "file", "expected"),
    [
        pytest.param({}, LimitSettings(query_seconds=3), 3, id="file"),
        pytest.param(
            {"OMNIGRAPH_QUERY_SECONDS": "4"}, LimitSettings(query_seconds=3), 4, id="both"
        ),
        pytest.param({"OMNIGRAPH_QUERY_SECONDS": "none"}, LimitSettings(), None, id="none"),
        pytest.param({}, LimitSettings(), 60, id="nothing"),
    ],
)
def test_a_limit_is_by_the_environment_then_the_file_then_the_default(variables, file, expected):
    assert limits_in_force(Environment(variables), file).query.seconds == expected
