"""Commands about a graph as a whole: from `init` to `lock`, as text and as JSON."""

import json

import lance
import pytest

from omnigraph.storage.store import open_store
from tests.cli.conftest import SCHEMA, write_files


def as_json(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_init_creates_folder_graph_and_settings_beside_it(cli, tmp_path):
    (tmp_path / "people.pg").write_text(SCHEMA)
    ran = cli("init", "--schema", "people.pg", "deep/down/people.omni")
    assert (ran.code, ran.out) == (0, "initialized deep/down/people.omni\n")
    graph = tmp_path / "deep/down/people.omni"
    assert (graph / "_schema.pg").read_text() == SCHEMA
    assert (graph / "__manifest").is_dir()
    assert (tmp_path / "deep/down/omnigraph.yaml").exists()
    assert not (graph / "omnigraph.yaml").exists()
    again = cli("snapshot", "--config", "deep/down/omnigraph.yaml")
    assert again.out.startswith("branch: main\nmanifest_version: 1\n")


def test_init_tells_what_it_made_as_json_and_leaves_settings_alone(cli, tmp_path):
    write_files(tmp_path)
    before = (tmp_path / "omnigraph.yaml").read_text()
    made = as_json(cli("init", "--schema", "people.pg", "new.omni", "--json"))
    assert made.keys() == {"uri", "graph_commit_id", "config_path"}
    assert (made["uri"], made["config_path"]) == ("new.omni", None)
    assert (tmp_path / "omnigraph.yaml").read_text() == before
    (tmp_path / "omnigraph.yaml").unlink()
    made = as_json(cli("init", "--schema", "people.pg", "newer.omni", "--json"))
    assert made["config_path"] == "omnigraph.yaml"


def test_init_leaves_an_existing_graph_untouched(cli, people):
    before = cli("commit", "list").out
    ran = cli("init", "--schema", "people.pg", "people.omni")
    assert ran.code == 1
    assert "there is a graph" in ran.err
    assert cli("commit", "list").out == before


def test_a_wrong_schema_creates_nothing(cli, tmp_path):
    (tmp_path / "bad.pg").write_text("node A { x: Strin }")
    ran = cli("init", "--schema", "bad.pg", "new.omni")
    assert ran.code == 1
    assert "--> bad.pg:1:" in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.pg"]


def test_snapshot_lists_every_table(cli, people):
    ran = cli("snapshot")
    assert ran.out == (
        "branch: main\n"
        "manifest_version: 5\n"
        "edge:Knows v2 branch=main rows=1\n"
        "node:Person v4 branch=main rows=3\n"
    )
    told = as_json(cli("snapshot", "people.omni", "--json"))
    assert (told["branch"], told["manifest_version"]) == ("main", 5)
    assert [table["table_key"] for table in told["tables"]] == ["edge:Knows", "node:Person"]
    assert told["tables"][1].keys() == {
        "table_key", "table_path", "table_version", "table_branch", "row_count",
    }  # fmt: skip
    assert told["tables"][1]["table_path"].startswith("nodes/")
    assert told["tables"][1]["table_branch"] is None


def test_branches_are_created_listed_and_deleted(cli, people):
    assert cli("branch", "list").out == "main\n"
    ran = cli("branch", "create", "--from", "main", "review/2026-04-25", "people.omni")
    assert (ran.code, ran.out) == (0, "created branch review/2026-04-25 from main\n")
    made = as_json(cli("branch", "create", "people.omni", "abc", "--json"))
    assert made == {"uri": "people.omni", "from": "main", "name": "abc", "actor_id": None}
    assert as_json(cli("branch", "list", "--json")) == {
        "branches": ["abc", "main", "review/2026-04-25"]
    }
    assert cli("branch", "delete", "review/2026-04-25").out == "deleted branch review/2026-04-25\n"
    gone = as_json(cli("branch", "delete", "abc", "people.omni", "--json"))
    assert gone == {"uri": "people.omni", "name": "abc", "actor_id": None}
    assert cli("branch", "list").out == "main\n"


def test_a_branch_may_start_from_an_old_commit(cli, people):
    second = as_json(cli("commit", "list", "--reverse", "--json"))["commits"][1]["graph_commit_id"]
    assert cli("branch", "create", "past", "--at", second).code == 0
    ran = cli("read", "-q", "people.gq", "-n", "adults", "-p", "min=0", "-b", "past", "-f", "csv")
    assert ran.out == "p.age,p.name\n41,Ann\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["create", "main"], "cannot create branch 'main'"),
        (["delete", "main"], "cannot delete branch 'main'"),
        (["delete", "nope"], "branch 'nope' not found"),
        (["create", "x", "--from", "nope"], "branch 'nope' not found"),
        (["create", "__x"], "internal system ref"),
        (["create", "a b"], "is not a branch name"),
    ],
)
def test_wrong_branches_are_refused(cli, people, arguments, told):
    ran = cli("branch", *arguments)
    assert ran.code == 1
    assert told in ran.err
    assert ran.out == ""


