"""One journey per screen, in the light and in the dark."""

import json

import pytest
from playwright.sync_api import expect

from tests.web.conftest import TEAM

SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture
def page(visitor, scheme):
    visitor.page.emulate_media(color_scheme=scheme)
    yield visitor
    back = visitor.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back.strip("rgb()").split(","))) > 380) is (scheme == "light")


def dialog(page):
    return page.get_by_role("dialog")


@SCHEMES
def test_a_query_is_run_and_seen_in_four_ways(page, scheme):
    found = page.go("query", q=TEAM, p='{"team":"platform"}', view="table")
    rows = found.locator(".vt-row")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("ines")
    expect(found.locator(".status")).to_contain_text("4 rows")
    found.get_by_role("tab", name="Graph").click()
    expect(found.locator(".picture")).to_have_attribute("data-nodes", "5")
    expect(found.locator(".picture")).to_have_attribute("data-settled", "true")
    found.get_by_role("tab", name="JSON").click()
    expect(found.locator("pre.json")).to_contain_text('"row_count": 4')
    found.get_by_role("tab", name="Plan").click()
    expect(found.locator("table.plan")).to_contain_text("expand")
    assert "view=plan" in found.url
    found.get_by_label("$team").fill("insight")
    found.get_by_role("tab", name="Table").click()
    found.get_by_role("button", name="Run").click()
    expect(rows).to_have_count(2)
    assert "insight" in found.url  # every query is a link


@SCHEMES
def test_the_schema_is_a_picture_with_numbers(page, scheme):
    found = page.go("schema")
    person = found.get_by_role("button", name="Person, 6 rows")
    expect(person).to_be_visible()
    expect(found.locator("svg.schema .edge")).to_have_count(15)
    person.click()
    inspector = found.get_by_role("complementary")
    expect(inspector).to_contain_text("Someone who works here, or did")
    expect(inspector).to_contain_text("String @key")
    inspector.get_by_role("button", name="memberOf → Team").click()
    expect(inspector.get_by_role("heading", name="Team")).to_be_visible()
    assert "type=Team" in found.url
    inspector.get_by_role("button", name="All types").click()
    inspector.get_by_role("button", name="Schema as text").click()
    expect(inspector).to_contain_text("edge MemberOf: Person -> Team")


@SCHEMES
def test_branches_are_made_read_at_a_commit_and_deleted(page, scheme):
    found = page.go("branches")
    name = f"plans/{scheme}"
    expect(found.locator(".commits li").first).to_contain_text("v1")
    expect(found.locator(".lines path")).not_to_have_count(0)
    found.get_by_role("button", name="New branch").click()
    dialog(found).get_by_label("Name").fill(name)
    dialog(found).get_by_role("button", name="Create").click()
    expect(found.get_by_text(f"Branch {name} was made")).to_be_visible()
    expect(found.locator(".commits .tag", has_text=name)).to_be_visible()
    found.get_by_role("button", name="Tag", exact=True).click()
    dialog(found).get_by_label("Name").fill(f"tag-{scheme}")
    dialog(found).get_by_role("button", name="Tag").click()
    expect(found.locator(".commits .tag", has_text=f"tag-{scheme}")).to_be_visible()
    found.get_by_role("button", name=f"Delete tag tag-{scheme}").click()
    dialog(found).get_by_role("button", name="Delete").click()
    expect(found.locator(".commits .tag", has_text=f"tag-{scheme}")).to_have_count(0)
    found.get_by_role("button", name=f"Delete branch {name}").click()
    dialog(found).get_by_role("button", name="Delete").click()
    expect(found.locator(".commits .tag", has_text=name)).to_have_count(0)
    oldest = found.locator(".commits li").last
    oldest.get_by_role("button", name="Read at").click()
    expect(found.locator(".side .item", has_text="Person")).to_contain_text("0")
    assert "at=" in found.url
    found.get_by_label("At", exact=True).select_option("head")
    expect(found.locator(".side .item", has_text="Person")).to_contain_text("6")


