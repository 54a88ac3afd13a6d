"""Stored queries over HTTP: the catalogue, calling one, and that what is denied is not there."""

import asyncio
import io
import os
import shutil
import signal
import time
from urllib.parse import quote

import httpx2
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.stored import StoredQueryNotFoundError
from tests.cli.conftest import CONFIG, QUERIES
from tests.server.conftest import Asker
from tests.support.servers import environment, server_process

POLICY = """
version: 1
groups: {callers: [act-cal], writers: [act-wil], readers: [act-rea]}
protected_branches: [main]
rules:
  - id: call
    allow: {actors: {group: callers}, actions: [invoke_query], branch_scope: protected}
  - id: write
    allow: {actors: {group: writers}, actions: [read, invoke_query, change], branch_scope: any}
  - id: branch
    allow: {actors: {group: writers}, actions: [branch_create], target_branch_scope: any}
  - id: read
    allow: {actors: {group: readers}, actions: [read], branch_scope: any}
"""
TOKENS = '{"act-cal": "cal", "act-wil": "wil", "act-rea": "rea"}'
SETTINGS = CONFIG + "policy:\n  file: policy.yaml\nqueries:\n  files: [stored]\n  expose: [add]\n"


def laid_out(template, folder):
    shutil.copytree(template, folder, dirs_exist_ok=True)
    (folder / "stored").mkdir()
    (folder / "stored" / "people.gq").write_text(QUERIES)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "omnigraph.yaml").write_text(SETTINGS)
    return folder


