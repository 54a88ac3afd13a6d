"""`omnigraph.yaml`, the env file and the environment, as settings."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.config.document import ConfigError
from omnigraph.config.environment import (
    Environment,
    actor,
    history_file,
    read_env_file,
    s3_options,
)
from omnigraph.config.load import load_settings
from omnigraph.config.scaffold import config_path, write_config
from omnigraph.errors import BadRequestError, NotFoundError, OmniGraphError, StorageError

FULL = """\
project: {name: Company}
graphs:
  main: {uri: ./main.omni, bearer_token_env: TOKEN}
  far: {uri: s3://bucket/far.omni}
server: {graph: main, bind: 0.0.0.0:9000}
cli:
  graph: far
  branch: 2026-04-25
  output_format: kv
  table_max_column_width: 20
  table_cell_layout: wrap
query: {roots: [queries, more]}
auth: {env_file: .env.omni}
aliases:
  owner:
    command: read
    query: q.gq
    name: owner
    args: [slug, limit]
    graph: main
    branch: dev
    format: csv
    params: {limit: 10, flag: true, code: 007, half: 0.5, tags: [a, b], none: null, on: 2020-01-01}
policy: {file: ./policy.yaml, tests: t.yaml}
storage: {durability: os}
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def from_text(text: str, variables: dict[str, str] | None = None):
        (tmp_path / "omnigraph.yaml").write_text(text)
        return load_settings(None, Environment(variables or {}))

    return from_text


def test_every_key_is_read(load, tmp_path):
    settings = load(FULL)
    assert settings.warnings == ()
    assert settings.project == "Company"
    assert settings.graphs["main"].uri == f"{tmp_path}/./main.omni"
    assert settings.graphs["main"].bearer_token_env == "TOKEN"
    assert settings.graphs["far"].uri == "s3://bucket/far.omni"
    assert list(settings.graphs) == ["far", "main"]
    assert (settings.server.graph, settings.server.bind) == ("main", "0.0.0.0:9000")
    assert (settings.cli.graph, settings.cli.branch) == ("far", "2026-04-25")
    assert settings.cli.output_format == "kv"
    assert (settings.cli.table_max_column_width, settings.cli.table_cell_layout) == (20, "wrap")
    assert settings.query_roots == ("queries", "more")
    alias = settings.aliases["owner"]
    assert (alias.command, alias.query, alias.query_name) == ("read", "q.gq", "owner")
    assert (alias.args, alias.graph, alias.branch, alias.format) == (
        ("slug", "limit"),
        "main",
        "dev",
        "csv",
    )
    assert alias.params == {
        "limit": 10,
        "flag": True,
        "code": "007",
        "half": 0.5,
        "tags": ["a", "b"],
        "none": None,
        "on": "2020-01-01",
    }
    assert settings.policy.file == tmp_path / "policy.yaml"
    assert settings.policy.tests == tmp_path / "t.yaml"
    assert settings.durability == "os"


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "aliases:\n  # only a comment\n", "policy: {}\ncli:\n", "---\n...\n"],
)
def test_empty_files_and_sections_are_the_defaults(load, text):
    settings = load(text)
    assert settings.warnings == ()
    assert (settings.graphs, settings.aliases) == ({}, {})
    assert settings.cli.output_format == "table"
    assert settings.cli.table_max_column_width == 80
    assert settings.server.bind == "127.0.0.1:8080"
    assert settings.durability == "full"


def test_the_file_is_looked_for_here_only(tmp_path, monkeypatch):
    (tmp_path / "omnigraph.yaml").write_text("project: {name: Parent}\n")
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert load_settings(None, Environment({})).path is None
    assert load_settings("../omnigraph.yaml", Environment({})).project == "Parent"


def test_an_explicit_file_must_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match=r"config file 'nope\.yaml' not found"):
        load_settings("nope.yaml", Environment({}))


@pytest.mark.parametrize(
    ("text", "told", "line", "hint"),
    [
        pytest.param("targets: {}\n", "`targets`", 1, "write `graphs`", id="old name"),
        pytest.param("target: x\n", "`target`", 1, "write `cli.graph`", id="old default"),
        pytest.param("cli:\n  target: x\n", "`cli.target`", 2, "`cli.graph`", id="nested"),
        pytest.param("cli:\n  brnch: x\n", "`cli.brnch`", 2, "`branch`?", id="misspelt"),
        pytest.param("graphs:\n  a: {uri: x, zzz: 1}\n", "`graphs.a.zzz`", 2, "", id="in a map"),
        pytest.param("aliases:\n  a: {command: read, query: q, foo: 1}", ".foo", 2, "", id="alias"),
        pytest.param("policy: {files: x}\n", "`policy.files`", 1, "`file`?", id="policy"),
    ],
)
def test_unknown_keys_are_named_with_their_line_and_what_to_write(load, text, told, line, hint):
    (problem,) = load(text).warnings
    shown = problem.render()
    assert shown.startswith("warning[config]: ")
    assert told in shown
    assert f"omnigraph.yaml:{line}:" in shown
    assert hint in shown


