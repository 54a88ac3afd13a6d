import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.config.stored import StoredFiles
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.rules import OwnBranches, home_of
from omnigraph.mcp.service import Service
from omnigraph.mcp.stdio import _Local
from omnigraph.mcp.toolbox import Choice
from omnigraph.policy.guard import GuardedGraph
from tests.mcp.asking import asking
from tests.support.fast import FAST

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The small company, which tests copy."""
    folder = tmp_path_factory.mktemp("company")
    with omnigraph.init(folder / "company.omni", EXAMPLES / "company.pg", options=FAST) as graph:
        graph.load(EXAMPLES / "company.jsonl")
    shutil.copy(EXAMPLES / "company.gq", folder)
    return folder


@pytest.fixture
def company(template, tmp_path):
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


@contextlib.contextmanager
def tools_on(graph, *, actor="bot", policy=None, read_only=False, tools="core", **desk):
    """Give the tools of one agent on an open graph, by the official client."""
    rules = OwnBranches(home_of(actor), policy, read_only)
    made = Desk(GuardedGraph(graph, rules, actor), rules, actor, "s1", **desk)
    service = Service(lambda _: _Local(made), Choice.of(tools), read_only=read_only)
    with asking(service.server) as asked:
        yield asked


@pytest.fixture
def graph(company):
    options = replace(FAST, queries=StoredFiles((company / "company.gq",), ("record_meeting",)))
    with omnigraph.connect(company / "company.omni", options=options) as graph:
        yield graph


@pytest.fixture
def agent(graph):
    with tools_on(graph, tools="all") as asked:
        yield asked
