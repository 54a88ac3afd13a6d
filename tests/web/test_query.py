"""Texts, findings, parameters, rows, files and writes."""

import json

import pyarrow as pa
import pytest
from playwright.sync_api import expect

import omnigraph
from tests.web.conftest import TEAM

NAMES = "query names() { match { $p: Person } return { $p.handle } order { $p.handle } }"
VALUES = """query values($level: String, $since: Date, $hours: I32?, $words: [String]) {
  match {
    $p: Person
    $p.level = $level
    $p.joined_on >= $since
    $p.handle in $words
  }
  return { $p.handle, $p.joined_on, $p.skills, $hours as hours }
}
"""
HIRE = """query hire($handle: String, $name: String) {
  insert Person { handle: $handle, name: $name, joined_on: date("2026-02-01") }
}
"""


def typed(page, text):
    editor = page.get_by_role("textbox", name="Query text")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    return editor


def test_what_is_typed_is_completed_from_the_schema(visitor):
    page = visitor.go("query")
    editor = typed(page, "query q() { match { $p: Person $p memberOf $t } return { $t.bud } }")
    page.keyboard.press("End")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+Space")
    expect(page.get_by_role("option", name="budget_eur")).to_be_visible()
    page.keyboard.press("Tab")
    expect(editor).to_contain_text("$t.budget_eur }")


def test_findings_stand_where_they_are_with_what_to_do(visitor):
    page = visitor.go("query")
    typed(
        page,
        'query q() { match { $p: Person { name: "Zoë 😀" } $p.titel = "x" } return { $p.name } }',
    )
    expect(page.locator(".findings")).to_contain_text("Person has no property `titel`")
    expect(page.locator(".findings .hint")).to_contain_text("title")
    expect(page.locator(".cm-lintRange-error")).to_have_text("$p.titel")  # behind wide characters
    assert "titel" in page.url
    visitor.watch.allowed.add(400)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".problem")).to_contain_text("T6")
    expect(page.locator(".problem")).to_contain_text("hint")


def test_a_form_knows_the_types_of_parameters(visitor):
    page = visitor.go("query", q=VALUES)
    page.get_by_label("$level").select_option("senior")
    expect(page.get_by_label("$since")).to_have_attribute("type", "date")
    page.get_by_label("$since").fill("2016-01-01")
    page.get_by_label("$words").fill('["jonas", "gustav"]')
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".vt-row")).to_have_count(2)
    first = page.locator(".vt-row").first
    expect(first).to_contain_text("2016-11-21")
    expect(first.locator(".vt-null").last).to_be_visible()  # $hours was left empty
    page.get_by_label("$words").fill("jonas")
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".problem")).to_contain_text("$words is [String], not 'jonas'")
    typed(page, VALUES.replace("return {", "return"))
    expect(page.locator(".params.stale")).to_contain_text("$level")


def test_a_text_of_several_queries_runs_the_chosen_one(visitor):
    page = visitor.go("query", q=TEAM + NAMES, name="names")
    expect(page.locator(".vt-row")).to_have_count(6)
    page.get_by_label("Which query").select_option("team")
    page.get_by_label("$team").fill("platform")
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".vt-row")).to_have_count(4)
    assert "name=team" in page.url


def test_a_cell_with_a_key_opens_its_node_and_neighbours_lead_on(visitor):
    page = visitor.go("query", q=NAMES)
    page.get_by_role("cell", name="jonas").click()
    inspector = page.get_by_role("complementary")
    expect(inspector.get_by_role("heading", name="Jonas Feld")).to_be_visible()
    inspector.get_by_role("button", name="Who changed what").click()
    expect(inspector.locator("table")).to_contain_text("ines")
    inspector.get_by_role("button", name="History", exact=True).click()
    expect(inspector.locator(".now")).to_have_text("Principal engineer")
    inspector.get_by_role("button", name="Platform").click()
    expect(inspector.get_by_role("heading", name="Platform")).to_be_visible()


def test_a_query_under_way_is_stopped_and_nobody_waits_for_it(visitor):
    page = visitor.page
    held = []
    page.route("**/query", lambda route: held.append(route))
    visitor.go("query", q=NAMES)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()
    expect(page.locator(".pane")).to_have_text("Stopped.")
    page.unroute_all()
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".vt-row")).to_have_count(6)
    assert len(held) == 1


