import contextlib
import shutil
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import omnigraph
from tests.support.browser import PATIENCE_MS, Watch, browsing
from tests.support.fast import FAST
from tests.support.servers import server_thread

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = "<img src=x onerror=\"document.title='ran'\">"
SCRIPT = "</script><script>document.title='ran'</script>"
TEAM = """query team($team: String) {
  match {
    $t: Team { slug: $team }
    $p $m:memberOf $t
  }
  return { $p.handle, $p.name, $m.role }
  order { $p.name }
}
"""


def pytest_collection_modifyitems(items):
    """Keep a module in one process: its browser and its server are made once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group(f"web-{item.path.stem}"))


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The small company of the examples, on main alone: graphs with branches cannot be copied."""
    folder = tmp_path_factory.mktemp("company") / "company.omni"
    with omnigraph.init(str(folder), EXAMPLES / "company.pg", options=FAST) as graph:
        graph.load(EXAMPLES / "company.jsonl", "merge", engine="inline", actor="demo")
    return folder


def add_branches(folder):
    """A branch that meets main in one row, and a tag."""
    with omnigraph.connect(str(folder), options=FAST) as graph:
        graph.branches.create("hiring")
        write = 'query q($t: String) { update Person set { title: $t } where handle = "jonas" }'
        title = {"t": "Staff engineer"}
        graph.mutate(write, params=title, branch="hiring", actor="recruiter")
        graph.mutate(
            'insert Person { handle: "eve", name: "Eve Sato", joined_on: date("2026-01-07") }',
            branch="hiring",
            actor="recruiter",
            message="one more",
        )
        graph.mutate(write, params={"t": "Principal engineer"}, actor="ines")
        graph.tags.create("v1", message="as shipped")


@pytest.fixture(scope="module")
def chromium():
    """A browser for one module: as long as it is there no other test can run an event loop."""
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def served(template, tmp_path_factory):
    """The company, served to one module; its tests write to branches of their own."""
    folder = tmp_path_factory.mktemp("web") / "company.omni"
    shutil.copytree(template, folder)
    add_branches(folder)
    with server_thread(str(folder), graph_id="company") as address:
        yield address


class Visitor:
    """Somebody in front of the page."""

    def __init__(self, context, address):
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.watch = Watch(self.page, address)
        self.address = address

    def go(self, screen="query", **said):
        words = f"?{urlencode(said)}" if said else ""
        self.page.goto(f"{self.address}/ui/#{screen}{words}")
        expect(self.page.locator("main > *")).to_be_visible()
        return self.page

    def again(self, screen, **said):
        """Arrive as if for the first time: a fragment alone would not load the page."""
        self.page.goto("about:blank")
        return self.go(screen, **said)


@contextlib.contextmanager
def visiting(chromium, address, **how):
    context = chromium.new_context(viewport={"width": 1366, "height": 860}, **how)
    visitor = Visitor(context, address)
    try:
        yield visitor
        visitor.watch.check()
    finally:
        context.close()


@pytest.fixture(scope="module")
def context(chromium):
    """One window for a module: the files of the page are fetched once."""
    found = chromium.new_context(viewport={"width": 1366, "height": 860})
    yield found
    found.close()


@pytest.fixture
def visitor(context, served):
    found = Visitor(context, served)
    yield found
    found.watch.check()
    found.page.close()
