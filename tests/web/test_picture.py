"""The picture: bounded, at rest in the end, walked by keys, widened and taken back."""

import json

import pytest
from playwright.sync_api import expect

from tests.web.conftest import TEAM


@pytest.fixture
def picture(visitor):
    page = visitor.go("query", q=TEAM, p='{"team":"platform"}', view="graph")
    found = page.locator(".picture")
    expect(found).to_have_attribute("data-settled", "true")
    expect(found).to_have_attribute("data-nodes", "5")
    return found


def test_it_is_widened_by_a_few_and_taken_back(picture):
    page = picture.page
    picture.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    inspector = page.get_by_role("complementary")
    expect(inspector.get_by_role("heading", name="Platform")).to_be_visible()
    page.keyboard.press("Enter")
    expect(picture).to_have_attribute("data-nodes", "6")  # a project it owns
    expect(picture).to_have_attribute("data-settled", "true")
    inspector.get_by_role("button", name="Jonas Feld").click()
    expect(inspector.get_by_role("heading", name="Jonas Feld")).to_be_visible()
    inspector.get_by_role("button", name="Add Wrote to the picture").click()
    expect(picture).to_have_attribute("data-nodes", "7")
    picture.get_by_role("button", name="Take back the last step").click()
    expect(picture).to_have_attribute("data-nodes", "6")
    picture.locator("canvas").focus()
    page.keyboard.press("Backspace")
    expect(picture).to_have_attribute("data-nodes", "5")
    expect(picture.get_by_role("button", name="Take back the last step")).to_be_disabled()
    for key in ("+", "-", "0", "ArrowLeft", "ArrowUp", "ArrowDown", "Escape"):
        page.keyboard.press(key)
    expect(inspector).to_be_hidden()


def test_it_is_a_table_as_well(picture):
    page = picture.page
    picture.get_by_role("button", name="List").click()
    table = picture.get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(6)
    table.get_by_role("button", name="Inès Laurent").click()
    expect(
        page.get_by_role("complementary").get_by_role("heading", name="Inès Laurent")
    ).to_be_visible()
    expect(page.locator("#live")).to_contain_text("Person Inès Laurent, 1 edge")


def test_it_is_saved_with_and_without_places(picture, tmp_path):
    page = picture.page
    with page.expect_download() as saved:
        picture.get_by_role("button", name="Save as an image").click()
    saved.value.save_as(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    page.get_by_text("Export").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Picture as JSON").click()
    saved.value.save_as(tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert len(found["nodes"]) == 5
    assert {one["type"] for one in found["edges"]} == {"MemberOf"}


def test_who_wants_no_motion_sees_none(visitor):
    visitor.page.emulate_media(reduced_motion="reduce")
    page = visitor.go("query", q=TEAM, p='{"team":"platform"}', view="graph")
    expect(page.locator(".picture")).to_have_attribute("data-settled", "true")
    where = "[...document.querySelectorAll('*')].map(e => getComputedStyle(e).animationName)"
    assert set(page.evaluate(where)) == {"none"}


def test_it_never_grows_beyond_what_somebody_can_read(visitor):
    page = visitor.go("query")
    made = """async () => {
      const { Picture } = await import('/ui/app/picture.js');
      const { Colours } = await import('/ui/app/colours.js');
      const said = [];
      const announce = (text) => said.push(text);
      const on = { select() {}, expand() {}, announce };
      const picture = new Picture(new Colours(['P']), on);
      const node = (id) => ({ type: 'P', id: `${id}`, label: 'x' });
      const nodes = (from, many) => Array.from({ length: many }, (_, at) => node(from + at));
      picture.show(nodes(0, 1999), []);
      const added = [picture.add(nodes(5000, 2), []), picture.add(nodes(6000, 1), [])];
      added.push(picture.size);
      picture.undo();
      picture.destroy();
      return [added, picture.size, said];
    }"""
    added, size, said = page.evaluate(made)
    assert added == [0, 1, 2000]
    assert size == 1999
    assert "at most 2000" in said[0]
