"""`/mcp` of a server: the same tools behind its tokens, its policy and its walls."""

import json
import os
import shutil
import sys

import httpx2
import pytest

import omnigraph
from omnigraph.cli.app import run
from tests.mcp.asking import asking_http
from tests.mcp.conftest import EXAMPLES
from tests.support.servers import environment, server_process, server_thread

TOKENS = '{"act-mira": "token-of-mira", "act-agent": "token-of-agent", "act-eve": "token-of-eve"}'
SETTINGS = """
storage: {durability: os}
policy: {file: policy.yaml}
queries: {files: [company.gq], expose: [record_meeting]}
"""
NAMES = "query names() { match { $p: Person } return { $p.handle } order { $p.handle } }"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
TYPES = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "authorization": "Bearer token-of-agent",
}


@pytest.fixture(scope="module")
def folder(template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mounted")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    shutil.copy(EXAMPLES / "policy.yaml", folder)
    (folder / "omnigraph.yaml").write_text(SETTINGS)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    arguments = ("company.omni", "--bind", "127.0.0.1:0", "--tools", "all")
    with server_process(folder, *arguments, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=TOKENS) as server:
        server.hear_address()
        yield server


@pytest.fixture
def agent(server):
    with asking_http(server.address, "token-of-agent") as asked:
        yield asked


def test_an_agent_finds_changes_repairs_proposes_and_a_person_merges(agent, server):
    with omnigraph.connect(server.address, token="token-of-mira") as mira:
        main = mira.snapshot().commit_id
        # It finds.
        assert "churn-notes" in agent.text("search", text="interviews")
        assert "reportsTo" in agent.text("neighbours", type="Person", id="ines")
        assert agent.told("q_colleagues", handle="mira")["row_count"] == 3
        # It works on a branch of its own, and corrects a query by what the error says.
        branch = agent.told("start_work", task="promote ines")["branch"]
        assert branch == "agents/act-agent/promote-ines"
        text = 'query p() { update Person set { levle: "mid" } where handle = "ines" }'
        said = agent.refused("change", query=text, branch=branch)
        assert "did you mean `level`?" in said
        text = text.replace("levle", "level")
        agent.text("change", query=text, branch=branch, dry_run=True)
        done = agent.told("change", query=text, branch=branch, message="a year is over")
        assert agent.told("change", query=text, branch=branch)["replayed"] is True
        assert '~ Person ines level: "junior" -> "mid"' in agent.text("diff", branch=branch)
        # Nothing but a person brings it to main.
        assert agent.refused("change", query=text, branch="main").startswith("denied")
        assert "fast_forward" in agent.text("propose", branch=branch)
        assert "has no argument `merge`" in agent.refused("propose", branch=branch, merge=True)
        with (
            omnigraph.connect(server.address, token="token-of-agent") as itself,
            pytest.raises(omnigraph.errors.DeniedError),
        ):
            itself.branches.merge(branch)
        assert mira.snapshot().commit_id == main
        commit = mira.commits.get(done["commit"])
        assert commit.actor_id == "act-agent"
        assert commit.message.startswith("a year is over [session ")
        assert mira.branches.merge(branch, preview=True).total_conflicts == 0
        assert mira.branches.merge(branch).outcome == "fast_forward"
        row = mira.entity("node:Person", "ines")
        assert row["level"] == "mid"


def test_pages_over_http_are_of_one_commit(agent):
    seen, cursor = [], None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        said = agent.told("read", query=NAMES, max_rows=4, **more)
        seen += [row[0] for row in said["rows"]]
        cursor = said.get("next_cursor")
        if cursor is None:
            break
    assert seen == ["gustav", "ines", "jonas", "mira", "sunita", "tomas"]


def test_a_cursor_of_another_actor_is_refused(agent, server):
    cursor = agent.told("read", query=NAMES, max_rows=1)["next_cursor"]
    with asking_http(server.address, "token-of-mira") as mira:
        said = mira.refused("read", query=NAMES, max_rows=1, cursor=cursor)
    assert "belongs to another request" in said


def test_who_has_no_rights_has_no_tools(server):
    with asking_http(server.address, "token-of-eve") as eve:
        assert eve.tools() == {}
        assert "there is no tool 'read'" in eve.refused("read", query=NAMES)


def test_a_person_may_merge_through_the_tools_if_the_policy_lets_them(server):
    with asking_http(server.address, "token-of-mira") as mira:
        tools = mira.tools()
        assert "merge" in tools["propose"].input_schema["properties"]
        assert "change" not in tools  # this policy lets people review, and agents write


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer nope"}, 401),
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example"}, 421),
        ({"content-type": "text/plain"}, 415),
    ],
    ids=["none", "unknown", "origin", "fetch", "host", "type"],
)
def test_requests_that_do_not_belong_here_are_refused_before_any_tool(
    server, http, headers, status
):
    answer = http.post(f"{server.address}/mcp", json=LIST, headers=TYPES | headers)
    assert answer.status_code == status