@pytest.mark.parametrize("kind", ["CSV", "JSON lines", "Arrow"])
def test_rows_become_files(visitor, kind, tmp_path):
    page = visitor.go("query", q=TEAM, p='{"team":"platform"}')
    expect(page.locator(".vt-row")).to_have_count(4)
    page.get_by_text("Export").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name=kind, exact=True).click()
    path = tmp_path / saved.value.suggested_filename
    saved.value.save_as(path)
    if kind == "CSV":
        lines = path.read_text().splitlines()
        assert lines[:2] == ["p.handle,p.name,m.role", "ines,Inès Laurent,member"]
    elif kind == "JSON lines":
        assert json.loads(path.read_text().splitlines()[3])["p.handle"] == "sunita"
    else:
        assert pa.ipc.open_stream(path.read_bytes()).read_all().num_rows == 4


def test_a_write_is_two_steps_and_begins_on_a_new_branch(visitor, served):
    words = '{"handle":"noor","name":"Noor Haddad"}'
    page = visitor.go("query", q=HIRE, p=words)
    expect(page.get_by_role("button", name="Write…")).to_be_visible()
    page.get_by_role("textbox", name="Query text").click()
    page.keyboard.press("Control+Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This query writes")
    expect(dialog.get_by_label("on a new branch")).to_be_checked()
    dialog.get_by_role("button", name="Cancel").click()
    with omnigraph.connect(served) as graph:
        assert not [one for one in graph.branches.list() if one.startswith("changes/")]
    page.get_by_role("button", name="Write…").click()
    dialog.get_by_label("Name of the new branch").fill("changes/noor")
    dialog.get_by_label("Message").fill("Noor begins")
    dialog.get_by_role("button", name="Write").click()
    expect(page.get_by_role("heading", name="Written to changes/noor")).to_be_visible()
    page.get_by_role("button", name="Review").click()
    expect(page.locator(".now", has_text="Noor Haddad")).to_be_visible()
    with omnigraph.connect(served) as graph:
        assert graph.commits.list("changes/noor", limit=1)[0].message == "Noor begins"
        assert graph.query(NAMES).to_dicts()[-1] != {"p.handle": "noor"}


def test_the_past_is_read_and_not_written(visitor, served):
    with omnigraph.connect(served) as graph:
        oldest = graph.commits.list("main")[-2]  # before Jonas was promoted
    title = 'query q() { match { $p: Person { handle: "jonas" } } return { $p.title } }'
    page = visitor.go("query", q=title, at=oldest.graph_commit_id)
    expect(page.get_by_role("cell", name="Engineer", exact=True)).to_be_visible()
    typed(page, HIRE)
    page.get_by_role("button", name="Write…").click()
    expect(page.locator(".problem")).to_contain_text("the past cannot be written to")


@pytest.mark.parametrize("layout", ["arrow", "json"])
def test_stored_queries_are_shown_where_a_server_has_them(visitor, layout):
    page = visitor.page
    param = {"name": "team", "kind": "string", "nullable": False}
    stored = {"name": "crew", "description": "Who is there", "mutation": False, "params": [param]}
    asked = []

    def rows(route):
        asked.append(route.request.post_data_json)
        if layout == "json":
            found = [{"who": "ada"}, {"who": "<b>bo</b>"}]
            route.fulfill(json={"columns": ["who"], "rows": found})
            return
        table = pa.table({"who": ["ada", "<b>bo</b>"]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        kind = "application/vnd.apache.arrow.stream"
        route.fulfill(status=200, content_type=kind, body=sink.getvalue().to_pybytes())

    page.route("**/queries", lambda route: route.fulfill(json={"queries": [stored]}))
    page.route("**/queries/crew", rows)
    visitor.go("query")
    page.get_by_role("button", name="crew").click()
    page.get_by_label("$team").fill("platform")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("cell", name="<b>bo</b>")).to_be_visible()
    assert asked == [{"params": {"team": "platform"}, "branch": "main"}]
    page.unroute_all()