def test_commits_are_listed_and_shown_by_id(cli, people):
    commits = as_json(cli("commit", "list", "people.omni", "--reverse", "--json"))["commits"]
    assert [commit["manifest_version"] for commit in commits] == [1, 2, 3, 4, 5]
    assert list(commits[1]) == [
        "graph_commit_id", "manifest_branch", "manifest_version", "parent_commit_id",
        "merged_parent_commit_id", "actor_id", "created_at",
    ]  # fmt: skip
    assert commits[1]["actor_id"] == "act-Ann"
    assert commits[1]["parent_commit_id"] == commits[0]["graph_commit_id"]
    assert commits[1]["manifest_branch"] is None
    shown = cli("commit", "list", "--reverse").out.splitlines()
    assert shown[0].startswith(f"{commits[0]['graph_commit_id']} branch=main version=1 at=20")
    assert shown[1].startswith(
        f"{commits[1]['graph_commit_id']} branch=main version=2 actor=act-Ann at=20"
    )
    one = commits[1]
    for words in ([one["graph_commit_id"]], ["people.omni", one["graph_commit_id"]]):
        ran = cli("commit", "show", *words)
        assert ran.out == (
            f"graph_commit_id: {one['graph_commit_id']}\n"
            "manifest_branch: main\n"
            "manifest_version: 2\n"
            f"parent_commit_id: {one['parent_commit_id']}\n"
            "actor_id: act-Ann\n"
            f"created_at: {one['created_at']}\n"
        )
    assert as_json(cli("commit", "show", one["graph_commit_id"], "--json")) == one


def test_commits_of_a_branch_name_it(cli, people):
    cli("branch", "create", "dev")
    cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Dan", "-b", "dev")
    assert "branch=dev version=" in cli("commit", "list", "-b", "dev").out.splitlines()[0]
    assert cli("commit", "list").out.count("\n") == 5


def test_schema_get_and_show_print_the_accepted_text(cli, people):
    assert cli("schema", "get").out == SCHEMA
    assert cli("schema", "show", "people.omni").out == SCHEMA
    assert as_json(cli("schema", "get", "--json")) == {"schema_source": SCHEMA}


def test_schema_plan_lists_steps_and_changes_nothing(cli, people):
    (people / "next.pg").write_text(
        SCHEMA.replace("  bio: String?\n", "  bio: String?\n  x: I64?\n")
    )
    ran = cli("schema", "plan", "--schema", "next.pg", "people.omni")
    assert ran.out == (
        "schema plan for people.omni\n"
        "supported: yes\n"
        "- add property 'Person.x' (I64?) on node 'Person'\n"
    )
    told = as_json(cli("schema", "plan", "--schema", "next.pg", "people.omni", "--json"))
    assert (told["uri"], told["supported"], told["step_count"]) == ("people.omni", True, 1)
    assert told["steps"][0]["kind"] == "add_property"
    same = cli("schema", "plan", "--schema", "people.pg", "people.omni")
    assert same.out == "schema plan for people.omni\nsupported: yes\nno schema changes\n"
    assert cli("schema", "get").out == SCHEMA


def test_an_unsupported_plan_is_an_answer_not_a_failure(cli, people):
    (people / "next.pg").write_text(SCHEMA.replace("age: I32?", "age: Bool?"))
    ran = cli("schema", "plan", "--schema", "next.pg")
    assert ran.code == 0
    assert "supported: no\n- unsupported change on node:Person.age: " in ran.out
    assert "\n  hint: " in ran.out
    told = as_json(cli("schema", "plan", "--schema", "next.pg", "--json"))
    assert told["supported"] is False
    assert "Person.age" in told["steps"][0]["entity"]


def test_drops_are_planned_only_when_allowed(cli, people):
    (people / "next.pg").write_text(SCHEMA.replace("  bio: String?\n", ""))
    assert "supported: no" in cli("schema", "plan", "--schema", "next.pg").out
    allowed = cli("schema", "plan", "--schema", "next.pg", "--allow-data-loss")
    assert "- drop property 'Person.bio' on node 'Person'" in allowed.out


def test_queries_are_linted_against_a_graph(cli, people):
    by_graph = as_json(cli("query", "lint", "-q", "people.gq", "people.omni", "--json"))
    assert by_graph["schema_source"] == {"kind": "repo", "uri": "people.omni"}
    assert by_graph["queries_processed"] == 4
    assert by_graph["query_path"] == str(people / "people.gq")
    by_file = as_json(cli("query", "check", "-q", "people.gq", "-s", "people.pg", "--json"))
    assert by_file["schema_source"] == {
        "kind": "file",
        "path": str(people / "people.pg"),
    }
    assert by_file["results"] == by_graph["results"]


