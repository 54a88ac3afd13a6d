"""Who asks: the token stays in the tab, and buttons follow what somebody may do."""

import shutil

import pytest
from playwright.sync_api import expect

from tests.support.servers import server_process
from tests.web.conftest import TEAM, add_branches, visiting

TOKENS = '{"act-ann": "token-of-ann", "act-ray": "token-of-ray"}'
POLICY = """version: 1
groups: { writers: [act-ann], readers: [act-ray] }
protected_branches: [main]
rules:
  - id: all
    allow: { actors: { group: writers }, actions: [read, export, change], branch_scope: any }
  - id: branches
    allow:
      actors: { group: writers }
      actions: [branch_create, branch_merge, branch_delete]
      target_branch_scope: any
  - { id: upkeep, allow: { actors: { group: writers }, actions: [admin] } }
  - { id: look, allow: { actors: { group: readers }, actions: [read], branch_scope: any } }
"""


@pytest.fixture(scope="module")
def guarded(template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    shutil.copytree(template, folder / "company.omni")
    add_branches(folder / "company.omni")
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "omnigraph.yaml").write_text(
        "graphs: { company: { uri: ./company.omni } }\n"
        "server: { graph: company }\npolicy: { file: policy.yaml }\n"
    )
    with server_process(
        folder, "--bind", "127.0.0.1:0", OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=TOKENS
    ) as server:
        server.hear_address()
        yield server


def sign_in(page, token, keep=False):
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token", exact=False).first.fill(token)
    if keep:
        dialog.get_by_label("Keep it for this tab").check()
    dialog.get_by_role("button", name="Continue").click()


STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"


def test_a_token_is_asked_for_and_forgotten_with_the_page(chromium, guarded):
    with visiting(chromium, guarded.address) as visitor:
        visitor.watch.allowed.add(401)
        page = visitor.page
        page.goto(f"{guarded.address}/ui/")
        sign_in(page, "wrong")
        expect(page.get_by_role("dialog")).to_contain_text("does not know this token")
        sign_in(page, "token-of-ann")
        expect(page.locator(".side")).to_be_visible()
        expect(page.locator(".top")).to_contain_text("act-ann")
        assert "token-of-ann" not in page.evaluate(STORED)
        page.reload()
        expect(page.get_by_role("dialog")).to_be_visible()
        sign_in(page, "token-of-ann", keep=True)
        expect(page.locator(".side")).to_be_visible()
        page.reload()
        expect(page.locator(".side")).to_be_visible()
        kept = page.evaluate("JSON.stringify([{...localStorage}, document.cookie, location.href])")
        assert "token-of-ann" not in kept
        page.get_by_role("button", name="act-ann").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert "token-of-ann" not in page.evaluate(STORED)
        assert not [url for url in visitor.watch.asked if "token-of" in url]
    assert "token-of" not in guarded.notes.read_text()


def test_buttons_follow_what_somebody_may_do_and_the_server_refuses_anyway(chromium, guarded):
    with visiting(chromium, guarded.address) as visitor:
        visitor.watch.allowed |= {401, 403}
        page = visitor.page
        page.goto(f"{guarded.address}/ui/")
        sign_in(page, "token-of-ray")
        expect(page.locator(".screens a")).to_have_text(["Query", "Schema", "Branches", "Review"])
        page.get_by_role("link", name="Branches").click()
        expect(page.locator(".commits li").first).to_be_visible()
        for name in ("New branch", "Tag"):
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        page.get_by_role("button", name="Review hiring").click()
        expect(page.get_by_text("You may look at this, not merge it.")).to_be_visible()
        expect(page.locator("table.diff").first).to_be_visible()
        expect(page.get_by_role("button", name="Merge")).to_have_count(0)
        page.get_by_role("link", name="Query").click()
        page.get_by_role("textbox", name="Query text").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text('query q() { insert Team { slug: "x", name: "x" } }')
        expect(page.get_by_role("button", name="Write…")).to_be_disabled()
        refused = page.evaluate(
            """(body) => fetch('/mutate', {
              method: 'POST', body: JSON.stringify(body),
              headers: {
                'content-type': 'application/json', authorization: 'Bearer token-of-ray',
              },
            }).then((answer) => answer.status)""",
            {"query_source": 'query q() { insert Team { slug: "x", name: "x" } }'},
        )
        assert refused == 403


def test_a_link_survives_the_question_for_a_token(chromium, guarded):
    with visiting(chromium, guarded.address) as visitor:
        visitor.watch.allowed.add(401)
        page = visitor.page
        page.goto(f"{guarded.address}/ui/")
        sign_in(page, "token-of-ray", keep=True)
        expect(page.locator(".side")).to_be_visible()
        visitor.again("query", q=TEAM, p='{"team":"insight"}')
        expect(page.locator(".vt-row")).to_have_count(2)
