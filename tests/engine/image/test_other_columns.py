"""What is resident outlives a change of columns: they are renamed, dropped and added in place."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.engine.image import cache
from tests.support.fast import FAST

SCHEMA = """
node Doc { slug: String @key  text: String  size: I64?  vector: Vector(2)? }
edge Cites: Doc -> Doc { at: I64? }
"""
NEXT = """
node Page @rename_from("Doc") {
  slug: String @key
  extra: String?
  body: String @rename_from("text")
  bytes: I64? @rename_from("size")
  way: Vector(2)? @rename_from("vector")
}
edge Cites: Page -> Page { when: I64? @rename_from("at")  note: String? }
"""
LAST = """
node Page {
  slug: String @key
  body: String
  bytes: I64?
  vector: Vector(2)?
}
edge Cites: Page -> Page { note: String? }
"""
COUNT = 40


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as opened:
        docs = [
            {"slug": f"d{at:02}", "text": f"w{at % 5} w{at % 3}", "size": at, "vector": [at, 1.0]}
            for at in range(COUNT)
        ]
        cites = [
            {"from": f"d{at:02}", "to": f"d{(at * 7) % COUNT:02}", "at": at} for at in range(COUNT)
        ]
        opened.load({"Doc": rows(docs), "Cites": rows(cites)}, "append")
        yield opened


def rows(values):
    import pandas

    return pandas.DataFrame(values)


def asked(graph, text, body, size, way, kind="Doc"):
    """Ask for values, text, vectors and a walk, under whatever names they have."""
    queries = (
        f"match {{ $d: {kind}  $d.{size} > 30 }} return {{ $d.slug, $d.{size} as v }}",
        f'match {{ $d: {kind}  search($d.{body}, "w3") }} return {{ $d.slug }}',
        f"match {{ $d: {kind} }} return {{ $d.slug, $d.{way} as w }} "
        f"order {{ nearest($d.{way}, [1.0, 2.0]) }} limit 5",
        f"match {{ $d: {kind}  $d cites $e }} return {{ $d.slug, $e.{body} as t }}",
        *text,
    )
    found = [graph.query(f"query q() {{ {one} }}").to_tuples() for one in queries * 2]
    return found[: len(queries)]


def test_images_are_carried_over_and_say_what_a_fresh_reader_says(graph, monkeypatch):
    first = asked(graph, (), "text", "size", "vector")
    read = []
    real = cache.read_image
    monkeypatch.setattr(cache, "read_image", lambda *args: read.append(args) or real(*args))
    graph.apply_schema(NEXT)
    more = (
        "match { $d: Page  $d.extra is null } return { count($d) as n }",
        "match { $d: Page  $d $e:cites $o  $e.when > 35 } return { $d.slug, $e.note as n }",
    )
    assert asked(graph, more, "body", "bytes", "way", "Page")[:4] == first
    for number in range(3):
        text = f'update Page set {{ extra: "s{number}", body: "w9" }} where slug = "d0{number}"'
        graph.mutate(f"query q() {{ {text} }}")
    graph.mutate('query q() { insert Page { slug: "new", body: "w3 x", bytes: 99 } }')
    graph.mutate('query q() { delete Page where slug = "d31" }')
    second = asked(graph, more, "body", "bytes", "way", "Page")
    assert read == [], "a table was read again though only its columns were called otherwise"
    assert_fresh(graph, second, more, "way")
    graph.apply_schema(LAST, allow_data_loss=True)
    last = ('match { $d: Page  search($d.body, "w9") } return { $d.slug }',)
    third = asked(graph, last, "body", "bytes", "vector", "Page")
    assert third[2] == []
    assert_fresh(graph, third, last, "vector")
    graph.mutate(
        'query q($v: Vector(2)) { update Page set { vector: $v } where slug = "d05" }',
        params={"v": [1.0, 2.0]},
    )
    assert_fresh(graph, asked(graph, last, "body", "bytes", "vector", "Page"), last, "vector")


def assert_fresh(graph, found, more, way):
    with omnigraph.connect(graph.uri, options=FAST) as again:
        assert found == asked(again, more, "body", "bytes", way, "Page")
