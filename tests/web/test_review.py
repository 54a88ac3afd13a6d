"""Conflicts of every kind, settled in the page: what comes of it is what the command line makes."""

import json

import pytest
from playwright.sync_api import expect

import omnigraph
from tests.cli.conftest import cli
from tests.support.fast import FAST
from tests.support.servers import server_thread
from tests.web.conftest import visiting

__all__ = ["cli"]  # a fixture
SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  mail: String? @unique
  @range(age, 0..150)
}
edge Knows: Person -> Person { since: Date? }
edge Leads: Person -> Person @card(0..1)
"""
NAMES = ("ada", "bo", "cy", "di", "ed", "flo")


def do(graph, text, branch="main"):
    graph.mutate(f"query q() {{ {text} }}", branch=branch, actor=f"of-{branch}")


def both_sides(folder):
    """A graph whose branch meets main in rows of all three kinds."""
    with omnigraph.init(str(folder), SCHEMA, options=FAST) as graph:
        for name in NAMES:
            do(graph, f'insert Person {{ name: "{name}", age: 30 }}')
        graph.branches.create("dev")
        for branch, age, city in (("dev", 31, "oslo"), ("main", 32, "rome")):
            for name in ("ada", "bo", "cy"):
                do(graph, f'update Person set {{ age: {age} }} where name = "{name}"', branch)
                do(graph, f'update Person set {{ city: "{city}" }} where name = "{name}"', branch)
            do(graph, f'insert Person {{ name: "new", age: {age} }}', branch)
        do(graph, 'delete Person where name = "di"', "dev")
        do(graph, 'update Person set { age: 40 } where name = "di"')
        do(graph, 'update Person set { age: 50 } where name = "ed"', "dev")
        do(graph, 'delete Person where name = "ed"')


@pytest.fixture
def folder(tmp_path):
    both_sides(tmp_path / "page.omni")
    return tmp_path


@pytest.fixture
def visitor(folder, chromium):
    with (
        server_thread(str(folder / "page.omni")) as address,
        visiting(chromium, address, accept_downloads=True) as found,
    ):
        yield found


def rows(folder):
    with omnigraph.connect(str(folder), options=FAST) as graph:
        lines = b"".join(graph.iter_export()).splitlines()
    return sorted(lines)


def row(page, name):
    return page.locator(f'[data-conflict="node:Person:{name}"]')


def merged(page):
    page.get_by_role("button", name="Merge").click()
    page.get_by_role("dialog").get_by_role("button", name="Merge").click()
    expect(page.get_by_role("heading", name="Merged")).to_be_visible()


def test_rows_settled_in_the_page_are_those_the_command_line_merges(visitor, folder, tmp_path, cli):
    page = visitor.go("review", source="dev")
    expect(page.get_by_text("6 conflicts to resolve")).to_be_visible()
    expect(page.get_by_role("button", name="Merge")).to_be_disabled()
    assert {*page.locator(".conflict-head .tag").all_text_contents()} == {
        "divergent_insert", "divergent_update", "delete_vs_update"
    }  # fmt: skip
    expect(row(page, "di")).to_contain_text("Take dev (deleted)")
    expect(row(page, "ada").locator("tbody tr").first).to_contain_text("30")
    row(page, "ada").get_by_label("Keep main").check()
    row(page, "bo").get_by_label("Take dev").check()
    row(page, "cy").get_by_label("By property").check()
    expect(page.get_by_text("4 conflicts to resolve")).to_be_visible()  # nothing is assumed
    row(page, "cy").get_by_label("Side of city").select_option("dev")
    row(page, "cy").get_by_label("Side of age").select_option("a value")
    row(page, "cy").get_by_label("Value of age").fill("77")
    row(page, "new").get_by_label("Take dev").check()
    row(page, "di").get_by_label("Take dev").check()
    expect(page.get_by_text("1 conflict to resolve")).to_be_visible()
    row(page, "ed").get_by_label("Take dev").check()
    expect(page.locator(".hero .tag.good")).to_have_text("merges cleanly")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save resolutions").click()
    saved.value.save_as(tmp_path / "answers.jsonl")
    merged(page)

    both_sides(tmp_path / "cli.omni")
    target = ["--uri", str(tmp_path / "cli.omni")]
    answers = str(tmp_path / "answers.jsonl")
    done = cli("branch", "merge", "dev", *target, "--resolve", answers)
    assert done.code == 0, done.err
    assert rows(folder / "page.omni") == rows(tmp_path / "cli.omni")
    kept = {
        json.loads(one)["data"]["name"]: json.loads(one)["data"]
        for one in rows(folder / "page.omni")
    }
    assert (kept["cy"]["age"], kept["cy"]["city"]) == (77, "oslo")
    assert "di" not in kept
    assert kept["ed"]["age"] == 50


def test_a_file_of_the_command_line_settles_them_in_the_page(visitor, tmp_path, cli):
    told = tmp_path / "told.jsonl"
    uri = str(tmp_path / "page.omni")
    cli("branch", "merge", "dev", "--uri", uri, "--conflicts", str(told), "--preview")
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    assert len(lines) == 6
    told.write_text("".join(json.dumps(one | {"resolution": "theirs"}) + "\n" for one in lines))
    page = visitor.go("review", source="dev")
    page.get_by_label("File of resolutions").set_input_files(told)
    expect(page.locator(".hero .tag.good")).to_have_text("merges cleanly")
    expect(row(page, "ada").get_by_label("Take dev")).to_be_checked()
    page.get_by_role("button", name="Keep all of main").click()
    expect(row(page, "ada").get_by_label("Keep main")).to_be_checked()
    merged(page)


def test_rules_that_both_sides_break_are_told_and_mended_on_one_of_them(folder, chromium):
    with omnigraph.connect(str(folder / "page.omni"), options=FAST) as graph:
        graph.branches.create("rules")
        do(graph, 'update Person set { mail: "x@" } where name = "ada"', "rules")
        do(graph, 'update Person set { mail: "x@" } where name = "bo"')
        do(graph, 'insert Leads { from: "cy", to: "ada" }', "rules")
        do(graph, 'insert Leads { from: "cy", to: "bo" }')
        do(graph, 'delete Person where name = "flo"', "rules")
        do(graph, 'insert Knows { from: "ada", to: "flo" }')
        do(graph, 'update Person set { age: 1 } where name = "di"', "rules")
        do(graph, 'update Person set { age: 2 } where name = "di"')
    with (
        server_thread(str(folder / "page.omni")) as address,
        visiting(chromium, address) as visitor,
    ):
        page = visitor.go("review", source="rules")
        row(page, "di").get_by_label("By property").check()
        row(page, "di").get_by_label("Side of age").select_option("a value")
        row(page, "di").get_by_label("Value of age").fill("200")
        card = page.locator(".rules").first
        for kind in ("unique", "cardinality", "value_constraint"):
            expect(card).to_contain_text(f"{kind}_violation")
        expect(card).to_contain_text("orphan_edge")
        row(page, "di").get_by_label("Value of age").fill("20")
        expect(card).not_to_contain_text("value_constraint")
        mend(address)
        page.get_by_role("button", name="Look again").click()
        expect(page.locator(".conflict")).to_have_count(1)
        expect(page.locator(".hero .tag.good")).to_have_text("merges cleanly")
        merged(page)


def mend(address):
    """Take from the branch what goes against main."""
    with omnigraph.connect(address) as graph:
        for text in (
            'update Person set { mail: "y@" } where name = "ada"',
            'delete Leads where from = "cy"',
            'insert Person { name: "flo", age: 30 }',
        ):
            graph.mutate(f"query q() {{ {text} }}", branch="rules")


def test_nothing_to_review_is_said(visitor):
    page = visitor.go("review", source="main", target="main")
    expect(page.get_by_text("There is no other branch to review")).to_be_visible()
    page.get_by_label("Branch to review").select_option("dev")
    expect(page.get_by_text("6 conflicts to resolve")).to_be_visible()
    page.get_by_role("button", name="Take all of dev").click()
    expect(page.locator(".hero .tag.good")).to_have_text("merges cleanly")
