"""`schema apply`, `diff`, `history` and `get` of a branch or a moment, as a user meets them."""

import json

import pytest

from tests.cli.conftest import SCHEMA

NEXT = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")\n  mail: String?')


@pytest.fixture
def files(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "next.pg").write_text(NEXT)
    assert cli("init", "--schema", "s.pg", "g.omni").code == 0
    return tmp_path


def apply(cli, *words):
    return cli("schema", "apply", "--schema", "next.pg", "g.omni", *words)


def test_a_schema_is_applied_once(cli, files):
    ran = apply(cli, "--as", "ann", "-m", "why")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "schema apply for g.omni",
        "supported: yes",
        "applied: yes",
        "manifest_version: 2",
        "- add property 'Person.mail' (String?) on node 'Person'",
        "- rename property 'Person.age' -> 'Person.years' on node 'Person'",
    ]
    again = json.loads(apply(cli, "--json").out)
    assert (again["applied"], again["supported"], again["step_count"]) == (False, True, 0)
    assert (again["uri"], again["manifest_version"]) == ("g.omni", 2)
    assert apply(cli).out.splitlines()[-1] == "no schema changes"
    told = cli("schema", "history", "g.omni").out
    assert " by ann: why" in told
    assert "rename property 'Person.age'" in told
    assert json.loads(cli("schema", "history", "g.omni", "--json").out)["branch"] == "main"


def test_a_branch_has_its_own_schema_and_the_past_its_own(cli, files):
    assert cli("branch", "create", "side", "g.omni").code == 0
    assert apply(cli, "--branch", "side").code == 0
    assert cli("schema", "get", "g.omni").out == SCHEMA
    assert cli("schema", "get", "g.omni", "--branch", "side").out == NEXT
    assert cli("schema", "get", "g.omni", "--branch", "side", "--at", "1").out == SCHEMA
    found = cli("schema", "diff", "main", "side", "--uri", "g.omni").out.splitlines()
    assert found[0] == "schema diff main -> side"
    assert len(found) == 3
    both = json.loads(cli("schema", "diff", "s.pg", "next.pg", "--json").out)
    assert [step["kind"] for step in both["steps"]] == ["add_property", "rename_property"]


def test_a_preview_writes_nothing(cli, files):
    ran = apply(cli, "--preview")
    assert "applied: no" in ran.out
    assert "rename property" in ran.out
    assert cli("schema", "get", "g.omni").out == SCHEMA


def test_only_main_insists_on_no_other_branch(cli, files):
    cli("branch", "create", "side", "g.omni")
    ran = apply(cli, "--only-main")
    assert ran.code == 1
    assert "schema apply requires a repo with only main; found non-main branches: side" in ran.err
    assert cli("schema", "get", "g.omni").out == SCHEMA


def test_every_reason_of_a_refusal_is_told(cli, files):
    text = SCHEMA.replace("age: I32?", "age: Bool?").replace("  bio: String?\n", "")
    (files / "next.pg").write_text(text)
    ran = apply(cli)
    assert ran.code == 1
    assert "changing property type from I32? to Bool?" in ran.err
    assert "removing property 'bio'" in ran.err
    assert apply(cli, "--json").code == 1
