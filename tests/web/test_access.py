"""Without a mouse, and for those who hear the page."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.web.conftest import TEAM

SCREENS = {
    "query": {"q": TEAM, "p": '{"team":"platform"}', "view": "table"},
    "picture": {"q": TEAM, "p": '{"team":"platform"}', "view": "graph"},
    "schema": {"type": "Person"},
    "branches": {},
    "review": {"source": "hiring"},
    "load": {},
    "admin": {},
    "entity": {"type": "Person", "id": "jonas"},
}
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_breaks_no_rule_of_access(visitor, name, scheme):
    visitor.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    screen = "query" if name == "picture" else name
    page = visitor.go(screen, **SCREENS[name])
    page.wait_for_load_state("networkidle")
    expect(page.locator(".busy")).to_have_count(0)
    found = Axe().run(page, options=RULES).response["violations"]
    told = [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found]
    assert told == []
    visitor.watch.said.clear()  # the checker itself is noted by the policy of the page


def test_everything_is_reached_by_keys(visitor):
    page = visitor.go("query")
    expect(page.locator(".side")).to_be_visible()
    press = page.keyboard.press
    press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    press("Enter")
    expect(page.locator("main")).to_be_focused()
    press("Tab")
    press("Enter")  # the first type of the list
    expect(page.locator(".vt-row").first).to_be_visible()
    page.get_by_role("tab", name="Table").focus()
    press("ArrowRight")
    expect(page.get_by_role("tab", name="Graph")).to_be_focused()
    expect(page.locator(".picture")).to_have_attribute("data-settled", "true")
    press("Alt+2")
    expect(page.locator("svg.schema")).to_be_visible()
    page.get_by_role("button", name="Person, 6 rows").focus()
    press("Enter")
    expect(page.get_by_role("complementary")).to_contain_text("Someone who works here")
    press("Alt+3")
    page.get_by_role("button", name="New branch").focus()
    press("Enter")
    page.keyboard.type("by-keys")
    press("Enter")
    expect(page.locator(".commits .tag", has_text="by-keys")).to_be_visible()
    press("Alt+4")
    page.get_by_label("Branch to review").select_option("hiring")
    row = page.locator("[data-conflict]").get_by_label("Keep main")
    row.focus()
    press("Space")
    expect(page.locator(".hero .tag.good")).to_be_visible()
    page.get_by_role("button", name="Merge").focus()
    press("Enter")
    press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press("Alt+5")
    expect(page.locator("#files")).to_be_attached()
    page.locator("#files").focus()
    expect(page.locator("#files")).to_be_focused()


def test_what_happens_is_told(visitor):
    page = visitor.go("query", q=TEAM, p='{"team":"platform"}')
    expect(page.get_by_role("status").filter(has_text="4 rows")).to_be_visible()
    table = page.get_by_role("table", name="Rows of the result")
    expect(table).to_have_attribute("aria-rowcount", "5")
    page.get_by_role("button", name="p.name").click()
    head = page.get_by_role("columnheader", name="p.name")
    expect(head).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="p.name").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator(".vt-row").first).to_contain_text("Sunita")


def test_light_and_dark_can_be_changed_and_stay(visitor):
    page = visitor.go("query")
    back = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(back)
    page.get_by_role("button", name="Change between light and dark").click()
    after = page.evaluate(back)
    assert before != after
    page.reload()
    expect(page.locator(".side")).to_be_visible()
    assert page.evaluate(back) == after
    page.evaluate("localStorage.clear()")
