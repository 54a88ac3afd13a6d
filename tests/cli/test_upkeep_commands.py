"""`optimize`, `cleanup`, `du`, `index`: what they say, what they do, and what they leave alone."""

import json
import os
import time

import lance
import pytest

LONG_AGO_S = 30 * 86_400


def as_json(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


@pytest.fixture
def worn(cli, people, tmp_path):
    """A graph of many small commits, all of them a month old."""
    for number in range(14):
        ran = cli("change", "-q", "people.gq", "-n", "add", "-p", f"name=p{number}")
        assert ran.code == 0, ran.err
    then = time.time() - LONG_AGO_S
    for path in (tmp_path / "people.omni").rglob("*"):
        os.utime(path, (then, then))
    return tmp_path / "people.omni"


def names(cli):
    text = "query q() { match { $p: Person } return { $p.name } }"
    rows = as_json(cli("read", "-e", text, "--json"))["rows"]
    return sorted(row["p.name"] for row in rows)


def versions(graph):
    """How many versions all tables of nodes have."""
    (table,) = (graph / "nodes").iterdir()
    return len(lance.dataset(str(table)).versions())


def test_optimize_merges_small_files_once_and_says_so(cli, worn):
    before, commits = names(cli), len(as_json(cli("commit", "list", "--json"))["commits"])
    told = cli("optimize", "--preview")
    assert told.out.startswith(f"optimize {worn} — 2 tables\n")
    preview = as_json(cli("optimize", "--preview", "--json"))
    (person,) = [one for one in preview["tables"] if one["table_key"] == "node:Person"]
    done = as_json(cli("optimize", "--json"))
    (merged,) = [one for one in done["tables"] if one["table_key"] == "node:Person"]
    assert (merged["committed"], merged["skipped"]) == (True, None)
    assert merged["fragments_removed"] == person["fragments_removed"] > 1
    assert merged["fragments_added"] == person["fragments_added"] == 1
    shown = as_json(cli("snapshot", "--json"))
    assert merged["manifest_version"] == shown["manifest_version"]
    again = cli("optimize")
    assert f"  {'node:Person':<40} no-op, indexes behind: id, name" in again.out
    assert names(cli) == before
    assert len(as_json(cli("commit", "list", "--json"))["commits"]) == commits


def test_optimize_takes_the_tables_that_are_named_as_long_as_there_is_time(cli, worn):
    one = as_json(cli("optimize", "--table", "edge:Knows", "--json"))["tables"]
    assert [table["table_key"] for table in one] == ["edge:Knows"]
    late = as_json(cli("optimize", "--max-seconds", "0", "--json"))["tables"]
    assert {table["skipped"] for table in late} == {"out_of_time"}
    assert cli("optimize", "--table", "node:Nobody").code == 1
    assert cli("optimize", "--max-seconds", "soon").code == 2


def test_optimize_leaves_what_another_tool_changed_to_repair(cli, worn):
    (table,) = (worn / "nodes").iterdir()
    lance.dataset(str(table)).delete("name = 'Bob'")
    ran = cli("optimize", "--table", "node:Person")
    assert ran.code == 1
    assert "skipped: drift_needs_repair" in ran.out


def test_cleanup_without_confirm_states_the_policy_and_opens_nothing(cli, tmp_path):
    ran = cli("cleanup", "nowhere.omni", "--keep", "10", "--older-than", "7d")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == (
        "cleanup is destructive — rerun with --confirm. Policy for nowhere.omni: "
        "keep 10 versions, remove anything older than 604800s\n"
    )
    assert not (tmp_path / "nowhere.omni").exists()


def test_cleanup_removes_exactly_what_its_preview_told(cli, worn):
    before, rows = versions(worn), names(cli)
    told = as_json(cli("cleanup", "--keep", "10", "--older-than", "7d", "--json"))
    assert (told["dry_run"], told["keep_versions"], told["older_than_secs"]) == (True, 10, 604_800)
    (person,) = [one for one in told["tables"] if one["table_key"] == "node:Person"]
    assert person["old_versions_removed"] > 0
    assert versions(worn) == before, "a preview removed something"
    shown = cli("cleanup", "--keep", "10", "--preview")
    assert f"  {'node:Person':<40} {person['old_versions_removed']} versions" in shown.out
    assert "would remove" in shown.out
    ran = cli("cleanup", "--keep", "10", "--older-than", "7d", "--confirm")
    assert ran.code == 0, ran.err
    policy = "keep 10 versions, remove anything older than 604800s"
    assert ran.out.startswith(f"cleanup {worn} ({policy}) — removed ")
    assert ran.out.rstrip().endswith("across 1 tables")
    assert versions(worn) == before - person["old_versions_removed"]
    assert names(cli) == rows
    assert cli("verify").code == 0


def test_cleanup_takes_nothing_that_is_young(cli, people):
    for number in range(12):
        cli("change", "-q", "people.gq", "-n", "add", "-p", f"name=p{number}")
    done = as_json(cli("cleanup", "--keep", "0", "--older-than", "0", "--confirm", "--json"))
    assert done["tables"] == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 1, "cleanup requires at least one of --keep or --older-than"),
        (("--older-than", "7y"), 1, "unknown duration unit 'y'. Supported: s, m, h, d, w"),
        (("--older-than", ""), 1, "duration is empty"),
        (("--keep", "-1"), 2, "--keep"),
        (("--keep", "1", "--confirm", "--preview"), 2, "exclude each other"),
    ],
)
def test_a_cleanup_that_makes_no_sense_is_refused(cli, people, words, code, message):
    ran = cli("cleanup", *words)
    assert (ran.code, message in ran.err) == (code, True), ran.err


