"""A policy over HTTP: what it allows, and every way around it that others left open."""

import base64
import json
import shutil
import signal
import time
from urllib.parse import quote

import pytest

from tests.server.conftest import ADD, ADULTS, Asker
from tests.support.servers import server_process

POLICY = """version: 1
groups:
  team: [act-ann]
  outside: [act-bob]
  admins: [act-cy]
protected_branches: [main, secret]
rules:
  - id: team-free
    allow: { actors: { group: team }, actions: [read, export, change], branch_scope: unprotected }
  - id: team-branches
    allow:
      actors: { group: team }
      actions: [branch_create, branch_delete, branch_merge]
      target_branch_scope: unprotected
  - id: outside-writes
    allow: { actors: { group: outside }, actions: [change], branch_scope: any }
  - id: admins-read
    allow: { actors: { group: admins }, actions: [read, export, change], branch_scope: any }
  - id: admins-branches
    allow:
      actors: { group: admins }
      actions: [branch_create, branch_delete, branch_merge, schema_apply]
      target_branch_scope: any
  - id: admins
    allow: { actors: { group: admins }, actions: [admin] }
"""
TOKENS = {f"act-{name}": f"token-of-{name}" for name in ("ann", "bob", "cy", "eve")}
MUTATE = {"query_source": ADD, "params": {"name": "New"}}
LINE = '{"type":"Person","data":{"name":"Line","age":1}}\n'
HIDDEN = "01HXXXXXXXXXXXXXXXXXXXXXXX"