@pytest.mark.parametrize(
    ("text", "told", "line"),
    [
        pytest.param("a: [1\nb: 2\n", "not valid YAML", 2, id="open bracket"),
        pytest.param("a: 'x\n", "not valid YAML", 2, id="open quote"),
        pytest.param("a:\n\t- x\n", "not valid YAML", 2, id="tab"),
        pytest.param("a: *nobody\n", "not valid YAML", 1, id="unknown anchor"),
        pytest.param("ok: 1\nx: \x01\n", "not valid YAML", 2, id="control character"),
        pytest.param("{" * 20_000, "nested too deeply", 1, id="braces"),
        pytest.param("a: " + "[" * 9_999 + "]" * 9_999, "nested too deeply", 1, id="brackets"),
        pytest.param("- a\n", "must be a mapping", 1, id="list"),
        pytest.param("just words\n", "must be a mapping", 1, id="text"),
        pytest.param("cli: 3\n", "`cli` must be a mapping", 1, id="section of another kind"),
        pytest.param("cli: {graph: [a]}\n", "`cli.graph` must be", 1, id="list for a word"),
        pytest.param("cli: {graph: ''}\n", "`cli.graph` must be", 1, id="empty word"),
        pytest.param("\ncli:\n  output_format: tabel\n", "cannot be `tabel`", 3, id="enum"),
        pytest.param("cli:\n  table_max_column_width: 0\n", "at least 1", 2, id="too small"),
        pytest.param("cli:\n  table_max_column_width: x\n", "whole number", 2, id="not a number"),
        pytest.param("graphs:\n  a: {}\n", "`graphs.a.uri` is missing", 2, id="required"),
        pytest.param("aliases:\n  a: {query: q}\n", "`aliases.a.command` is missing", 2, id="kind"),
        pytest.param("aliases: {a: {command: run, query: q}}", "cannot be `run`", 1, id="command"),
        pytest.param("cli: {branch: a}\ncli: {branch: b}\n", "given twice", 2, id="duplicate"),
        pytest.param("? [a]\n: 1\n", "key must be a word", 1, id="strange key"),
        pytest.param("storage: {durability: maybe}\n", "cannot be `maybe`", 1, id="durability"),
        pytest.param(
            "aliases: {a: {command: read, query: q, params: {x: {y: 1}}}}",
            "must be a value or a list",
            1,
            id="nested parameter",
        ),
    ],
)
def test_wrong_files_are_refused_with_the_line_shown(load, text, told, line):
    with pytest.raises(ConfigError) as caught:
        load(text)
    shown = caught.value.render()
    assert shown.startswith("error[config]: ")
    assert told in shown
    assert f" --> omnigraph.yaml:{line}:" in shown


