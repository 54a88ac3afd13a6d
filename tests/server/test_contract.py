"""The 0.3 contract over a real socket: routes, shapes, statuses and words that clients rely on."""

import json

import jsonschema_rs
import orjson
import pyarrow as pa
import pytest

from omnigraph import __version__
from omnigraph.server import openapi
from omnigraph.server.routes import ROUTES
from tests.server.conftest import ADD, ADULTS

OPERATIONS = {
    "health", "getSnapshot", "read", "export", "change", "getSchema", "ingest", "listBranches",
    "createBranch", "mergeBranches", "deleteBranch", "listRuns", "getRun", "publishRun", "abortRun",
    "listCommits", "getCommit", "applySchema",
}  # fmt: skip
SCHEMAS = (
    "BranchCreateOutput BranchCreateRequest BranchDeleteOutput BranchListOutput BranchMergeOutcome "
    "BranchMergeOutput BranchMergeRequest ChangeOutput ChangeRequest CommitListOutput CommitOutput "
    "ErrorCode ErrorOutput ExportRequest HealthOutput IngestOutput IngestRequest IngestTableOutput "
    "LoadMode MergeConflictKindOutput MergeConflictOutput ReadOutput ReadRequest ReadTargetOutput "
    "RunListOutput RunOutput SchemaApplyOutput SchemaApplyRequest SchemaOutput SnapshotOutput "
    "SnapshotTableOutput"
).split()