@pytest.fixture(scope="module")
def server(template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    (folder / "policy.yaml").write_text(POLICY)
    with server_process(
        folder,
        "people.omni",
        "--bind",
        "127.0.0.1:0",
        OMNIGRAPH_POLICY_FILE="policy.yaml",
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=json.dumps(TOKENS),
    ) as running:
        running.hear_address()
        yield running


@pytest.fixture(scope="module")
def asker(server, http):
    def of(name):
        return Asker(http, server.address, {"authorization": f"Bearer token-of-{name}"})

    return of


@pytest.fixture(scope="module")
def cy(asker):
    """May do everything; has made the branches that the tests are about."""
    cy = asker("cy")
    for name in ("dev", "secret"):
        assert cy.post("/branches", {"name": name}).status_code == 200
    assert cy.post("/change", {**MUTATE, "branch": "secret"}).status_code == 200
    return cy


@pytest.fixture
def ann(asker, cy):
    return asker("ann")


def commit_of(cy, branch):
    return cy.get(f"/commits?branch={branch}").json()["commits"][0]["graph_commit_id"]


def denied(answer, *words):
    assert answer.status_code == 403, answer.text
    said = answer.json()
    assert said["code"] == "forbidden"
    assert said["error"].startswith("policy denied action ")
    for word in words:
        assert word in said["error"]
    return said["error"]


def test_an_unprotected_branch_can_be_used_and_a_protected_one_cannot(ann):
    assert ann.post("/read", {"query_source": ADULTS, "branch": "dev"}).status_code == 200
    text = denied(ann.post("/read", {"query_source": ADULTS}))
    assert text == "policy denied action 'read' on branch 'main' for actor 'act-ann'"
    denied(ann.post("/change", MUTATE), "'change' on branch 'main'")
    denied(ann.post("/export", {}), "'export' on branch 'main'")


def test_a_preview_of_a_merge_is_judged_as_a_read_of_both_branches(ann, cy):
    assert ann.post("/branches", {"name": "mine", "from": "dev"}).status_code == 200
    ways = {"source": "mine", "target": "dev"}
    seen = ann.post("/branches/merge/preview", ways)
    assert (seen.status_code, seen.json()["preview"]) == (200, True)
    denied(ann.post("/branches/merge/preview", {"source": "mine"}), "'read' on branch 'main'")
    denied(ann.post("/branches/merge/preview", {"source": "secret", "target": "dev"}), "'read'")
    denied(ann.post("/branches/merge", {"source": "mine", "preview": True}), "'branch_merge'")
    assert ann.delete("/branches/mine").status_code == 200


@pytest.mark.parametrize("name", [" main ", "main ", "\tmain", "main\n"])
def test_a_padded_name_is_judged_as_what_it_means(ann, cy, name):
    before = commit_of(cy, "main")
    coded = quote(name, safe="")
    for answer in (
        ann.post("/read", {"query_source": ADULTS, "branch": name}),
        ann.post("/change", {**MUTATE, "branch": name}),
        ann.post("/export", {"branch": name}),
        ann.post("/ingest", {"data": LINE, "branch": name}),
        ann.post("/load", {"data": LINE, "branch": name}),
        ann("POST", f"/load/ndjson?branch={coded}", content=LINE.encode()),
        ann.post("/branches/merge", {"source": "dev", "target": name}),
        ann.delete(f"/branches/{coded}"),
        ann.get(f"/commits?branch={coded}"),
        ann.get(f"/snapshot?branch={coded}"),
        ann.get(f"/diff?from=dev&to={coded}"),
        ann.get(f"/changes?branch={coded}"),
        ann.get(f"/entity?table=node:Person&id=Ann&branch={coded}"),
    ):
        assert answer.status_code in (400, 403, 404), answer.text
    assert commit_of(cy, "main") == before


def test_a_branch_that_is_not_named_is_judged_as_the_one_it_means(ann):
    for answer in (
        ann.get("/commits"),
        ann.get("/snapshot"),
        ann.get("/changes"),
        ann("POST", "/load/ndjson", content=LINE.encode()),
        ann.post("/branches/merge", {"source": "dev"}),
    ):
        denied(answer, "branch 'main'")


def test_what_names_no_branch_needs_a_rule_for_any(ann, cy):
    for path in ("/schema", "/branches", "/runs"):
        denied(ann.get(path), "'read' for actor 'act-ann'")
        assert cy.get(path).status_code == 200


def test_whoever_is_granted_nothing_learns_nothing(asker, cy):
    eve, commit = asker("eve"), commit_of(cy, "secret")
    for real, made_up in (
        (f"/commits/{commit}", f"/commits/{HIDDEN}"),
        ("/snapshot?branch=secret", "/snapshot?branch=no-such"),
        (f"/runs/{HIDDEN}", f"/runs/{HIDDEN}"),
        ("/diff?from=main&to=secret", "/diff?from=main&to=no-such"),
    ):
        answers = [eve.get(path).json()["error"] for path in (real, made_up)]
        assert (
            answers == ["policy denied action 'read' for actor 'act-eve'"] * 2
            or answers == ["policy denied action 'read' for unknown actor 'act-eve'"] * 2
        )
    denied(eve.post("/read", {"query_source": ADULTS, "snapshot": HIDDEN}))
    denied(eve.post("/read", {"query_source": "no query at all"}))
    denied(eve.delete("/branches/no-such"))


def test_the_past_is_judged_by_the_branch_a_commit_was_made_on(ann, cy):
    hidden = commit_of(cy, "secret")
    for answer in (
        ann.get(f"/commits/{hidden}"),
        ann.get(f"/commits/{hidden}/changes"),
        ann.post("/read", {"query_source": ADULTS, "snapshot": hidden}),
        ann.post("/read", {"query_source": ADULTS, "snapshot": hidden, "branch": "dev"}),
        ann.get(f"/diff?from=dev&to={hidden}"),
        ann.get("/diff?from=dev...secret"),
        ann.post("/cherry-pick", {"commit": hidden, "branch": "dev"}),
        ann.post("/revert", {"commit": hidden, "branch": "dev"}),
        ann.post("/branches/dev/reset", {"to": hidden}),
        ann.post("/tags", {"name": "mine", "at": hidden, "branch": "dev"}),
        ann.get(f"/entity?table=node:Person&id=Ann&snapshot={hidden}"),
        ann.get(f"/export?snapshot={hidden}"),
    ):
        assert answer.status_code in (400, 403), answer.text
        assert "New" not in answer.text


def test_a_commit_that_other_branches_hold_as_well_is_still_judged_by_its_own(ann, cy):
    hidden = commit_of(cy, "secret")
    assert cy.post("/branches", {"name": "copy-of-secret", "from": "secret"}).status_code == 200
    token = base64.urlsafe_b64encode(json.dumps(["dev", hidden, 0]).encode()).decode()
    for answer in (
        ann.get(f"/diff?from=dev&to={hidden}&images=after"),
        ann.get(f"/diff?from=dev&to=dev&page_token={token}"),
        ann.post("/schema/diff", {"before": "dev", "after": hidden}),
        ann.post("/branches/merge", {"source": "dev", "target": "dev", "base": hidden}),
    ):
        denied(answer, "'read' on branch 'secret'")
    assert ann.get("/diff?from=dev&to=copy-of-secret").status_code == 200


@pytest.mark.parametrize("skip", [-1, 2**63 - 1, True, 1.5, None])
def test_a_page_that_cannot_be_is_refused(cy, skip):
    head = commit_of(cy, "main")
    token = base64.urlsafe_b64encode(json.dumps([head, head, skip]).encode()).decode()
    answer = cy.get(f"/diff?from=main&to=main&page_token={token}")
    assert (answer.status_code, answer.json()["error"]) == (400, "?page_token= is none of ours")


def test_merging_and_making_branches_is_judged_by_the_target(ann):
    denied(
        ann.post("/branches/merge", {"source": "dev", "target": "main"}), "targeting branch 'main'"
    )
    assert ann.post("/branches", {"name": "of-ann", "from": "dev"}).status_code == 200
    assert ann.post("/branches/merge", {"source": "dev", "target": "of-ann"}).status_code == 200
    denied(ann.delete("/branches/secret"), "'branch_delete' targeting branch 'secret'")
    denied(
        ann.post("/branches/merge", {"source": "secret", "target": "main", "delete_branch": True})
    )


def test_ingest_into_a_missing_branch_needs_both_and_leaves_nothing_when_denied(asker, cy):
    bob = asker("bob")
    assert bob.post("/ingest", {"data": LINE, "branch": "dev"}).status_code == 200
    for path in ("/ingest", "/load"):
        answer = bob.post(path, {"data": LINE, "branch": "made", "from": "main"})
        denied(answer, "'branch_create' on branch 'main' targeting branch 'made'")
    denied(bob("POST", "/load/ndjson?branch=made&from=main", content=LINE.encode()))
    assert "made" not in cy.get("/branches").json()["branches"]


def test_upkeep_needs_admin(ann, cy):
    for path in ("/maintenance/optimize", "/maintenance/repair", "/maintenance/indexes"):
        denied(ann.post(path, {}), "'admin'")
    for path in ("/maintenance/verify", "/maintenance/usage", "/locks"):
        denied(ann.get(path), "'admin'")
        assert cy.get(path).status_code == 200


def test_an_actor_comes_from_the_token_alone(ann, cy):
    answer = ann.post(
        "/change",
        {
            **MUTATE,
            "branch": "dev",
            "actor": "act-cy",
            "actor_id": "act-cy",
            "params": {"name": "By"},
        },
        headers={"x-actor-id": "act-cy"},
    )
    assert answer.json()["actor_id"] == "act-ann"
    commit = cy.get(f"/commits/{answer.json()['commit_id']}").json()
    assert commit["actor_id"] == "act-ann"


def test_decisions_are_logged_without_secrets(server, ann):
    denied(ann.get("/snapshot"))
    said = server.notes.read_text()
    assert (
        "actor_id=act-ann action=read branch=main target_branch=None allowed=False "
        "matched_rule_id=None" in said
    )
    assert "policy.yaml, 6 rules" in said
    assert "token-of-" not in said


def test_a_changed_policy_is_in_force_after_a_signal_and_a_bad_one_is_not(template, tmp_path, http):
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with server_process(
        tmp_path,
        "people.omni",
        "--bind",
        "127.0.0.1:0",
        OMNIGRAPH_POLICY_FILE="policy.yaml",
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=json.dumps(TOKENS),
    ) as server:
        ann = Asker(http, server.hear_address(), {"authorization": "Bearer token-of-ann"})
        denied(ann.get("/snapshot"))
        policy.write_text("version: 1\nrules: [{}]\n")
        server.tell(signal.SIGHUP)
        wait_for(lambda: "reload refused" in server.notes.read_text())
        denied(ann.get("/snapshot"))
        policy.write_text(POLICY.replace("branch_scope: unprotected", "branch_scope: any"))
        server.tell(signal.SIGHUP)
        wait_for(lambda: ann.get("/snapshot").status_code == 200)


def wait_for(event):
    deadline = time.monotonic() + 60
    while not event():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.02)