@SCHEMES
def test_one_node_is_shown_with_its_life(page, scheme):
    found = page.go("entity", type="Person", id="jonas")
    cards = found.locator(".card")
    expect(cards).to_have_count(4)
    expect(cards.nth(0)).to_contain_text("jonas@northlight.example")
    expect(cards.nth(2)).to_contain_text("ines")
    expect(cards.nth(3).locator(".was")).to_have_text("Engineer")
    expect(cards.nth(3).locator(".now")).to_have_text("Principal engineer")
    cards.nth(1).get_by_role("button", name="Platform").click()
    expect(found.get_by_role("heading", name="Team platform")).to_be_visible()
    found.get_by_label("Type").select_option("Person")
    found.get_by_label("Id").fill("nobody")
    page.watch.allowed.add(404)
    found.get_by_role("button", name="Show").click()
    expect(found.get_by_role("alert").first).to_contain_text("there is no node:Person 'nobody'")


@SCHEMES
def test_files_go_to_a_branch_and_from_there_into_main(page, scheme):
    found = page.go("load")
    team = {"slug": scheme, "name": "New <b>team</b>"}
    line = json.dumps({"type": "Team", "data": team}) + "\n"
    table = f"slug,name\n{scheme}-1,One\n{scheme}-2,Two\n"
    files = [
        {"name": f"{scheme}.jsonl", "mimeType": "", "buffer": line.encode()},
        {"name": "Team.csv", "mimeType": "text/csv", "buffer": table.encode()},
    ]
    found.locator("#files").set_input_files(files) if scheme == "light" else drop(found, files)
    expect(found.get_by_label("What Team.csv holds")).to_have_value("Team")
    found.get_by_role("button", name="Load", exact=True).click()
    expect(found.get_by_role("heading", name=f"Loaded into load/{scheme}")).to_be_visible()
    expect(found.locator(".card")).to_contain_text("3 rows")
    found.get_by_role("button", name="See what it changes").click()
    expect(found.locator(".hero .tag.good")).to_have_text("merges cleanly")
    expect(found.locator("table.diff")).to_have_count(3)
    expect(found.locator(".now", has_text="New <b>team</b>")).to_be_visible()
    found.get_by_role("button", name="Merge").click()
    dialog(found).get_by_role("button", name="Merge").click()
    expect(found.get_by_role("heading", name="Merged")).to_be_visible()
    found.get_by_role("button", name="Look at main").click()
    expect(found.locator(".side .item", has_text="Team")).to_be_visible()


def drop(page, files):
    """Let files fall onto the page, as from a folder."""
    given = [(one["name"], one["buffer"].decode()) for one in files]
    fallen = page.evaluate_handle(
        """(files) => {
          const held = new DataTransfer();
          for (const [name, text] of files) held.items.add(new File([text], name));
          return held;
        }""",
        given,
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": fallen})


@SCHEMES
def test_upkeep_is_looked_at_before_it_is_done(page, scheme):
    found = page.go("admin")
    card = found.locator(".card")

    def of(name):
        return card.filter(has=found.get_by_role("heading", name=name, exact=True))

    of("Verify").get_by_role("button", name="Verify").click()
    expect(of("Verify").locator(".answer")).to_contain_text("Nothing is wrong")
    of("Optimize").get_by_role("button", name="Preview").click()
    expect(of("Optimize").locator(".answer")).not_to_contain_text("Working")
    of("Cleanup").get_by_label("Versions to keep").fill("1")
    of("Cleanup").get_by_role("button", name="Preview").click()
    expect(of("Cleanup").locator(".answer table, .answer .tag")).to_be_visible()
    of("Cleanup").get_by_role("button", name="Clean up").click()
    dialog(found).get_by_role("button", name="Cancel").click()
    expect(of("Cleanup").locator(".answer")).to_contain_text("Nothing was removed")
    expect(of("Locks")).to_contain_text("Nobody holds a lock")
    expect(of("Space")).to_contain_text("node:Person")
    expect(of("Who you are")).to_contain_text("everybody may do everything")
    expect(of("This worker").locator("table")).to_be_visible()
