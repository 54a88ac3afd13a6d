"""The parts of the page that need no screen: completion, colours, lanes, places, tars."""

import io
import tarfile

import pytest

from tests.web.conftest import EXAMPLES, Visitor


@pytest.fixture(scope="module")
def run(context, served):
    visitor = Visitor(context, served)
    page = visitor.go("query")

    def call(module, code, *given):
        return page.evaluate(
            f"async (given) => {{ const m = await import('/ui/app/{module}.js'); {code} }}", given
        )

    yield call
    visitor.watch.check()


COMPLETED = [
    ("match { $p: Per", "Person"),
    ("match { $p: Person $p.na", "name"),
    ("match { $p: Person $p mem", "memberOf"),
    ("match { $p: Person { ti", "title"),
    ('match { $p: Person { level: "se', "senior"),
    ("match { $p memberOf $t $t.bud", "budget_eur"),
    ("match { $w:worksOn $w.ho", "hours_per_week"),
    ("query q() { mat", "match"),
    ("insert MemberOf { fr", "from"),
    ("match { $person: Person } return { $pe", "person"),
]


@pytest.mark.parametrize(("before", "expected"), COMPLETED)
def test_what_may_come_next(run, served, before, expected):
    code = """const c = await (await fetch('/catalog')).json();
      const found = m.complete(given[0], '', c);
      return found && [found.typed, found.options.map((one) => one.label)];"""
    typed, labels = run("complete", code, before)
    assert expected in labels
    assert before.endswith(before[len(before) - typed :])


def test_every_word_of_the_examples_gets_a_colour_or_none(run):
    text = (EXAMPLES / "company.gq").read_text()
    code = """let line = ''; let at = 0; const state = {comment: false};
      const stream = {
        match(what, consume = true) {
          const rest = line.slice(at);
          const isText = typeof what === 'string';
          const found = isText ? (rest.startsWith(what) ? [what] : null) : what.exec(rest);
          if (!found || (!isText && found.index !== 0)) return null;
          if (consume !== false) at += found[0].length;
          return found;
        },
        eatSpace() { const s = at; while (/\\s/.test(line[at] ?? '')) at++; return at > s; },
        next() { at++; }, skipToEnd() { at = line.length; },
      };
      const seen = {};
      for (line of given[0].split('\\n')) {
        at = 0;
        while (at < line.length) {
          const start = at; const kind = m.token(stream, state);
          if (at <= start) throw new Error('it stands still');
          if (kind) (seen[kind] ??= new Set()).add(line.slice(start, at));
        }
      }
      return Object.fromEntries(Object.entries(seen).map(([k, v]) => [k, [...v]]));"""
    seen = run("words", code, text)
    assert {"query", "match", "return", "not", "limit"} <= set(seen["keyword"])
    assert {"rrf", "nearest", "bm25"} <= set(seen["function"])
    assert "Person" in seen["typeName"]
    assert "$me" in seen["variableName"]


def test_places_in_bytes_become_places_in_a_text(run):
    code = "const at = m.byteIndex(given[0]); return [0, 1, 3, 7, 8].map(at);"
    assert run("values", code, "aé😀b") == [0, 1, 2, 4, 5]
    assert run("values", code, "plain ascii") == [0, 1, 3, 7, 8]


def test_branches_keep_their_lanes(run):
    def commit(name, parent, branch=None, merged=None):
        return {
            "graph_commit_id": name,
            "parent_commit_id": parent,
            "merged_parent_commit_id": merged,
            "manifest_branch": branch,
        }

    commits = [
        commit("f", "d", None, "e"),
        commit("e", "c", "side"),
        commit("d", "b"),
        commit("c", "b", "side"),
        commit("b", "a"),
        commit("a", "gone"),
    ]
    code = """const found = m.lanesOf(given[0], given[1]);
      const lines = found.lines.map((one) => [one.from.row, one.to.row]);
      return [found.rows.map((one) => one.lane), found.width, lines];"""
    lanes, width, lines = run("lanes", code, commits, {"main": "f", "side": "e"})
    assert lanes == [0, 1, 0, 1, 0, 0]
    assert width == 2
    assert lines == [[0, 2], [0, 1], [1, 3], [2, 4], [3, 4], [4, 5], [5, 6]]


def test_files_are_sent_as_a_tar_that_everybody_reads(run):
    code = """const file = (what, name, text) => ({what, file: new File([text], name)});
      const long = 'y'.repeat(513);
      const csv = file('Person', 'a b.csv', 'name\\nx\\n');
      const blob = m.tarOf([csv, file('lines', 'é.jsonl', long)]);
      return [...new Uint8Array(await blob.arrayBuffer())];"""
    found = bytes(run("tar", code))
    with tarfile.open(fileobj=io.BytesIO(found)) as tar:
        names = tar.getnames()
        first = tar.extractfile(names[0])
        assert first is not None
        assert first.read() == b"name\nx\n"
    assert names == ["Person/0/a_b.csv", "lines/1/_.jsonl"]