@pytest.fixture(scope="session")
def http():
    with httpx2.Client(timeout=60) as client:
        yield client


def test_only_posts_are_taken_and_bodies_have_a_bound(server, http):
    for method in ("GET", "DELETE"):
        answer = http.request(method, f"{server.address}/mcp", headers=TYPES)
        assert answer.status_code == 405
    answer = http.post(f"{server.address}/mcp", content=b" " * (1 << 20) + b"{}", headers=TYPES)
    assert answer.status_code == 413
    answer = http.post(f"{server.address}/mcp", content=b"{", headers=TYPES)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)


def test_errors_tell_nothing_of_where_the_graph_is(agent, folder):
    for name, given in (
        ("read", {"query": "match { $p: Persn } return { $p }"}),
        ("log", {"branch": "nope"}),
        ("read", {"query": NAMES, "branch": "../x"}),
    ):
        assert str(folder) not in agent.refused(name, **given)


def test_a_branch_is_named_in_every_write_over_http(agent):
    agent.text("start_work", task="t")
    text = 'query m() { insert Meeting { subject: "x", held_at: now(), recorded: false } }'
    assert "call start_work" in agent.refused("change", query=text)


def test_a_client_of_before_this_protocol_is_answered_too(server, http):
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "old", "version": "1"},
        },
    }
    answer = http.post(f"{server.address}/mcp", json=begin, headers=TYPES)
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["serverInfo"]["name"] == "omnigraph"
    listed = http.post(
        f"{server.address}/mcp",
        json=LIST,
        headers=TYPES | {"mcp-protocol-version": "2025-06-18"},
    )
    names = [one["name"] for one in listed.json()["result"]["tools"]]
    assert "read" in names
    assert json.dumps(names).count("q_") == 12


def test_without_the_tools_there_is_no_such_route(company, http, capsys):
    place = str(company / "company.omni")
    with server_thread(place, tools="none") as address:
        answer = http.post(f"{address}/mcp", json=LIST, headers=TYPES)
        assert answer.status_code == 404
    assert run(["serve", place, "--bind", "127.0.0.1:0", "--tools", "raed"]) == 1
    assert "did you mean `read`?" in capsys.readouterr().err


def test_a_server_without_tokens_has_an_agent_that_is_nobody(company, monkeypatch):
    for name in os.environ:  # noqa: TID251 - what this machine may have set
        if name not in environment():
            monkeypatch.delenv(name)
    with server_thread(str(company / "company.omni")) as address, asking_http(address) as agent:
        branch = agent.told("start_work", task="t")["branch"]
        assert branch == "agents/anonymous/t"
        text = 'query m() { insert Meeting { subject: "x", held_at: now(), recorded: false } }'
        done = agent.told("change", query=text, branch=branch)
        assert agent.refused("change", query=text, branch="main").startswith("denied")
        with omnigraph.connect(address) as graph:
            assert graph.commits.get(done["commit"]).actor_id is None


def test_without_the_library_the_answer_names_its_extra(company, http, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with server_thread(str(company / "company.omni")) as address:
        answer = http.post(f"{address}/mcp", json=LIST, headers=TYPES)
    assert (answer.status_code, answer.json()["class"]) == (400, "MissingExtraError")
    assert 'pip install "omnigraph[mcp]"' in answer.json()["hint"]