@pytest.fixture(scope="module")
def folder(template, tmp_path_factory):
    return laid_out(template, tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def server(folder):
    bind = ("people.omni", "--bind", "127.0.0.1:0")
    with server_process(folder, *bind, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=TOKENS) as server:
        server.hear_address()
        yield server


@pytest.fixture
def ask(server, http):
    def asker(name):
        return Asker(http, server.address, {"authorization": f"Bearer {name}"})

    return asker


def test_the_catalogue_is_as_clients_know_it(ask):
    found = ask("wil").get("/queries").json()["queries"]
    assert [one["name"] for one in found] == ["add", "adults", "meet", "person"]
    assert found[1] == {
        "name": "adults",
        "tool_name": "q_adults",
        "description": None,
        "instruction": None,
        "mutation": False,
        "params": [{"name": "min", "kind": "int", "nullable": False}],
        "exposed": True,
    }
    names = [one["name"] for one in ask("cal").get("/queries").json()["queries"]]
    assert names == ["adults", "person"]
    assert ask("rea").get("/queries").status_code == 403


def test_a_read_is_answered_in_every_layout(ask):
    cal = ask("cal")
    said = cal.post("/queries/adults", {"params": {"min": 18}}).json()
    assert said["rows"] == [{"p.age": 41, "p.name": "Ann"}, {"p.age": 30, "p.name": "Cé"}]
    assert said["query_name"] == "adults"
    assert said["graph_commit_id"]
    arrow = {"accept": "application/vnd.apache.arrow.stream"}
    body = cal.post("/queries/adults", {"params": {"min": 18}}, headers=arrow).content
    assert pa.ipc.open_stream(io.BytesIO(body)).read_all().num_rows == 2
    lines = {"accept": "application/x-ndjson"}
    said = cal.post("/queries/adults", {"params": {"min": 18}}, headers=lines).text
    assert len(said.splitlines()) == 2
    past = said = cal.post("/queries/adults", {"params": {"min": 18}}).headers["omnigraph-commit"]
    again = cal.post("/queries/adults", {"params": {"min": 18}, "snapshot": past}).json()
    assert again["target"] == {"branch": None, "snapshot": past}


def test_who_may_call_may_not_write_queries_of_their_own(ask):
    text = "query q() { match { $p: Person } return { $p.name } }"
    assert ask("cal").post("/read", {"query_source": text}).status_code == 403


def test_what_is_denied_and_what_is_not_there_look_the_same(ask):
    def refused(who, name, body=None):
        answer = ask(who).post(f"/queries/{quote(name, safe='')}", body)
        assert answer.status_code == 404, answer.text
        return (
            answer.json()
            | {"error": answer.json()["error"].replace(name, "<name>")}
            | {"fields": None}
        )

    unknown = refused("wil", "nope")
    assert unknown["error"] == "query '<name>' not found"
    assert "hint" not in unknown
    assert refused("rea", "adults") == unknown
    assert refused("cal", "add", {"params": {"name": "x"}}) == unknown
    assert refused("cal", "adults", {"params": {"min": 1}, "branch": "draft"}) == unknown
    assert refused("cal", "person", {"branch": "other"}) == unknown


HOSTILE = ["../read", "a/b", "%2e%2e", "'; drop", "<script>", "add\n", "é", "x" * 300, " add "]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_odd_names_are_names_that_are_not_there(ask, name):
    answer = ask("wil").post(f"/queries/{quote(name, safe='')}", {})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_write_is_one_commit_with_its_actor_key_and_condition(ask):
    wil = ask("wil")
    assert wil.post("/branches", {"name": "of/wil"}).status_code == 200
    body = {"params": {"name": "Dan", "age": 9}, "branch": "of/wil", "message": "why not"}
    key = {"idempotency-key": "k1"}
    done = wil.post("/queries/add", body, headers=key).json()
    assert (done["affected_nodes"], done["actor_id"], done["replayed"]) == (1, "act-wil", False)
    again = wil.post("/queries/add", body, headers=key).json()
    assert (again["commit_id"], again["replayed"]) == (done["commit_id"], True)
    stale = {"omnigraph-if-graph-commit": "01HXXXXXXXXXXXXXXXXXXXXXXX"}
    body["params"]["name"] = "Eve"
    moved = wil.post("/queries/add", body, headers=stale)
    assert (moved.status_code, moved.json()["precondition_failure"]["actual"]) == (
        412,
        done["commit_id"],
    )
    seen = wil.post("/queries/add", body | {"preview": True}).json()
    assert (seen["affected_nodes"], seen["commit_id"]) == (1, None)
    assert wil.post("/queries/add", body | {"snapshot": "x"}).status_code == 400
    assert wil.post("/queries/adults", {"params": {"min": 1}, "message": "m"}).status_code == 400


def test_wrong_parameters_are_told_like_those_of_any_query(ask):
    answer = ask("cal").post("/queries/adults", {"params": {"min": "x"}})
    assert (answer.status_code, answer.json()["class"]) == (400, "ParamError")
    assert ask("cal").post("/queries/adults").json()["class"] == "MissingParamError"
    assert ask("cal").post("/queries/adults", {"params": [1]}).status_code == 400


def test_a_remote_graph_has_them_like_a_local_one(server, ask):
    with omnigraph.connect(server.address, token="wil") as graph:
        assert graph.queries.get("meet").mutation
        assert len(graph.queries.run("adults", {"min": 18})) == 2
        graph.branches.create("remote")
        done = graph.queries.run("add", {"name": "Fay", "age": 3}, branch="remote", message="m")
        assert graph.commits.get(done.commit_id).message == "m"
        assert (
            graph.queries.run("add", {"name": "G"}, branch="remote", preview=True).commit_id is None
        )
        with pytest.raises(StoredQueryNotFoundError):
            graph.queries.run("nope")
        with pytest.raises(StoredQueryNotFoundError):
            graph.queries.get("nope")


def test_an_awaited_graph_has_them_too(server):
    async def run():
        async with omnigraph.aio.connect(server.address, "wil") as graph:
            names = [one.name for one in await graph.queries.list()]
            return names, len(await graph.queries.run("adults", {"min": 18}))

    assert asyncio.run(run()) == (["add", "adults", "meet", "person"], 2)


def until(ask, wanted):
    """Wait until a server tells something; it reads its files between requests."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [one["name"] for one in ask.get("/queries").json()["queries"]]
        if found == wanted:
            return
    raise AssertionError(found)


def test_files_and_settings_are_read_again_without_a_restart(template, tmp_path, http):
    folder = laid_out(template, tmp_path)
    bind = ("people.omni", "--bind", "127.0.0.1:0")
    with server_process(folder, *bind, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=TOKENS) as server:
        server.hear_address()
        wil = Asker(http, server.address, {"authorization": "Bearer wil"})
        more = "query old() { match { $p: Person $p.age > 29 } return { $p.name } }"
        (folder / "stored" / "more.gq").write_text(more)
        until(wil, ["add", "adults", "meet", "old", "person"])
        assert len(wil.post("/queries/old", {}).json()["rows"]) == 2
        (folder / "stored" / "more.gq").write_text(more.replace("age > 29", "wage > 29"))
        refused = wil.post("/queries/old", {})
        assert refused.status_code == 400
        assert "stored query 'old': more.gq:1:" in refused.text
        assert str(folder) not in refused.text
        (folder / "other").mkdir()
        (folder / "other" / "one.gq").write_text(more.replace("old", "one"))
        changed = SETTINGS.replace("files: [stored]\n  expose: [add]", "files: [other]")
        (folder / "omnigraph.yaml").write_text(changed)
        server.tell(signal.SIGHUP)
        until(wil, ["one"])
        (folder / "omnigraph.yaml").write_text(changed.replace("[other]", "[nowhere]"))
        server.tell(signal.SIGHUP)
        while "old stored queries stay in force" not in server.notes.read_text():
            assert wil.get("/healthz").status_code == 200
        assert [one["name"] for one in wil.get("/queries").json()["queries"]] == ["one"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("query broken( {", "people.gq"),
        ("query q() { match { $p: Persn } return { $p.name } }", "stored query 'q'"),
    ],
    ids=["syntax", "schema"],
)
def test_a_server_does_not_start_with_a_query_that_means_nothing(template, tmp_path, text, said):
    folder = laid_out(template, tmp_path)
    (folder / "stored" / "people.gq").write_text(text)
    (folder / "omnigraph.yaml").write_text(SETTINGS.replace("  expose: [add]\n", ""))
    bind = ("people.omni", "--bind", "127.0.0.1:0")
    with server_process(folder, *bind, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=TOKENS) as server:
        assert server.process.wait(120) != 0
        assert said in server.notes.read_text()


def test_without_tokens_everybody_calls_everything(people, monkeypatch):
    from tests.support.servers import server_thread

    (people / "omnigraph.yaml").write_text(CONFIG + "queries:\n  files: [people.gq]\n")
    for name in os.environ:  # noqa: TID251 - what this machine may have set
        if name not in environment():
            monkeypatch.delenv(name)
    config = str(people / "omnigraph.yaml")
    with (
        server_thread(str(people / "people.omni"), config=config) as address,
        httpx2.Client() as client,
    ):
        said = client.post(f"{address}/queries/adults", json={"params": {"min": 18}})
        assert said.json()["row_count"] == 2
        done = client.post(f"{address}/queries/add", json={"params": {"name": "Gil"}})
        assert done.json()["affected_nodes"] == 1
