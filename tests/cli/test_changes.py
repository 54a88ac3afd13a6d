"""What changed, on the command line."""

import json

import pytest


@pytest.fixture
def review(cli, people):
    cli("branch", "create", "review")
    for given in (["name=Ann", "age=42"], ["name=Dan", "age=5", 'bio="a\\u001b[31m\\nb"']):
        words = [word for one in given for word in ("-p", one)]
        assert cli("change", "-q", "people.gq", "-n", "add", *words, "--branch", "review").code == 0


def test_a_diff_reads_like_a_sentence_per_change(cli, review):
    ran = cli("diff", "main", "review")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("~ Person Ann  age 41 → 42, bio ")
    assert lines[0].endswith("→ null")
    assert lines[1] == '+ Person Dan  name "Dan" age 5 bio "a\\x1b[31m\\nb"'
    assert lines[2] == "2 changes"
    assert cli("diff", "main...review").out == ran.out
    assert cli("diff", "main", "review", "people.omni").out == ran.out
    assert cli("diff", "people.omni", "main...review").out == ran.out
    assert cli("diff", "main", "main").out == "nothing differs\n"
    back = cli("diff", "review", "main", "--op", "delete").out
    assert back.startswith("- Person Dan")


def test_a_diff_has_colors_on_a_terminal_only(terminal, cli, review):
    assert "\x1b[33m~ Person Ann" in terminal("diff", "main", "review").out
    assert "\x1b[3" not in cli("diff", "main", "review").out


def test_a_diff_in_other_layouts(cli, review):
    assert cli("diff", "main", "review", "--stat").out.splitlines() == [
        "node:Person  +1 ~1 -0",
        "1 inserted, 1 updated, 0 deleted",
    ]
    found = json.loads(cli("diff", "main", "review", "--json", "--images", "after").out)
    assert [one["id"] for one in found["changes"]] == ["Ann", "Dan"]
    assert found["changes"][0]["after"]["age"] == 42
    assert "before" not in found["changes"][0]
    assert found["stats"]["types_affected"] == ["Person"]
    lines = cli("diff", "main", "review", "-f", "jsonl", "--type", "Person").out.splitlines()
    assert [json.loads(line)["op"] for line in lines] == ["update", "insert"]
    assert cli("diff", "main", "review", "-f", "csv").out.splitlines() == [
        "op,table_key,id,src,dst,changed",
        "update,node:Person,Ann,,,age bio",
        "insert,node:Person,Dan,,,",
    ]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["main"], 2, "expected two names"),
        (["main", "review", "x", "y"], 2, "got 4 words"),
        (["main", "nobody"], 1, "no branch or commit 'nobody'"),
        (["main", "main", "--type", "Nobody"], 1, "Nobody"),
        (["main", "main", "--json", "-f", "csv"], 2, "exclude each other"),
        (["main", "main", "--op", "upsert"], 1, "unknown ops 'upsert'"),
    ],
)
def test_what_cannot_be_compared_is_told(cli, people, words, code, told):
    ran = cli("diff", *words)
    assert ran.code == code
    assert told in ran.err


def test_the_feed_is_lines_that_go_on_where_they_stopped(cli, review):
    lines = [json.loads(line) for line in cli("changes", "-b", "review").out.splitlines()]
    assert [one["id"] for one in lines[-1]["changes"]] == ["Dan"]
    assert lines[0]["schema_steps"]
    since = cli("changes", "-b", "review", "--since", lines[-2]["cursor"])
    assert [json.loads(line) for line in since.out.splitlines()] == lines[-1:]
    assert cli("changes", "-b", "review", "--since", lines[-1]["cursor"]).out == ""
    cli("branch", "delete", "review")
    cli("branch", "create", "review")
    ran = cli("changes", "-b", "review", "--since", lines[-1]["cursor"])
    assert ran.code == 1
    assert "made anew" in ran.err
    assert "go on from cursor" in ran.err


def test_history_and_blame_name_commit_time_and_actor(cli, people):
    words = ("change", "-q", "people.gq", "-n", "add", "-p", "name=Ann", "-p", "age=50")
    cli(*words, "--as", "eve")
    lines = cli("history", "node:Person", "Ann").out.splitlines()
    assert len(lines) == 2
    assert " eve  ~ age 41 → 50" in lines[0]
    assert '+ name "Ann" age 41' in lines[1]
    assert cli("history", "Person", "Ann", "people.omni", "-n", "1").out.splitlines() == lines[:1]
    assert cli("history", "Person", "Zoe").out == "there never was a Person 'Zoe'\n"
    blamed = {line.split()[0]: line for line in cli("blame", "Person", "Ann").out.splitlines()}
    assert blamed["age"].endswith(" eve")
    assert not blamed["name"].endswith(" eve")
    assert cli("blame", "Person", "Zoe").code == 1
