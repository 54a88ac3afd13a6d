"""`omnigraph doctor`: what is there, what is not, and what does not work."""

import json

import pytest

import omnigraph
from omnigraph.cli.commands import doctor
from tests.support.fast import FAST


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("OMNIGRAPH_HISTORY", str(tmp_path / "state" / "history"))


def checks(ran):
    return {one["name"]: one for one in json.loads(ran.out)["checks"]}


def test_a_machine_that_has_what_is_needed_is_well(cli, tmp_path):
    ran = cli("doctor", "--json")
    assert (ran.code, json.loads(ran.out)["status"]) == (0, "ok")
    found = checks(ran)
    assert {"python", "pylance", "pyspark", "java", "temporary folder", "shell history"} <= {*found}
    assert {one["status"] for one in found.values()} <= {"ok", "off"}
    assert not (tmp_path / "state").exists()
    assert "ok    pylance: " in cli("doctor").out


def test_a_graph_is_read(cli, tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), "node P { name: String @key }", options=FAST):
        pass
    ran = cli("doctor", "g.omni", "--json")
    assert ran.code == 0
    assert checks(ran)["graph"]["detail"].startswith("g.omni: 1 tables at commit ")


def test_a_graph_that_is_not_there_is_a_failure(cli):
    ran = cli("doctor", "gone.omni", "--json")
    assert (ran.code, checks(ran)["graph"]["status"]) == (1, "failed")
    assert "FAIL  graph: " in cli("doctor", "gone.omni").out


def test_a_library_that_is_not_installed_names_its_extra(cli, monkeypatch):
    def version_of(name):
        if name == "granian":
            raise doctor.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(doctor, "version_of", version_of)
    ran = cli("doctor", "--json")
    found = checks(ran)["granian"]
    assert (ran.code, found["status"]) == (0, "off")
    assert found["hint"] == 'pip install "omnigraph[server]"'


def test_a_folder_that_is_full_or_whose_clock_is_wrong_is_a_failure(cli, monkeypatch):
    monkeypatch.setattr(doctor, "_LITTLE_ROOM", 1 << 62)
    assert "MiB are free" in checks(cli("doctor", "--json"))["temporary folder"]["detail"]
    monkeypatch.setattr(doctor, "_CLOCK_S", -1.0)
    assert "s apart" in checks(cli("doctor", "--json"))["temporary folder"]["detail"]
