"""`omnigraph cache …`: what is kept on disk, as people see it."""

import json

import pytest

from omnigraph.graph import GraphOptions
from omnigraph.graph.derived import cache_contents, purge_cache
from tests.support import shelves


@pytest.fixture
def place(tmp_path, monkeypatch):
    shelves.small(monkeypatch)
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    shelves.make(tmp_path / "g.omni")
    shelves.make(tmp_path / "other.omni")
    return tmp_path / "g.omni"


def test_files_are_built_listed_checked_and_purged(cli, place, tmp_path):
    built = cli("cache", "build", str(place), "--json")
    assert built.code == 0, built.err
    told = json.loads(built.out)
    assert told["folder"] == str(tmp_path / "cache")
    assert {one["rows"] for one in told["tables"]} == {3_000, 6_000}
    cli("cache", "build", str(tmp_path / "other.omni"))
    every = json.loads(cli("cache", "list", "--json").out)
    assert len(every["tables"]) == 4
    assert every["bytes"] == sum(one["bytes"] for one in every["tables"]) > 0
    assert "version" in cli("cache", "list", str(place)).out
    for path in (tmp_path / "cache").rglob("ids.*.data"):
        path.write_bytes(path.read_bytes()[:-1])
    checked = cli("cache", "list", "--check")
    assert checked.out.count("damaged, removed: ids:") == 2
    purged = json.loads(cli("cache", "purge", str(place), "--json").out)
    assert purged["bytes"] > 0
    left = json.loads(cli("cache", "list", "--json").out)
    assert {one["uri"] for one in left["tables"]} == {str(tmp_path / "other.omni")}
    assert cli("cache", "purge", "--all").code == 0
    assert json.loads(cli("cache", "list", "--json").out)["tables"] == []


def test_purging_without_a_word_asks_which_graph(cli, place):
    ran = cli("cache", "purge")
    assert ran.code == 2
    assert "--all" in ran.err
    assert cli("cache", "purge", str(place), "--all").code == 2


def test_a_cache_that_is_off_is_empty(cli, place, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", "off")
    assert "cache off" in cli("cache", "build", str(place)).out
    assert json.loads(cli("cache", "list", "--json").out)["folder"] is None


def test_python_has_the_same(place, tmp_path):
    options = GraphOptions(cache=tmp_path / "mine")
    with shelves.opened(place, tmp_path / "mine") as graph:
        graph.build_cache()
    assert len(cache_contents(options, check=True).tables) == 2
    assert purge_cache(place, options).bytes > 0
    assert cache_contents(options).tables == ()


def test_a_settings_file_names_the_folder_but_the_environment_wins(
    cli, place, tmp_path, monkeypatch
):
    monkeypatch.delenv("OMNIGRAPH_CACHE_DIR")
    (tmp_path / "omnigraph.yaml").write_text("cache:\n  folder: from-file\n  size: 1MiB\n")
    config = ("--config", str(tmp_path / "omnigraph.yaml"))
    told = json.loads(cli("cache", "list", *config, "--json").out)
    assert (told["folder"], told["max_bytes"]) == (str(tmp_path / "from-file"), 1 << 20)
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "said"))
    monkeypatch.setenv("OMNIGRAPH_CACHE_SIZE", "none")
    told = json.loads(cli("cache", "list", *config, "--json").out)
    assert (told["folder"], told["max_bytes"]) == (str(tmp_path / "said"), None)
    (tmp_path / "omnigraph.yaml").write_text("cache:\n  folder: off\n")
    monkeypatch.delenv("OMNIGRAPH_CACHE_DIR")
    assert json.loads(cli("cache", "list", *config, "--json").out)["folder"] is None