def test_a_binary_file_is_refused(load, tmp_path):
    (tmp_path / "omnigraph.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StorageError, match="not UTF-8"):
        load_settings(None, Environment({}))


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_no_text_makes_the_reader_fall_over(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, "utf-8")
    with contextlib.suppress(OmniGraphError):  # refusing is fine, anything else is not
        load_settings(str(path), Environment({}))


def test_query_files_are_found_beside_the_settings_then_below_the_roots(tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / "queries").mkdir(parents=True)
    (project / "omnigraph.yaml").write_text("query: {roots: [queries]}\n")
    (project / "queries" / "deep.gq").write_text("")
    (project / "near.gq").write_text("")
    (project / "queries" / "near.gq").write_text("")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.gq").write_text("")
    settings = load_settings("project/omnigraph.yaml", Environment({}))
    assert settings.find_query_file("near.gq") == project / "near.gq"
    assert settings.find_query_file("deep.gq") == project / "queries" / "deep.gq"
    assert settings.find_query_file(str(tmp_path / "here.gq")) == tmp_path / "here.gq"
    with pytest.raises(NotFoundError, match=r"query file 'here\.gq' not found"):
        settings.find_query_file("here.gq")  # only the folder of the settings counts


def test_env_files_are_read_line_by_line(tmp_path):
    file = tmp_path / ".env"
    file.write_text(
        "# comment\n\nA=1\nexport B='two words'\nC=\"x # y\"\nD = spaced \n"
        "E=a # kept\nbroken\nF='\n"
    )
    assert read_env_file(file) == {
        "A": "1",
        "B": "two words",
        "C": "x # y",
        "D": "spaced",
        "E": "a # kept",
        "F": "'",
    }
    assert read_env_file(tmp_path / "missing") == {}


def test_the_process_environment_beats_the_env_file_and_blank_is_unset(load, tmp_path):
    (tmp_path / ".env").write_text("AWS_REGION=file\nAWS_ACCESS_KEY_ID=key\n")
    settings = load(
        "auth: {env_file: .env}\n", {"AWS_REGION": "process", "AWS_ACCESS_KEY_ID": "  "}
    )
    assert settings.environment.find("AWS_REGION") == "process"
    assert settings.environment.find("AWS_ACCESS_KEY_ID") == "key"
    options = settings.storage_options("s3://bucket/x").s3
    assert (options.region, options.access_key_id) == ("process", "key")


def test_object_stores_are_reached_as_the_environment_says():
    options = s3_options(
        Environment(
            {
                "AWS_REGION": "eu",
                "AWS_ACCESS_KEY_ID": "id",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_SESSION_TOKEN": "token",
                "AWS_ENDPOINT_URL": "http://other:1",
                "AWS_ENDPOINT_URL_S3": "http://minio:9000",
                "AWS_S3_FORCE_PATH_STYLE": "true",
                "AWS_ALLOW_HTTP": "TRUE",
            }
        )
    )
    assert options.endpoint == "http://minio:9000"
    assert (options.region, options.access_key_id) == ("eu", "id")
    assert (options.secret_access_key, options.session_token) == ("secret", "token")
    assert options.allow_http
    assert not options.virtual_hosted_style
    assert "secret" not in repr(options)
    assert s3_options(Environment({"AWS_S3_FORCE_PATH_STYLE": "false"})).virtual_hosted_style
    assert s3_options(Environment({"AWS_DEFAULT_REGION": "us"})).region == "us"


def test_a_plain_http_endpoint_must_be_allowed():
    with pytest.raises(BadRequestError, match="not encrypted") as caught:
        s3_options(Environment({"AWS_ENDPOINT_URL": "http://minio:9000"}))
    assert "AWS_ALLOW_HTTP=true" in (caught.value.hint or "")
    with pytest.raises(BadRequestError, match="neither true nor false"):
        s3_options(Environment({"AWS_ALLOW_HTTP": "maybe"}))


def test_nobody_is_assumed_to_be_the_actor():
    assert actor(Environment({"USER": "root"})) is None
    assert actor(Environment({"OMNIGRAPH_ACTOR": " act-ann "})) == "act-ann"


def test_history_is_kept_where_state_belongs():
    assert history_file(Environment({"OMNIGRAPH_HISTORY": "/h"})) == Path("/h")
    assert history_file(Environment({"XDG_STATE_HOME": "/s"})) == Path("/s/omnigraph/history")
    assert history_file(Environment({})) == Path.home() / ".local/state/omnigraph/history"


@pytest.mark.parametrize(
    ("uri", "file", "written"),
    [
        ("people.omni", "omnigraph.yaml", "people.omni"),
        ("sub/people.omni/", "sub/omnigraph.yaml", "people.omni"),
        ("./it's.omni", "omnigraph.yaml", "it's.omni"),
        ("s3://bucket/x.omni", "omnigraph.yaml", "s3://bucket/x.omni"),
        ("file:///data/x.omni", "omnigraph.yaml", "file:///data/x.omni"),
    ],
)
def test_the_first_settings_of_a_graph_lead_back_to_it(tmp_path, monkeypatch, uri, file, written):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    assert config_path(uri) == Path(file)
    assert write_config(uri) == Path(file)
    settings = load_settings(file, Environment({}))
    assert settings.warnings == ()
    base = (tmp_path / file).parent
    expected = written if "://" in written else f"{base}/{written}"
    assert settings.graphs["local"].uri == expected
    assert (settings.cli.graph, settings.server.graph) == ("local", "local")
    assert settings.query_roots == ("queries", ".")
    (tmp_path / file).write_text("project: {name: Mine}\n")
    assert write_config(uri) is None
    assert load_settings(file, Environment({})).project == "Mine"
