"""Values that would be markup, scripts or formulas if anybody took them for that, everywhere."""

import pytest
from playwright.sync_api import expect

import omnigraph
from tests.support.fast import FAST
from tests.support.servers import server_thread
from tests.web.conftest import HOSTILE, SCRIPT, visiting

SCHEMA = """
node Page @description("<img src=x onerror=alert(1)>") {
  name: String @key
  text: String?
  link: String?
}
edge Links: Page -> Page { why: String? }
"""
SCREENS = ("schema", "branches", "review", "load", "admin")
ALL = """query q() {
  match { $a: Page $b: Page $a $e:links $b }
  return { $a.name, $a.text, $b.link, $e.why }
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "h.omni"
    put = "query put($n: String, $t: String) { insert Page { name: $n, text: $t, link: $l } }"
    put = put.replace("$t: String)", "$t: String, $l: String)")
    change = "query c($n: String, $t: String) { update Page set { text: $t } where name = $n }"
    link = "query l($a: String, $b: String) { insert Links { from: $a, to: $b, why: $b } }"
    with omnigraph.init(str(path), SCHEMA, options=FAST) as graph:
        for name in (HOSTILE, SCRIPT):
            values = {"n": name, "t": f"=1+1{SCRIPT}", "l": "javascript:document.title='ran'"}
            graph.mutate(put, params=values, actor=HOSTILE, message=SCRIPT)
        graph.mutate(link, params={"a": HOSTILE, "b": SCRIPT})
        graph.branches.create("side")
        for branch, text in (("side", HOSTILE), ("main", SCRIPT)):
            graph.mutate(change, params={"n": HOSTILE, "t": text}, branch=branch, actor=SCRIPT)
        graph.tags.create("tag", message=HOSTILE)
    return path


@pytest.mark.parametrize("guarded", [True, False], ids=["under the policy", "without it"])
def test_text_stays_text_on_every_screen(chromium, folder, guarded):
    with (
        server_thread(str(folder), graph_id="h") as address,
        visiting(chromium, address, bypass_csp=not guarded) as visitor,
    ):
        page = visitor.go("query", q=ALL, view="table")
        expect(page.locator(".vt-row")).to_contain_text(HOSTILE)
        expect(page.locator(".vt a")).to_have_count(0)  # `javascript:` is no link
        page.get_by_role("cell", name=HOSTILE).first.click()
        inspector = page.get_by_role("complementary")
        expect(inspector.get_by_role("heading").first).to_have_text(HOSTILE)
        inspector.get_by_role("button", name="History", exact=True).click()
        expect(inspector.locator(".life")).to_contain_text(SCRIPT)
        for view, holds in (("Graph", "canvas"), ("JSON", "pre.json"), ("Plan", "table.plan")):
            page.get_by_role("tab", name=view).click()
            expect(page.locator(holds)).to_be_visible()
        page.get_by_role("tab", name="Graph").click()
        page.get_by_role("button", name="List").click()
        expect(page.locator(".nodelist")).to_contain_text(HOSTILE)
        untouched(page)
        visitor.watch.allowed.add(400)
        page.get_by_role("textbox", name="Query text").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(f'query q() {{ match {{ $p: Page $p.text = "{HOSTILE[:9]}')
        expect(page.locator(".findings")).to_be_visible()
        page.keyboard.press("Control+Enter")
        expect(page.locator(".problem")).to_be_visible()
        untouched(page)
        for screen in SCREENS:
            visitor.go(screen)
            untouched(page)
        visitor.go("review", source="side")
        expect(page.locator(".conflict")).to_contain_text(HOSTILE)
        visitor.go("branches")
        expect(page.locator(".commits")).to_contain_text(SCRIPT)
        visitor.go("entity", type="Page", id=HOSTILE)
        expect(page.locator(".card").first).to_contain_text(HOSTILE)
        visitor.go("schema", type="Page")
        expect(page.get_by_role("complementary")).to_contain_text("<img src=x")
        untouched(page)


def untouched(page):
    """Nothing ran, and no element came of a value."""
    assert page.title() != "ran"
    assert page.locator("img").count() == 1  # the page's own mark
    assert page.locator("script").count() == 1
    assert page.locator("[onerror]").count() == 0


def test_the_policy_refuses_what_would_make_markup(visitor):
    page = visitor.go("query")
    for attack in (
        "document.body.innerHTML = '<b>x</b>'",
        "document.createElement('script').text = 'x'",
        "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
        "trustedTypes.createPolicy('mine', {createHTML: (text) => text})",
    ):
        tried = (
            f"() => {{ try {{ {attack}; return 'done' }} catch (error) {{ return error.name }} }}"
        )
        assert page.evaluate(tried) == "TypeError"
    visitor.watch.said.clear()  # the browser notes each refusal


def test_no_other_page_can_frame_it(visitor, served):
    page = visitor.go("query")
    framed = """(url) => new Promise((done) => {
      const frame = document.createElement('iframe');
      const inside = () => frame.contentDocument?.body.childElementCount ?? 'refused';
      frame.onload = () => done(inside());
      frame.src = url;
      document.body.append(frame);
    })"""
    assert page.evaluate(framed, f"{served}/ui/") in ("refused", 0)
    visitor.watch.said.clear()


def test_cells_a_spreadsheet_would_run_are_quoted(visitor):
    page = visitor.go("query")
    cells = """async () => {
      const { csvCell } = await import('/ui/app/values.js');
      const texts = ['=1+1', '+1', '-1', '@x', 'a"b', 'a,b', 'x'];
      return texts.map((one) => csvCell(one)).concat(csvCell('-1', false), csvCell(null));
    }"""
    assert page.evaluate(cells) == ["'=1+1", "'+1", "'-1", "'@x", '"a""b"', '"a,b"', "x", "-1", ""]
