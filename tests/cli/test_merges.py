"""Merging, undoing and naming on the command line: what is said, which exit code, which files."""

import json

import pytest


def as_json(ran, code=0):
    assert ran.code == code, ran.err
    return json.loads(ran.out)


AGE = "query q($n: String, $v: I32) { update Person set { age: $v } where name = $n }"


@pytest.fixture
def forked(cli, people):
    """A graph with a branch, and what changes an age on either."""
    assert cli("branch", "create", "dev").code == 0

    def age(name, value, branch="main", *more):
        ran = cli("change", "-e", AGE, "-p", f"n={name}", "-p", f"v={value}", "-b", branch, *more)
        assert ran.code == 0, ran.err

    return age


ASK = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } }"


def ages(cli, branch="main"):
    rows = as_json(cli("read", "-e", ASK, "-b", branch, "--json"))["rows"]
    return {row["n"]: row["a"] for row in rows}


def test_a_merge_says_what_it_did(cli, forked):
    forked("Ann", 50, "dev")
    tried = cli("branch", "merge", "dev", "--preview")
    assert tried.out == "would merge dev into main: fast_forward\nnode:Person +0 ~1 -0\n"
    assert ages(cli)["Ann"] == 41
    ran = cli("branch", "merge", "dev", "people.omni", "--as", "act-r", "-m", "looks right")
    assert ran.out == (
        "merged dev into main: fast_forward\nnode:Person +0 ~1 -0\nactor_id: act-r\n"
    )
    assert ages(cli)["Ann"] == 50
    again = as_json(cli("branch", "merge", "dev", "--into", "main", "--json"))
    assert (again["outcome"], again["commit_id"]) == ("already_up_to_date", None)
    newest = cli("commit", "list", "-l", "1").out
    assert " actor=act-r at=" in newest
    assert newest.endswith(" merge looks right\n")


def test_conflicts_are_listed_written_and_resolved(cli, forked, people):
    forked("Ann", 50, "dev")
    forked("Ann", 51)
    ran = cli("branch", "merge", "dev", "--conflicts", "conflicts.jsonl")
    assert (ran.code, ran.out) == (1, "")
    assert "error: merge conflicts: node:Person:Ann (divergent_update)" in ran.err
    assert "  - node:Person:Ann (divergent_update): node:Person 'Ann' was changed" in ran.err
    told = as_json(cli("branch", "merge", "dev", "--json"), code=1)
    assert (told["code"], len(told["merge_conflicts"])) == ("conflict", 1)
    preview = cli("branch", "merge", "dev", "--preview")
    assert preview.code == 1
    assert "conflict node:Person:Ann (divergent_update)" in preview.out
    (line,) = (people / "conflicts.jsonl").read_text().splitlines()
    one = json.loads(line)
    assert (one["ours"]["age"], one["theirs"]["age"], one["resolution"]) == (51, 50, None)
    one["resolution"] = {"values": {"age": 52}}
    (people / "settled.jsonl").write_text(json.dumps(one))
    assert cli("branch", "merge", "dev", "--resolve", "settled.jsonl").code == 0
    assert ages(cli)["Ann"] == 52


def test_texts_with_line_breaks_stay_on_their_line(cli, forked, people):
    name, add = (
        "a\u2028b\x85c",
        "query q($n: String, $v: I32) { insert Person { name: $n, age: $v } }",
    )
    for branch, value in (("main", 1), ("dev", 2)):
        ran = cli("change", "-e", add, "-p", f"n={name}", "-p", f"v={value}", "-b", branch,
                  "-m", "one\ntwo")  # fmt: skip
        assert ran.code == 0
    assert cli("branch", "merge", "dev", "--conflicts", "conflicts.jsonl").code == 1
    text = (people / "conflicts.jsonl").read_text()
    (people / "settled.jsonl").write_text(text.replace("null}", '"theirs"}'))
    assert cli("branch", "merge", "dev", "--resolve", "settled.jsonl").code == 0
    assert ages(cli)[name] == 2
    assert cli("tag", "create", "v1", "-m", "one\ntwo").code == 0
    assert cli("tag", "list").out.endswith(" one\\ntwo\n")
    assert cli("commit", "list", "-b", "dev", "-l", "1").out.endswith(" one\\ntwo\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["merge", "main"], "requires distinct source and target branches"),
        (["merge", "nope"], "branch 'nope' not found"),
        (["merge", "dev", "--into", "nope"], "branch 'nope' not found"),
        (["merge", "dev", "--resolve", "nope.jsonl"], "'nope.jsonl' cannot be read"),
        (["merge", "dev", "--resolve", "people.pg"], "people.pg:1: not JSON"),
        (["merge", "dev", "--base", "nope"], "commit 'nope' not found"),
        (["reset", "main", "--to", "nope"], "commit 'nope' not found"),
    ],
)
def test_wrong_merges_are_refused(cli, forked, arguments, told):
    forked("Ann", 50, "dev")
    forked("Ann", 51)
    ran = cli("branch", *arguments)
    assert ran.code == 1
    assert told in ran.err