def test_du_shows_every_table_by_its_name_and_the_sum(cli, people):
    found = as_json(cli("du", "--json"))["datasets"]
    assert {"node:Person", "edge:Knows"} <= {one["table_key"] for one in found}
    total = sum(one["total"] for one in found)
    shown = cli("du").out.splitlines()
    assert shown[-1].split() == [str(total), str(people / "people.omni")]
    sizes = [int(line.split()[0]) for line in shown[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    files = [path for path in (people / "people.omni").rglob("*") if path.is_file()]
    assert total == sum(path.stat().st_size for path in files)


def test_indexes_are_listed_built_and_found_behind_again(cli, people):
    before = as_json(cli("index", "list", "--json"))["indexes"]
    assert {one["status"] for one in before} <= {"missing", "pending"}
    built = cli("index", "build")
    assert "node:Person.name BTREE built, 3 of 3 rows" in built.out
    assert "node:Person.name BTREE current, 3 of 3 rows" in cli("index", "list").out
    cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Dan")
    assert "node:Person.name BTREE partial, 3 of 4 rows" in cli("index", "list").out
    assert "node:Person.name BTREE refreshed, 4 of 4 rows" in cli("index", "build").out


def test_upkeep_and_branches_say_who_did_it(cli, worn):
    assert cli("optimize", "--as", "act-keeper").code == 0
    listed = as_json(cli("commit", "list", "--all", "--json"))["commits"]
    assert listed[0]["actor_id"] == "act-keeper"
    made = as_json(cli("branch", "create", "side", "--as", "act-keeper", "--json"))
    gone = as_json(cli("branch", "delete", "side", "--as", "act-keeper", "--json"))
    assert made["actor_id"] == gone["actor_id"] == "act-keeper"


def test_a_deep_check_names_the_file_of_a_flipped_bit(cli, worn, tmp_path):
    assert cli("verify", "--deep", "--journal", "sound.jsonl").code == 0
    known = (tmp_path / "sound.jsonl").read_bytes().split(b"\n")
    told = b'likes "tea"'  # of a property without rules, so that only the bytes can tell
    file = next(one for one in worn.glob("nodes/*/data/*.lance") if told in one.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.index(told)] ^= 1
    file.write_bytes(data)
    assert cli("verify").code == 0
    ran = cli("verify", "--deep", "--json")
    (found,) = [one for one in json.loads(ran.out)["findings"] if not one["harmless"]]
    assert (ran.code, found["kind"]) == (1, "damaged_file")
    assert (worn / found["file"]) == file
    assert found["rows"] > 0
    assert len(found["commits"]) > 0
    assert cli("verify", "--deep", "--journal", "sound.jsonl").code == 0  # found sound before
    assert len((tmp_path / "sound.jsonl").read_bytes().split(b"\n")) == len(known) + 1
    ran = cli("verify", "--journal", "sound.jsonl")
    assert (ran.code, "--journal is of --deep" in ran.err) == (2, True)
