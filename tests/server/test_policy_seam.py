"""Every route asks the policy before it does anything, with its action and canonical branches."""

import asyncio
from dataclasses import replace

import httpx2
import pytest

from omnigraph.api.access import AccessDecision, Action
from omnigraph.server.app import App
from omnigraph.server.boot import served_by
from omnigraph.server.options import ServeOptions
from omnigraph.server.routes import ROUTES
from omnigraph.server.rules import Rules
from omnigraph.server.tokens import Keyring
from tests.server.conftest import ADD, ADULTS

ULID = "01HXXXXXXXXXXXXXXXXXXXXXXX"


class Denies:
    """Denies everything it is asked, and remembers it; grants nothing, or only in principle."""

    check_source = False
    hides_rows = False

    def __init__(self, in_principle=True):
        self.asked = []
        self.in_principle = in_principle

    def decide(self, request):
        self.asked.append((request.action, request.branch, request.target_branch))
        return AccessDecision(False, f"policy denied action '{request.action}'")

    def grants_any(self, actor, action):
        return self.in_principle


@pytest.fixture
def app(people):
    served = served_by(ServeOptions(uri=str(people / "people.omni")))
    served.rules = Rules(Keyring([("ann", "t")], "env-or-file"), Denies())
    found = App(None, served=served)
    yield found
    asyncio.run(found._close())


def ask(app, method, path, **more):
    async def run():
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, headers={"authorization": "Bearer t"}, **more)

    return asyncio.run(run())


def commit_of(app):
    return app.served.graph.snapshot().commit_id


BODIES = {
    "/read": {"query_source": ADULTS},
    "/query": {"query_source": ADULTS},
    "/explain": {"query_source": ADULTS},
    "/profile": {"query_source": ADULTS},
    "/lint": {"query_source": ADULTS},
    "/change": {"query_source": ADD},
    "/mutate": {"query_source": ADD},
    "/mutate/if-graph-commit": {"query_source": ADD},
    "/schema/apply": {"schema_source": "x"},
    "/schema/plan": {"schema_source": "x"},
    "/schema/diff": {"before": "main", "after": "main"},
    "/ingest": {"data": ""},
    "/load": {"data": ""},
    "/branches": {"name": "new"},
    "/branches/merge": {"source": "main", "target": "other"},
    "/branches/merge/preview": {"source": "main", "target": "other"},
    "/branches/{branch}/reset": {"to": "x"},
    "/revert": {"commit": "x"},
    "/cherry-pick": {"commit": "x"},
    "/tags": {"name": "v1"},
    "/embed": {},
    "/export": {},
    "/maintenance/cleanup": {},
}
QUERY = {
    "/entity": {"table": "node:Person", "id": "Ann"},
    "/entity/neighbours": {"table": "node:Person", "id": "Ann"},
    "/entity/history": {"table": "node:Person", "id": "Ann"},
    "/entity/blame": {"table": "node:Person", "id": "Ann"},
    "/blob": {"type": "Person", "id": "Ann", "property": "bio"},
    "/diff": {"from": "main", "to": "main"},
}
GUARDED = [route for route in ROUTES if route.action is not None and not route.hides_refusals]
SECRET = [route for route in ROUTES if route.hides_refusals]


@pytest.mark.parametrize("route", GUARDED, ids=lambda one: f"{one.method} {one.path}")
def test_a_route_does_nothing_that_the_policy_denies(app, route):
    before = app.served.graph.snapshot().commit_id, app.served.graph.branches.list()
    path = route.path.replace("{branch}", "main").replace("{commit_id}", commit_of(app))
    path = path.replace("{tag}", "v1").replace("{name}", "branch:main")
    if "{run_id}" in path:
        path = path.replace("{run_id}", app.served.graph.runs.begin("main").run_id)
    more = {"params": QUERY.get(route.path)}
    if route.body is not None:
        more["json"] = BODIES.get(route.path, {}) if route.method == "POST" else None
    elif route.method == "POST":
        more["content"] = b""
    if route.path == "/mutate/if-graph-commit":
        app_headers = {"authorization": "Bearer t", "omnigraph-if-graph-commit": "x"}

        async def run():
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                return await client.post(path, headers=app_headers, **more)

        answer = asyncio.run(run())
    else:
        answer = ask(app, route.method, path, **more)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text
    assert app.served.rules.policy.asked
    assert app.served.rules.policy.asked[0][0] in (route.action, Action.BRANCH_CREATE)
    assert before == (app.served.graph.snapshot().commit_id, app.served.graph.branches.list())


@pytest.mark.parametrize("in_principle", [True, False])
@pytest.mark.parametrize("route", SECRET, ids=lambda one: f"{one.method} {one.path}")
def test_a_route_that_hides_refusals_says_that_nothing_is_there(app, route, in_principle):
    app.served.rules = replace(app.served.rules, policy=Denies(in_principle))
    answer = ask(app, route.method, route.path.replace("{name}", "nope"), json={})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("route", GUARDED, ids=lambda one: f"{one.method} {one.path}")
def test_who_has_no_grant_of_an_action_learns_nothing(app, route):
    app.served.rules = replace(app.served.rules, policy=Denies(in_principle=False))
    path = route.path.replace("{branch}", "nope").replace("{commit_id}", ULID)
    path = path.replace("{tag}", "nope").replace("{name}", "nope").replace("{run_id}", ULID)
    answer = ask(app, route.method, path)
    assert answer.status_code == 403
    assert app.served.rules.policy.asked == []


@pytest.mark.parametrize("name", [" main ", "main\n", "\tmain"])
def test_padded_names_are_judged_as_what_they_mean(app, name):
    ask(app, "POST", "/change", json={"query_source": ADD, "branch": name})
    ask(app, "POST", "/branches/merge", json={"source": name, "target": name})
    assert app.served.rules.policy.asked == [
        (Action.CHANGE, "main", None),
        (Action.BRANCH_MERGE, "main", "main"),
    ]


def test_what_is_left_out_is_judged_as_what_it_means(app):
    ask(app, "GET", "/commits")
    ask(app, "POST", "/read", json={"query_source": ADULTS})
    ask(app, "POST", "/branches/merge", json={"source": "x"})
    assert app.served.rules.policy.asked == [
        (Action.READ, "main", None),
        (Action.READ, "main", None),
        (Action.BRANCH_MERGE, "x", "main"),
    ]


def test_a_snapshot_is_judged_by_the_branch_of_its_commit(app):
    graph = app.served.graph
    graph.branches.create("side")
    made = graph.mutate(ADD, params={"name": "Dan"}, branch="side").commit_id
    ask(app, "POST", "/read", json={"query_source": ADULTS, "snapshot": made})
    ask(app, "GET", f"/commits/{made}")
    assert app.served.rules.policy.asked == [(Action.READ, "side", None)] * 2


def test_an_ingest_is_judged_for_the_branch_it_would_make(app):
    ask(app, "POST", "/ingest", json={"data": "", "branch": "new", "from": " main "})
    assert app.served.rules.policy.asked == [(Action.BRANCH_CREATE, "main", "new")]