def test_a_source_is_deleted_when_asked(cli, forked):
    forked("Ann", 50, "dev")
    assert cli("branch", "merge", "dev", "--delete-branch").out.endswith("branch dev deleted\n")
    assert cli("branch", "list").out == "main\n"


def test_tags_name_commits(cli, forked):
    head = as_json(cli("commit", "list", "--json"))["commits"][0]["graph_commit_id"]
    assert cli("tag", "create", "v1", "-m", "shipped").out == f"tagged {head} as v1\n"
    forked("Ann", 50)
    assert cli("tag", "list").out.startswith(f"v1 {head} branch=main at=")
    (tag,) = as_json(cli("tag", "list", "--json"))["tags"]
    assert (tag["name"], tag["message"]) == ("v1", "shipped")
    old = as_json(cli("read", "-e", "query q() { match { $p: Person { name: \"Ann\" } } "
                      "return { $p.age as a } }", "--snapshot", "v1", "--json"))  # fmt: skip
    assert old["rows"] == [{"a": 41}]
    assert cli("diff", "v1", "main", "--stat").code == 0
    assert cli("branch", "reset", "main", "--to", "v1").out.startswith(f"reset to {head} on main: ")
    assert ages(cli)["Ann"] == 41
    assert cli("branch", "reset", "main", "--to", "v1").out.endswith("nothing to do\n")
    assert cli("tag", "delete", "v1").out == "deleted tag v1\n"
    assert cli("tag", "list").out == ""
    assert "tag 'v1' not found" in cli("tag", "delete", "v1").err


def test_a_commit_is_undone_and_repeated(cli, forked):
    forked("Ann", 50, "dev", "-m", "birthday")
    made = as_json(cli("commit", "list", "-b", "dev", "--json"))["commits"][0]
    assert made["message"] == "birthday"
    commit = made["graph_commit_id"]
    assert cli("cherry-pick", commit).out.startswith(f"picked {commit} on main: ")
    assert ages(cli)["Ann"] == 50
    assert cli("revert", commit, "--preview").out.startswith(f"would have reverted {commit}")
    undone = as_json(cli("revert", commit, "--json"))
    assert (undone["operation"], undone["of"]) == ("revert", commit)
    assert ages(cli)["Ann"] == 41
    forked("Ann", 60)
    assert "divergent_update" in cli("revert", undone["commit_id"]).err


def test_commits_are_newest_first_and_can_be_narrowed(cli, forked):
    forked("Ann", 50, "main", "--as", "act-x")
    newest = as_json(cli("commit", "list", "--json"))["commits"]
    assert [one["manifest_version"] for one in newest] == [6, 5, 4, 3, 2, 1]
    assert as_json(cli("commit", "list", "--reverse", "--json"))["commits"] == newest[::-1]
    assert as_json(cli("commit", "list", "--limit", "2", "--json"))["commits"] == newest[:2]
    (mine,) = as_json(cli("commit", "list", "--actor", "act-x", "--json"))["commits"]
    assert mine == newest[0]
    third = newest[2]["graph_commit_id"]
    assert as_json(cli("commit", "list", "--since", third, "--json"))["commits"] == newest[:2]
    assert as_json(cli("commit", "list", "--since", "2099-01-01", "--json"))["commits"] == []
    assert cli("commit", "list", "--graph", "--json").code == 2


def test_a_drawing_shows_what_merges_brought(cli, forked):
    forked("Ann", 50, "dev")
    forked("Bob", 51)
    assert cli("branch", "merge", "dev").code == 0
    forked("Ann", 52, "dev")
    forked("Bob", 53)
    assert cli("branch", "merge", "dev").code == 0
    lines = cli("commit", "list", "--graph", "--limit", "7").out.splitlines()
    drawing = [line.partition("0")[0].rstrip() for line in lines]
    expected = ["*", "|\\", "* |", "| *", "* |", "|\\|", "* |", "| *", "|/", "*", "*", "*"]
    assert drawing[: len(expected)] == expected
    assert ["branch=dev" in line for line in lines if line.startswith("| *")] == [True, True]
    short = cli("commit", "list", "--graph", "--limit", "1").out.splitlines()
    assert len(short) == 4, "what the line itself had before is not drawn as brought"
