"""`omnigraph mcp` as a process, on a graph here and on one behind a server."""

import subprocess
import sys

import pytest

import omnigraph
from tests.mcp.asking import asking, process
from tests.mcp.conftest import EXAMPLES
from tests.support.fast import FAST
from tests.support.servers import server_process

MEET = 'query m() { insert Meeting { subject: "x", held_at: now(), recorded: false } }'


@pytest.fixture
def settings(company):
    (company / "omnigraph.yaml").write_text(
        "graphs: {here: {uri: company.omni}}\ncli: {graph: here}\nstorage: {durability: os}\n"
        "queries: {files: [company.gq]}\n"
    )
    return company


def test_an_agent_works_and_main_stands_still(settings):
    with omnigraph.connect(settings / "company.omni", options=FAST) as graph:
        main = graph.snapshot().commit_id
    with asking(process(settings, "--actor", "bot")) as agent:
        assert agent.told("q_colleagues", handle="mira")["row_count"] == 3
        assert agent.refused("change", query=MEET, branch="main").startswith("denied")
        branch = agent.told("start_work", task="one")["branch"]
        said = agent.refused("change", query=MEET.replace("subject", "subjct"))
        assert "did you mean `subject`?" in said
        done = agent.told("change", query=MEET, message="why")
        assert agent.told("change", query=MEET)["replayed"]
        assert "node:Meeting +1 ~0 -0" in agent.text("propose")
    with omnigraph.connect(settings / "company.omni", options=FAST) as graph:
        commit = graph.commits.get(done["commit"])
        assert (commit.actor_id, commit.message.startswith("why [session 0")) == ("bot", True)
        assert graph.snapshot().commit_id == main
        assert graph.branches.merge(branch).outcome == "fast_forward"


def test_a_policy_of_the_settings_holds_here_too(settings):
    (settings / "policy.yaml").write_text((EXAMPLES / "policy.yaml").read_text())
    with (settings / "omnigraph.yaml").open("a") as file:
        file.write("policy: {file: policy.yaml}\n")
    with asking(process(settings, OMNIGRAPH_ACTOR="act-mira")) as agent:
        assert "change" not in agent.tools()  # people review in this policy
        assert "read" in agent.tools()


def test_a_graph_behind_a_server_has_the_same_tools(settings):
    with server_process(
        settings,
        "company.omni",
        "--bind",
        "127.0.0.1:0",
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON='{"act-agent": "t"}',
    ) as server:
        address = server.hear_address()
        arguments = (address, "--actor", "bot")
        with asking(process(settings, *arguments, OMNIGRAPH_BEARER_TOKEN="t")) as agent:
            assert agent.told("q_colleagues", handle="mira", max_rows=2)["truncated"]
            assert "Person" in agent.text("schema", types=["Person"])
            assert "did you mean" in agent.refused(
                "read", query="query q() { match { $p: Persn } return { $p } }"
            )
            rows = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
            first = agent.told("read", query=rows, max_rows=4)
            rest = agent.told("read", query=rows, max_rows=4, cursor=first["next_cursor"])
            assert len(first["rows"] + rest["rows"]) == 6
            assert "memberOf -> Team: 2" in agent.text("neighbours", type="Person", id="sunita")
            assert agent.refused("change", query=MEET, branch="main").startswith("denied")
            branch = agent.told("start_work", task="far")["branch"]
            assert agent.told("change", query=MEET, dry_run=True)["dry_run"]
            done = agent.told("change", query=MEET)
            assert agent.told("change", query=MEET)["replayed"]
            assert "+ Meeting" in agent.text("diff", branch=branch)
            assert "fast_forward" in agent.text("propose")
        with omnigraph.connect(address, token="t") as graph:
            assert graph.commits.get(done["commit"]).actor_id == "act-agent"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no actor is given"),
        (("--actor", "a/b"), "cannot have branches of its own"),
        (("--actor", "a", "--tools", "raed"), "did you mean `read`?"),
        (("--actor", "a", "nowhere.omni"), "nowhere.omni"),
    ],
    ids=["actor", "slash", "tools", "graph"],
)
def test_what_is_wrong_is_told_before_anything_is_served(settings, arguments, said, monkeypatch):
    monkeypatch.delenv("OMNIGRAPH_ACTOR", raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", "mcp", *arguments],
        cwd=settings,
        input=b"",
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert said in done.stderr.decode()


def test_without_the_library_its_extra_is_named(settings):
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from omnigraph.cli.app import run\n"
        "raise SystemExit(run(['mcp', '--actor', 'a']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=settings, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert 'pip install "omnigraph[mcp]"' in done.stderr.decode()