def test_explain_works_with_a_graph_a_file_and_inline(cli, people):
    by_graph = cli("explain", "-q", "people.gq", "-n", "adults")
    by_file = cli("explain", "-q", "people.gq", "-n", "adults", "-s", "people.pg")
    assert by_file.out.startswith("read adults($min: I32)\n  scan p: Person where p.age >= $min\n")
    plain = [line.partition("  | ")[0] for line in by_graph.out.splitlines()]
    assert plain == by_file.out.splitlines()
    # Only a graph knows how large its tables are and how they are reached.
    assert "  | filtered scan, about 1 row\n" in by_graph.out
    inline = cli("explain", "-e", "query q() { match { $p: Person } return { $p.name } }")
    assert "scan p: Person" in inline.out
    plans = as_json(cli("explain", "-q", "people.gq", "people.omni", "--json"))
    assert [one["name"] for one in plans["queries"]] == ["adults", "person", "add", "meet"]


def test_profile_shows_rows_and_time_of_every_operator(cli, people):
    text = "query q() { match { $p: Person not { $p knows $_ } } return { $p.name } }"
    ran = cli("profile", "-e", text)
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].split() == ["rows", "expected", "ms", "operator"]
    assert lines[1].split()[:2] == ["3", "4"]
    assert lines[1].endswith("  | scan")
    assert "scan p: Person" in lines[1]
    assert "anti-join on p" in lines[2]
    assert lines[-1].startswith("2 rows in ")
    told = as_json(cli("profile", "-e", text, "--json"))
    assert told.keys() == {"query_name", "row_count", "compile_ms", "total_ms", "operators"}
    assert told["row_count"] == 2
    assert [one["rows"] for one in told["operators"] if one["depth"] == 0] == [3, 2, 2]
    assert any(one["depth"] == 1 for one in told["operators"])
    assert all(one["ms"] <= told["total_ms"] for one in told["operators"])


def test_verify_passes_a_sound_graph_and_fails_a_broken_one(cli, people):
    ran = cli("verify", "people.omni")
    assert ran.code == 0
    assert "verified people.omni: 0 broken" in ran.out
    assert as_json(cli("verify", "--json"))["status"] == "ok"
    (people / "people.omni" / "_schema.pg").write_text("node Other {}\n")
    broken = cli("verify", "people.omni")
    assert broken.code == 1
    assert "ERROR file_differs _schema.pg: " in broken.out
    told = cli("verify", "--json")
    assert told.code == 1
    (finding,) = [one for one in json.loads(told.out)["findings"] if not one["harmless"]]
    assert (finding["kind"], finding["subject"]) == ("file_differs", "_schema.pg")


def test_repair_shows_takes_over_and_refuses_what_another_tool_did(cli, people):
    assert cli("repair").out.endswith("people.omni: 0 to repair or repaired\n")
    with open_store(str(people / "people.omni"), read_only=True) as store:
        where = store.snapshot().handle("node:Person").dataset.uri
    lance.dataset(where).create_scalar_index("age", "BTREE", name="theirs")
    shown = cli("repair")
    assert "preview node:Person on main: verified_maintenance, CreateIndex" in shown.out
    told = as_json(cli("repair", "--confirm", "--json"))["tables"]
    assert [one["action"] for one in told if one["table_key"] == "node:Person"] == ["healed"]
    lance.dataset(where).delete("name = 'Ada'")
    refused = cli("repair", "--branch", "main", "--confirm")
    assert refused.code == 1
    assert "refused node:Person on main: suspicious, Delete" in refused.out
    written = cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Zoe")
    assert written.code == 1
    assert "omnigraph repair" in written.err
    assert cli("repair", "--confirm", "--force").code == 0
    assert cli("verify").code == 0
    assert cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Zoe").code == 0


def test_locks_are_shown_while_held_and_living_holders_are_left_alone(cli, people):
    assert cli("lock", "show").out == "no locks are held\n"
    assert as_json(cli("lock", "show", "--json")) == {"locks": []}
    assert cli("lock", "break", "branch:main").out == "lock branch:main is not held\n"
    with (
        open_store(str(people / "people.omni")) as store,
        store.kernel.locks.hold("branch:main", "a long write"),
    ):
        shown = cli("lock", "show", "people.omni")
        assert shown.out.startswith("branch:main held by a long write in process ")
        (lock,) = as_json(cli("lock", "show", "--json"))["locks"]
        assert lock.keys() == {"name", "operation", "pid", "host", "since"}
        refused = cli("lock", "break", "branch:main")
        assert refused.code == 1
        assert "is held by a live process: a long write" in refused.err
    told = as_json(cli("lock", "break", "people.omni", "branch:main", "--json"))
    assert told == {"name": "branch:main", "broken": False, "holder": None}