def check(name, answer, status=200):
    """The answer has the shape the document says."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    document = openapi.emit_contract()
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema_rs.validator_for(schema).validate(answer.json())
    return answer.json()


def test_the_checked_in_document_is_what_the_types_say():
    assert openapi.text(openapi.emit_contract()) == openapi.CONTRACT_FILE.read_bytes(), (
        "write openapi.text(openapi.emit_contract()) to openapi.CONTRACT_FILE"
    )


def test_the_document_is_the_contract_and_nothing_else():
    document = openapi.emit_contract()
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert {one["operationId"] for one in operations} == OPERATIONS
    assert (len(document["paths"]), len(operations)) == (17, 18)
    assert sorted(document["components"]["schemas"]) == sorted(SCHEMAS)
    assert document["info"]["version"] == __version__
    assert all(one["tags"] for one in operations)
    for one in operations:
        assert ("security" in one) == (one["operationId"] != "health")


def test_the_document_is_served_and_open_servers_speak_of_no_tokens(nobody):
    assert nobody.get("/openapi.json").json() == openapi.emit_contract()
    open_document = openapi.contract_document(secured=False)
    assert "security" not in json.dumps(open_document)
    full = nobody.get("/openapi.full.json").json()
    assert {route.path for route in ROUTES} == set(full["paths"])
    assert "<script" in nobody.get("/docs").text


def test_health_needs_no_token_and_says_which_version(nobody):
    found = check("HealthOutput", nobody.get("/healthz"))
    assert found == {"status": "ok", "version": __version__}
    assert __version__.startswith("0.3.")
    assert nobody.get("/readyz").json()["status"] == "ready"


def test_a_read_returns_rows_in_order_with_their_columns(ann):
    found = check("ReadOutput", ann.post("/read", {"query_source": ADULTS}))
    assert found["target"] == {"branch": "main", "snapshot": None}
    assert found["columns"] == ["p.name", "p.age"]
    assert found["rows"] == [{"p.name": "Ann", "p.age": 41}, {"p.name": "Cé", "p.age": 30}]
    assert found["row_count"] == 2


def test_a_change_is_read_by_the_next_request(ann, branch):
    asked = {"query_source": ADD, "params": {"name": "Dan"}, "branch": branch}
    done = check("ChangeOutput", ann.post("/change", asked))
    assert (done["affected_nodes"], done["actor_id"], done["branch"]) == (1, "act-ann", branch)
    rows = ann.post("/read", {"query_source": ADULTS, "branch": branch}).json()["rows"]
    assert {"p.name": "Dan", "p.age": 50} in rows
    commit = check("CommitOutput", ann.get(f"/commits/{done['commit_id']}"))
    assert commit["actor_id"] == "act-ann"


def test_a_snapshot_reads_the_past_and_may_stand_beside_its_branch(ann, branch):
    before = ann.get("/snapshot", params={"branch": branch}).json()["graph_commit_id"]
    ann.post("/change", {"query_source": ADD, "params": {"name": "Dan"}, "branch": branch})
    past = {"query_source": ADULTS, "snapshot": before}
    found = check("ReadOutput", ann.post("/read", past))
    assert found["target"] == {"branch": None, "snapshot": before}
    assert found["row_count"] == 2
    assert ann.post("/read", past | {"branch": branch}).json()["row_count"] == 2
    now = ann.get("/snapshot", params={"branch": branch}).json()["graph_commit_id"]
    refused = ann.post("/read", {"query_source": ADULTS, "snapshot": now, "branch": "main"})
    assert refused.status_code == 400
    assert "may specify branch or snapshot, not both" in refused.json()["error"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/snapshot", "SnapshotOutput"),
        ("/schema", "SchemaOutput"),
        ("/branches", "BranchListOutput"),
        ("/runs", "RunListOutput"),
        ("/commits", "CommitListOutput"),
    ],
)
def test_lists_have_their_shapes(ann, path, name):
    check(name, ann.get(path))


def test_branches_are_made_listed_merged_and_deleted(ann):
    made = check(
        "BranchCreateOutput", ann.post("/branches", {"name": "review/x y".replace(" y", "")})
    )
    assert (made["from"], made["name"]) == ("main", "review/x")
    assert "review/x" in ann.get("/branches").json()["branches"]
    again = check("ErrorOutput", ann.post("/branches", {"name": "review/x"}), 409)
    assert again["error"] == "branch 'review/x' already exists"
    merged = check("BranchMergeOutput", ann.post("/branches/merge", {"source": "review/x"}))
    assert merged["outcome"] == "already_up_to_date"
    gone = check("BranchDeleteOutput", ann.delete("/branches/review%2Fx"))
    assert gone["name"] == "review/x"
    assert ann.delete("/branches/review%2Fx").status_code == 404
    assert ann.post("/branches", {"name": "main"}).status_code == 409
    assert ann.delete("/branches/main").json()["error"] == "cannot delete branch 'main'"
    assert (
        "distinct source and target"
        in ann.post("/branches/merge", {"source": "main", "target": "main"}).json()["error"]
    )


def test_a_branch_called_merge_can_be_deleted(ann):
    assert ann.post("/branches", {"name": "merge"}).status_code == 200
    assert ann.delete("/branches/merge").json()["name"] == "merge"


def test_ingest_makes_the_branch_and_its_rows_are_there_at_once(ann):
    line = '{"type":"Person","data":{"name":"Eve","age":33}}\n'
    asked = {"data": line, "branch": "fresh", "from": "main"}
    done = check("IngestOutput", ann.post("/ingest", asked))
    assert (done["branch_created"], done["base_branch"], done["mode"]) == (True, "main", "merge")
    assert done["tables"] == [{"table_key": "node:Person", "rows_loaded": 1}]
    assert ann.post("/read", {"query_source": ADULTS, "branch": "fresh"}).json()["row_count"] == 3
    assert (
        ann.post("/ingest", asked | {"from": None, "mode": None}).json()["branch_created"] is False
    )


def test_load_to_a_branch_that_is_not_there_is_refused_without_a_source(ann):
    line = '{"type":"Person","data":{"name":"Eve"}}\n'
    refused = ann.post("/load", {"data": line, "branch": "nowhere", "mode": "merge"})
    assert check("ErrorOutput", refused, 404)["error"] == "branch 'nowhere' not found"
    assert "nowhere" not in ann.get("/branches").json()["branches"]


def test_lines_can_be_the_body_itself(ann, branch):
    lines = b"".join(
        b'{"type":"Person","data":{"name":"n%d","age":20}}\n' % number for number in range(30_000)
    )
    done = ann.post("/load/ndjson", params={"branch": branch, "mode": "append"}, content=lines)
    assert done.status_code == 200, done.text
    assert done.json()["nodes_loaded"] == 30_000
    bad = ann.post(
        "/load/ndjson", params={"branch": branch, "mode": "merge"}, content=b'{"type":1}\n'
    )
    assert bad.status_code == 400
    assert "<body>:1" in bad.json()["error"]


@pytest.mark.parametrize("path", ["/load", "/load/ndjson"])
def test_a_load_replaces_nothing_unless_told_to(ann, branch, path):
    line = b'{"type":"Person","data":{"name":"Eve"}}\n'
    if path == "/load":
        done = ann.post(path, {"data": line.decode(), "branch": branch})
    else:
        lines = {"content-type": "application/x-ndjson"}
        done = ann.post(path, params={"branch": branch}, content=line, headers=lines)
    assert check("IngestOutput", done)["mode"] == "merge"
    count = {"query": "query n() { match { $p: Person } return { count($p) as n } }"}
    assert ann.post("/query", count | {"branch": branch}).json()["rows"] == [{"n": 4}]


def test_newer_names_say_which_commit_was_read_and_made(ann, branch):
    asked = {"query": ADD, "name": "add", "params": {"name": "Dan"}, "branch": branch}
    done = check("ChangeOutput", ann.post("/mutate", asked))
    assert done["commit"]["graph_commit_id"] == done["commit_id"]
    assert done["commit"]["actor_id"] == "act-ann"
    found = check("ReadOutput", ann.post("/query", {"query": ADULTS, "branch": branch}))
    assert found["graph_commit_id"] == done["commit_id"]
    nothing = {"query": 'query no() { delete Person where name = "nobody" }', "branch": branch}
    assert ann.post("/mutate", nothing).json()["commit"] is None


def test_an_export_loads_back(ann, branch):
    answer = ann.post("/export", {})
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert answer.content.endswith(b"\n")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [one.get("edge") or one["type"] for one in lines] == ["Knows", *["Person"] * 3]
    assert "bio" in lines[1]["data"]
    done = ann.post("/load", {"data": answer.text, "branch": branch, "mode": "overwrite"}).json()
    assert (done["nodes_loaded"], done["edges_loaded"]) == (3, 1)
    only = ann.post("/export", {"type_names": ["Knows"]}).text.splitlines()
    assert len(only) == 1
    assert ann.get("/export", params={"type": "Knows"}).text.splitlines() == only


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"type_names": ["Nope"]}, "unknown export type 'Nope'"),
        ({"table_keys": ["node:Nope"]}, "unknown export table 'node:Nope'"),
        ({"branch": "nope"}, "branch 'nope' not found"),
    ],
)
def test_an_export_is_refused_before_it_begins(ann, asked, told):
    refused = check("ErrorOutput", ann.post("/export", asked), 404)
    assert refused["error"] == told


def test_commits_come_newest_first_and_the_other_way_if_asked(ann, branch):
    for name in ("Dan", "Eve"):
        ann.post("/change", {"query_source": ADD, "params": {"name": name}, "branch": branch})
    newest = ann.get("/commits", params={"branch": branch}).json()["commits"]
    oldest = ann.get("/commits", params={"branch": branch, "order": "asc"}).json()["commits"]
    assert newest == oldest[::-1]
    assert newest[0]["created_at"] > newest[-1]["created_at"]
    assert (
        ann.get("/commits", params={"branch": branch, "limit": "1"}).json()["commits"] == newest[:1]
    )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/commits/01HXXXXXXXXXXXXXXXXXXXXXXX", "commit '01HXXXXXXXXXXXXXXXXXXXXXXX' not found"),
        ("/runs/01HXXXXXXXXXXXXXXXXXXXXXXX", "run '01HXXXXXXXXXXXXXXXXXXXXXXX' not found"),
        ("/snapshot?branch=nope", "branch 'nope' not found"),
        ("/commits?branch=nope", "branch 'nope' not found"),
    ],
)
def test_what_is_not_there_is_404(ann, path, told):
    assert check("ErrorOutput", ann.get(path), 404)["error"] == told


def test_runs_are_ended_without_a_body(ann):
    for how in ("publish", "abort"):
        refused = ann.post(f"/runs/01HXXXXXXXXXXXXXXXXXXXXXXX/{how}")
        assert check("ErrorOutput", refused, 404)["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/read", {"query_source": ADD, "params": {"name": "x"}}, "is a mutation"),
        ("/change", {"query_source": ADULTS}, "is a read"),
        ("/read", {}, "query_source is missing"),
        ("/read", {"query_source": 1}, "Expected `str | null`, got `int`"),
        ("/read", {"query_source": ADULTS, "params": [1]}, "params must be a JSON object"),
        ("/read", {"query_source": ADULTS, "branch": "../x"}, "is not a branch name"),
        ("/read", {"query_source": "people.gq"}, "<query>:1:1"),
        ("/read", {"query_source": ADULTS + ADULTS.replace("adults", "x")}, "multiple queries"),
        ("/branches", {"name": "__run__x"}, "internal system ref"),
        ("/ingest", {"data": "{}\n", "mode": "upsert"}, "Invalid enum value"),
        ("/revert", {"commit": "x", "strategy": "mine"}, "strategy is fail, ours, theirs"),
    ],
)
def test_a_request_that_is_wrong_is_400_and_says_why(ann, path, body, told):
    refused = check("ErrorOutput", ann.post(path, body), 400)
    assert told in refused["error"]
    assert refused["code"] == "bad_request"


def test_a_query_that_is_not_there_is_404(ann):
    refused = ann.post("/read", {"query_source": ADULTS, "query_name": "kids"})
    assert check("ErrorOutput", refused, 404)["error"] == "query 'kids' not found"


def test_compile_errors_carry_their_places(ann):
    refused = ann.post("/read", {"query_source": "query q() { match { $p: Persn } return { $p } }"})
    found = check("ErrorOutput", refused, 400)
    assert found["kind"] == "compile"
    assert found["diagnostics"][0]["line"] == 1
    assert found["hint"] == "did you mean `Person`?"


def test_newer_names_are_the_same(ann, branch):
    assert ann.post("/query", {"query": ADULTS, "name": "adults"}).json()["row_count"] == 2
    assert ann.post("/read", {"query": ADULTS}).json()["row_count"] == 2
    done = ann.post("/mutate", {"query": ADD, "params": {"name": "Dan"}, "branch": branch}).json()
    assert done["affected_nodes"] == 1
    assert ann.post("/graphs/default/read", {"query": ADULTS}).json()["row_count"] == 2
    assert ann.post("/graphs/other/read", {"query": ADULTS}).status_code == 404


def test_a_conditional_write_needs_its_route_and_the_commit_it_names(ann, branch):
    head = ann.get("/snapshot", params={"branch": branch}).json()["graph_commit_id"]
    asked = {"query": ADD, "params": {"name": "Dan"}, "branch": branch}
    header = {"omnigraph-if-graph-commit": head}
    for path in ("/mutate", "/change", "/ingest", "/read"):
        assert ann.post(path, asked, headers=header).status_code == 400
    assert ann.post("/mutate/if-graph-commit", asked).status_code == 400
    assert ann.post("/mutate/if-graph-commit", asked, headers=header).status_code == 200
    other = {"query": ADD, "params": {"name": "Eve"}, "branch": branch}
    failed = ann.post("/mutate/if-graph-commit", other, headers=header)
    assert failed.status_code == 412
    assert failed.json()["precondition_failure"]["expected"] == head


def test_a_key_writes_once_and_belongs_to_its_actor(ann, bob, branch):
    asked = {"query": ADD, "params": {"name": "Dan"}, "branch": branch}
    key = {"idempotency-key": f"k-{branch}"}
    first = ann.post("/change", asked, headers=key).json()
    again = ann.post("/change", asked, headers=key).json()
    assert (again["commit_id"], again["replayed"]) == (first["commit_id"], True)
    conflict = ann.post("/change", asked | {"params": {"name": "Eve"}}, headers=key)
    assert conflict.status_code == 409
    other = bob.post("/change", asked | {"params": {"name": "Eve"}}, headers=key)
    assert other.json()["replayed"] is False
    assert ann.post("/change", asked, headers={"idempotency-key": "x" * 300}).status_code == 400


def test_conflicts_of_a_merge_are_all_told_and_nothing_is_written(ann, branch):
    other = f"{branch}-b"
    ann.post("/branches", {"name": other, "from": branch})
    text = 'query q($a: I32) { update Person set { age: $a } where name = "Ann" }'
    for name, age in ((branch, 1), (other, 2)):
        done = ann.post("/change", {"query_source": text, "params": {"a": age}, "branch": name})
        assert done.status_code == 200, done.text
    before = ann.get("/snapshot", params={"branch": branch}).json()
    refused = ann.post("/branches/merge", {"source": other, "target": branch})
    found = check("ErrorOutput", refused, 409)
    assert found["error"].startswith("merge conflicts: node:Person:Ann (divergent_update)")
    assert [one["row_id"] for one in found["merge_conflicts"]] == ["Ann"]
    assert ann.get("/snapshot", params={"branch": branch}).json() == before


def test_what_changed_is_told_in_pages_lines_and_sums(ann, branch):
    for name in ("Dan", "Eve", "Fay"):
        ann.post("/change", {"query_source": ADD, "params": {"name": name}, "branch": branch})
    asked = {"from": "main", "to": branch, "limit": "2"}
    first = ann.get("/diff", params=asked).json()
    assert [one["id"] for one in first["changes"]] == ["Dan", "Eve"]
    rest = ann.get("/diff", params={"page_token": first["next_page_token"], "from": "x"}).json()
    assert [one["id"] for one in rest["changes"]] == ["Fay"]
    assert rest["next_page_token"] is None
    lines = ann.get("/diff", params=asked, headers={"accept": "application/x-ndjson"})
    assert len(lines.text.splitlines()) == 3
    assert ann.get("/diff", params=asked | {"stat": "1"}).json()["stats"]["inserts"] == 3
    newest = ann.get("/commits", params={"branch": branch}).json()["commits"][0]
    changes = ann.get(f"/commits/{newest['graph_commit_id']}/changes").json()["changes"]
    assert [(one["op"], one["id"]) for one in changes] == [("insert", "Fay")]
    feed = ann.get("/changes", params={"branch": branch}).text.splitlines()
    assert [one["id"] for one in json.loads(feed[-1])["changes"]] == ["Fay"]
    history = ann.get(
        "/entity/history", params={"table": "node:Person", "id": "Fay", "branch": branch}
    )
    assert [one["op"] for one in history.json()["versions"]] == ["insert"]
    undone = ann.post("/revert", {"commit": newest["graph_commit_id"], "branch": branch}).json()
    assert undone["operation"] == "revert"
    params = {"table": "node:Person", "id": "Fay", "branch": branch}
    assert ann.get("/entity", params=params).status_code == 404


def test_a_schema_is_applied_compared_and_seen_at_once(ann, branch):
    text = ann.get("/schema").json()["schema_source"]
    more = text.replace("age: I32?", "age: I32?\n  height: F32?")
    asked = {"schema_source": more, "branch": branch}
    done = check("SchemaApplyOutput", ann.post("/schema/apply", asked))
    assert (done["applied"], done["step_count"]) == (True, 1)
    assert ann.get("/schema", params={"branch": branch}).json()["schema_source"] == more
    assert ann.get("/schema").json()["schema_source"] == text
    again = check("SchemaApplyOutput", ann.post("/schema/apply", asked))
    assert again["applied"] is False
    found = ann.post("/schema/diff", {"before": "main", "after": branch}).json()
    assert [step["kind"] for step in found["steps"]] == ["add_property"]
    newest = ann.get("/schema/history", params={"branch": branch}).json()["versions"][0]
    assert newest["actor_id"] == "act-ann"
    worse = {"schema_source": text.replace("age: I32?", "age: String?"), "branch": branch}
    refused = check("ErrorOutput", ann.post("/schema/apply", worse), 400)
    assert refused["class"] == "SchemaUnsupportedError"
    only = ann.post("/schema/apply", {"schema_source": more, "only_main": True})
    assert check("ErrorOutput", only, 409)["error"].startswith(
        "schema apply requires a repo with only main; found non-main branches: "
    )


def test_a_file_of_the_server_is_no_schema(ann):
    refused = ann.post("/schema/diff", {"before": "main", "after": "people.pg"})
    assert check("ErrorOutput", refused, 404)["error"] == "there is no branch or commit 'people.pg'"


def test_tags_name_commits(ann, branch):
    made = ann.post("/tags", {"name": "v/1", "branch": branch, "message": "as shipped"}).json()
    assert made["actor_id"] == "act-ann"
    assert ann.get("/tags").json()["tags"] == [made]
    assert ann.post("/read", {"query_source": ADULTS, "snapshot": "v/1"}).json()["row_count"] == 2
    assert ann.delete("/tags/v%2F1").status_code == 200
    assert ann.get("/tags").json()["tags"] == []


def test_upkeep_goes_through_the_server(ann):
    done = ann.post("/maintenance/optimize").json()
    assert set(done["tables"][0]) >= {
        "table_key",
        "fragments_removed",
        "fragments_added",
        "committed",
    }
    asked = {"tables": ["node:Person"], "preview": True, "max_seconds": 60}
    (told,) = ann.post("/maintenance/optimize", asked).json()["tables"]
    assert (told["table_key"], told["committed"]) == ("node:Person", False)
    assert ann.get("/maintenance/indexes", params={"branch": "main"}).json()["indexes"]
    preview = ann.post("/maintenance/cleanup", {"keep_versions": 1}).json()
    assert preview["dry_run"] is True
    assert ann.post("/maintenance/cleanup", {}).status_code == 400
    for wrong in ({"keep_versions": 2**64}, {"older_than_secs": 1e308}, {"keep_versions": -1}):
        assert ann.post("/maintenance/cleanup", wrong).status_code == 400, wrong
    assert ann.get("/maintenance/verify").json()["status"] == "ok"
    assert ann.get("/locks").json() == {"locks": []}


def test_large_answers_are_the_same_rows_in_every_layout(ann, branch):
    lines = b"".join(
        b'{"type":"Person","data":{"name":"n%d","age":%d,"bio":"say \\"%d\\""}}\n' % (n, n % 90, n)
        for n in range(12_000)
    )
    params = {"branch": branch, "mode": "merge"}
    assert ann.post("/load/ndjson", params=params, content=lines).status_code == 200
    text = "query q() { match { $p: Person } return { $p.name, $p.age, $p.bio } }"
    asked = {"query_source": text, "branch": branch}
    whole = ann.post("/read", asked).json()
    assert whole["row_count"] == len(whole["rows"]) == 12_003
    for accept in ("application/x-ndjson",):
        found = ann.post("/read", asked, headers={"accept": accept, "accept-encoding": "gzip"})
        assert found.headers["content-encoding"] == "gzip"
        assert [orjson.loads(line) for line in found.content.splitlines()] == whole["rows"]


def test_an_answer_without_rows_has_its_columns_in_every_layout(ann):
    text = "query one($n: String) { match { $p: Person $p.name = $n } return { $p.name, $p.age } }"
    for _ in range(4):  # at first, and once it is at hand
        for name, rows in (("Ann", 1), ("nobody", 0)):
            asked = {"query_source": text, "params": {"n": name}}
            arrow = {"accept": "application/vnd.apache.arrow.stream"}
            found = ann.post("/read", asked, headers=arrow)
            assert found.status_code == 200, found.text
            with pa.ipc.open_stream(found.content) as stream:
                table = stream.read_all()
            assert (table.num_rows, table.column_names) == (rows, ["p.name", "p.age"])
            lines = ann.post("/read", asked, headers={"accept": "application/x-ndjson"})
            assert len(lines.text.splitlines()) == rows
            assert check("ReadOutput", ann.post("/read", asked))["columns"] == ["p.name", "p.age"]


def test_limits_of_a_request_only_tighten(ann):
    asked = {"query_source": ADULTS, "limits": {"rows": 1}}
    refused = check("ErrorOutput", ann.post("/read", asked), 413)
    assert refused["code"] == "bad_request"
    assert refused["resource_limit"] == {"resource": "rows", "limit": 1}
    late = ann.post("/read", asked | {"limits": {"seconds": 1e-9}})
    assert check("ErrorOutput", late, 413)["resource_limit"] == {
        "resource": "seconds",
        "limit": 1e-9,
    }
    assert ann.post("/read", asked | {"limits": {"rows": 10**9}}).status_code == 200
    assert ann.post("/read", asked | {"limits": {"seconds": -1}}).status_code == 400


def test_integers_can_be_made_safe_for_javascript(ann):
    text = "query q() { match { $p: Person } return { count($p) as n } }"
    assert ann.post("/read?js_safe=1", {"query_source": text}).json()["rows"] == [{"n": 3}]
    assert ann.post("/read?js_safe=maybe", {"query_source": text}).status_code == 400
