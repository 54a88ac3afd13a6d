"""`policy validate`, `test` and `explain`."""

import json

import pytest

POLICY = """version: 1
groups:
  team: [act-andrew, act-bruno]
  admins: [act-andrew]
protected_branches: [main]
rules:
  - id: team-read
    allow: { actors: { group: team }, actions: [read, export], branch_scope: any }
  - id: team-write
    allow: { actors: { group: team }, actions: [change], branch_scope: unprotected }
  - id: admins-merge
    allow: { actors: { group: admins }, actions: [branch_merge], target_branch_scope: protected }
"""
CASES = """version: 1
cases:
  - { id: read, actor: act-bruno, action: read, branch: main, expect: allow }
  - { id: deny-main-write, actor: act-bruno, action: change, branch: " main ", expect: deny }
  - { id: merge, actor: act-andrew, action: branch-merge, target_branch: main, expect: allow }
"""


@pytest.fixture
def folder(tmp_path, cli):
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "policy.tests.yaml").write_text(CASES)
    (tmp_path / "omnigraph.yaml").write_text("policy: {file: ./policy.yaml}\n")
    return tmp_path


def test_a_policy_that_can_be_put_in_force_is_valid(cli, folder):
    ran = cli("policy", "validate")
    assert (ran.code, ran.out) == (0, f"policy valid: {folder / 'policy.yaml'} [2 actors]\n")
    facts = json.loads(cli("policy", "validate", "--json").out)
    assert (facts["actors"], facts["rules"], facts["warnings"]) == (2, 3, [])
    assert cli("policy", "validate", "--cedar").out.count("permit (") == 4


def test_a_policy_that_cannot_be_is_shown_with_its_place(cli, folder):
    (folder / "policy.yaml").write_text(POLICY.replace("group: admins", "group: nobody"))
    for command in (["validate"], ["test"], ["explain", "--actor", "a", "--action", "read"]):
        ran = cli("policy", *command)
        assert (ran.code, ran.out) == (1, "")
        assert "references unknown group 'nobody'" in ran.err


def test_warnings_are_told_beside_the_result(cli, folder):
    (folder / "policy.yaml").write_text(POLICY.replace("scope: protected", "scope: any"))
    ran = cli("policy", "validate")
    assert ran.code == 0
    assert "warning: whoever may create or merge unprotected branches" in ran.err


def test_cases_that_are_decided_as_expected_pass(cli, folder):
    ran = cli("policy", "test")
    assert (ran.code, ran.out) == (0, "policy tests passed: 3 cases\n")


def test_cases_that_are_decided_otherwise_are_listed(cli, folder):
    (folder / "other.yaml").write_text(CASES.replace("expect: allow", "expect: deny"))
    ran = cli("policy", "test", "--tests", "other.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "policy tests failed:\n"
        "read: expected Deny but got allow\nmerge: expected Deny but got allow\n"
    )
    facts = json.loads(cli("policy", "test", "--tests", "other.yaml", "--json").out)
    assert (facts["status"], [one["id"] for one in facts["failed"]]) == ("error", ["read", "merge"])


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("version: 1", "version: one", "policy test version must be 1"),
        ("id: read,", "id: ' ',", "policy test case ids must not be blank"),
        ("id: merge", "id: read", "duplicate policy test case id 'read'"),
        ("actor: act-andrew", "actor: ''", "policy test case 'merge' must not use a blank actor"),
        ("expect: deny", "expect: permit", "cannot be `permit`"),
        ("action: read", "action: look", "there is no action 'look'"),
        ("branch: main,", "brunch: main,", "unknown key `cases[0].brunch`"),
    ],
)
def test_cases_that_cannot_be_are_refused(cli, folder, before, after, says):
    assert before in CASES
    (folder / "policy.tests.yaml").write_text(CASES.replace(before, after, 1))
    ran = cli("policy", "test")
    assert (ran.code, ran.out) == (1, "")
    assert says in ran.err


def test_a_decision_is_explained_with_its_rule(cli, folder):
    asked = ["policy", "explain", "--actor", "act-bruno", "--action", "change"]
    ran = cli(*asked, "--branch", " dev ")
    assert (ran.code, ran.out) == (
        0,
        "decision: allow\nactor: act-bruno\naction: change\nbranch: dev\n"
        "matched_rule: team-write\n"
        "message: policy allowed action 'change' for actor 'act-bruno'\n",
    )
    ran = cli(*asked, "--branch", "main", "--json")
    assert (ran.code, json.loads(ran.out)["decision"]) == (0, "deny")


def test_a_question_that_lacks_its_branch_says_so(cli, folder):
    asked = ["policy", "explain", "--actor", "act-andrew", "--action", "branch-merge"]
    ran = cli(*asked, "--branch", "main")
    assert ran.code == 0
    assert "hint: branch_merge is judged by --target-branch" in ran.out


def test_an_action_there_is_none_of_is_a_wrong_command_line(cli, folder):
    assert cli("policy", "explain", "--actor", "a", "--action", "fly").code == 2


def test_without_a_policy_the_setting_is_named(cli, tmp_path):
    ran = cli("policy", "validate")
    assert (ran.code, ran.out) == (1, "")
    assert "policy.file must be set in omnigraph.yaml" in ran.err


def test_a_variable_names_the_policy(cli, folder, monkeypatch):
    (folder / "omnigraph.yaml").unlink()
    monkeypatch.setenv("OMNIGRAPH_POLICY_FILE", "policy.yaml")
    assert cli("policy", "validate").out == "policy valid: policy.yaml [2 actors]\n"
