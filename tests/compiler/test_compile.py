"""The one entry: lookup, binding and the cache."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from omnigraph.compiler import compile as compile_module
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import (
    AmbiguousQueryError,
    CompileCache,
    QueryNotFoundError,
    compile_file,
    compile_query,
)
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.query.params import MissingParamError, ParamError
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typed import NOW_PARAM
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError, NotFoundError
from tests.support.cases import CASES

CATALOG = load_schema(Source((CASES / "social.pg").read_text(encoding="utf-8"))).catalog
TEXT = """
query adults($min: I32, $n: I64?, $skip: I64?) @description("grown-ups") {
  match { $p: Person  $p.age >= $min }
  return { $p.name, $p.age as years }
  order { years desc }
  limit $n
  offset $skip
}
query touch($name: String) { update Person set { age: 3 } where name = $name }
query broken() { match { $p: Ghost } return { $p.name } }
"""


def test_a_query_is_found_by_name():
    found = compile_query(CATALOG, TEXT, "adults")
    assert (found.name, found.description, found.is_mutation) == ("adults", "grown-ups", False)
    assert [(column.name, str(column.type)) for column in found.columns] == [
        ("p.name", "String"),
        ("years", "I32?"),
    ]
    assert [f"{param.name}: {param.type}" for param in found.params] == [
        "min: I32",
        "n: I64?",
        "skip: I64?",
    ]
    touch = compile_query(CATALOG, TEXT, "touch")
    assert touch.is_mutation
    assert touch.columns == ()


def test_a_missing_query_is_named_with_the_nearest_one():
    with pytest.raises(QueryNotFoundError, match="query 'adult' not found") as caught:
        compile_query(CATALOG, TEXT, "adult")
    assert caught.value.hint == "did you mean `adults`?"
    assert isinstance(caught.value, NotFoundError)
    with pytest.raises(QueryNotFoundError) as caught:
        compile_query(CATALOG, "", "x")
    assert caught.value.hint == "the text has no queries"


def test_without_a_name_the_text_has_one_query():
    one = "query only() { match { $p: Person } return { $p.name } }"
    assert compile_query(CATALOG, one).name == "only"
    with pytest.raises(AmbiguousQueryError, match="multiple queries") as caught:
        compile_query(CATALOG, TEXT)
    assert caught.value.hint == "name one of adults, touch, broken"
    assert isinstance(caught.value, BadRequestError)
    with pytest.raises(AmbiguousQueryError):
        compile_query(CATALOG, "// nothing")


def test_a_broken_query_does_not_stop_its_neighbours():
    assert compile_query(CATALOG, TEXT, "touch")
    with pytest.raises(DiagnosticsError, match="T1"):
        compile_query(CATALOG, TEXT, "broken")
    with pytest.raises(DiagnosticsError, match="T1"):
        compile_file(CATALOG, Source(TEXT))


def test_binding_checks_values_and_row_counts():
    query = compile_query(CATALOG, TEXT, "adults")
    bound = query.bind({"min": "18", "n": 5, "skip": 2}, now_ms=7)
    assert (bound.limit, bound.offset) == (5, 2)
    assert bound.params == {"min": 18, "n": 5, "skip": 2, NOW_PARAM: 7}
    with pytest.raises(MissingParamError):
        query.bind({"n": 5, "skip": 0}, now_ms=7)
    with pytest.raises(ParamError, match="param 'n': null is not accepted for `limit`"):
        query.bind({"min": 1, "skip": 0}, now_ms=7)
    with pytest.raises(ParamError, match="param 'skip': `offset` must be at least 0, got -1"):
        query.bind({"min": 1, "n": 1, "skip": -1}, now_ms=7)


def test_counts_of_search_functions_are_checked_when_they_are_bound():
    text = """query q($k: I32?, $e: I32) {
      match { $d: Doc  fuzzy($d.body, "x", $e) }
      return { $d.slug, rrf(bm25($d.title, "x"), bm25($d.body, "x"), $k) as score }
      order { score desc }
      limit 3
    }"""
    query = compile_query(CATALOG, text)
    assert query.bind({"k": 1, "e": 0}, now_ms=7).params["k"] == 1
    with pytest.raises(ParamError, match="param 'k': `k` must be at least 1, got 0"):
        query.bind({"k": 0, "e": 0}, now_ms=7)
    with pytest.raises(ParamError, match="param 'k': null is not accepted for `k`"):
        query.bind({"e": 0}, now_ms=7)
    with pytest.raises(ParamError, match="param 'e': `max_edits` must be at least 0, got -1"):
        query.bind({"k": 1, "e": -1}, now_ms=7)


def test_a_query_without_counts_has_none():
    text = "query q() { match { $p: Person } return { $p.name } }"
    bound = compile_query(CATALOG, text).bind(None, now_ms=7)
    assert (bound.limit, bound.offset) == (None, 0)


def test_the_same_text_is_compiled_once():
    cache = CompileCache(capacity=8)
    first = cache.compile(CATALOG, TEXT, "adults")
    assert cache.compile(CATALOG, "" + TEXT[:5] + TEXT[5:], "adults") is first
    assert cache.compile(CATALOG, Source(TEXT, "elsewhere.gq"), "adults") is first
    assert cache.compile(CATALOG, TEXT, "touch") is not first


def test_another_schema_is_another_entry():
    cache = CompileCache(capacity=8)
    first = cache.compile(CATALOG, TEXT, "adults")
    other = replace(CATALOG, schema_hash="other")
    assert cache.compile(other, TEXT, "adults") is not first
    unidentified = replace(CATALOG, schema_hash="")
    assert cache.compile(unidentified, TEXT, "adults") is not cache.compile(
        unidentified, TEXT, "adults"
    )


def test_the_cache_keeps_the_most_recently_used():
    cache = CompileCache(capacity=2)
    texts = [f"query q{n}() {{ match {{ $p: Person }} return {{ $p.name }} }}" for n in range(3)]
    first = cache.compile(CATALOG, texts[0])
    second = cache.compile(CATALOG, texts[1])
    assert cache.compile(CATALOG, texts[0]) is first
    cache.compile(CATALOG, texts[2])
    assert len(cache) == 2
    assert cache.compile(CATALOG, texts[0]) is first
    assert cache.compile(CATALOG, texts[1]) is not second


def test_a_failed_compilation_is_not_kept():
    cache = CompileCache(capacity=2)
    with pytest.raises(DiagnosticsError):
        cache.compile(CATALOG, TEXT, "broken")
    assert len(cache) == 0


def test_threads_share_the_cache():
    cache = CompileCache(capacity=4)
    texts = [f"query q{n}() {{ match {{ $p: Person }} return {{ $p.name }} }}" for n in range(8)]

    def work(turn: int) -> bool:
        return all(cache.compile(CATALOG, text).name in text for text in texts[turn % 8 :])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(64)))
    assert len(cache) == 4


def test_a_text_of_many_queries_is_parsed_once(monkeypatch):
    parsed = []

    def counted(source):
        parsed.append(source.name)
        return parse_queries(source)

    monkeypatch.setattr(compile_module, "parse_queries", counted)
    catalog = load_schema(Source("node P { k: String @key }")).catalog
    text = "".join(f"query q{at}() {{ match {{ $p: P }} return {{ $p.k }} }}\n" for at in range(5))
    cache = CompileCache(capacity=8)
    assert [query.name for query in cache.parse(Source(text, "a.gq")).queries][:2] == ["q0", "q1"]
    for at in range(5):
        assert cache.compile(catalog, Source(text, "b.gq"), f"q{at}").name == f"q{at}"
    assert parsed == ["a.gq"]
    broken = Source("query q0() { match { $p: Q } return { $p.k } }", "c.gq")
    for name in ("first.gq", "second.gq"):
        with pytest.raises(DiagnosticsError) as caught:
            cache.compile(catalog, Source(broken.text, name))
        assert caught.value.source.name == name


COMPARED = [
    "query q($s: String?) { match { $p: Person $p.status = $s } return { $p.name } }",
    "query q($s: String?) { match { $p: Person $s != $p.status } return { $p.name } }",
    "query q($s: String?) { match { $p: Person { status: $s } } return { $p.name } }",
    "query q($s: String?) { match { $p: Person not { $p knows $f $f.status = $s } }"
    " return { $p.name } }",
    "query q($s: String?) { update Person set { age: 3 } where status = $s }",
    "query q($s: enum(active, awya)?) { match { $p: Person $p.status = $s } return { $p.name } }",
]


@pytest.mark.parametrize("text", COMPARED)
def test_a_parameter_compared_with_an_enum_has_to_be_one_of_its_words(text):
    query = compile_query(CATALOG, text)
    assert query.bind({"s": "active"}, now_ms=0).params["s"] == "active"
    assert query.bind({}, now_ms=0).params["s"] is None
    with pytest.raises(
        ParamError, match=r"'awya' is not one of enum\(active, away, left\)"
    ) as told:
        query.bind({"s": "awya"}, now_ms=0)
    assert told.value.hint == "did you mean `away`?"


def test_every_word_of_a_list_is_compared_with_an_enum():
    text = "query q($s: [String]) { match { $p: Person $p.status in $s } return { $p.name } }"
    query = compile_query(CATALOG, text)
    assert query.bind({"s": ["left", "away"]}, now_ms=0).params["s"] == ("left", "away")
    with pytest.raises(ParamError, match="'gone' is not one of"):
        query.bind({"s": ["left", "gone"]}, now_ms=0)


def test_words_are_free_where_they_are_not_compared_as_a_whole():
    text = "query q($s: String) { match { $p: Person $p.status starts_with $s $p.name = $s }"
    query = compile_query(CATALOG, text + " return { $p.name } }")
    assert query.bind({"s": "a"}, now_ms=0).params["s"] == "a"


def test_an_enum_parameter_takes_its_own_words_only():
    text = "query q($s: enum(big, small)) { match { $p: Person $p.name = $s } return { $s as s } }"
    query = compile_query(CATALOG, text)
    assert query.bind({"s": "big"}, now_ms=0).params["s"] == "big"
    with pytest.raises(ParamError, match=r"'bog' is not one of enum\(big, small\)"):
        query.bind({"s": "bog"}, now_ms=0)


@pytest.mark.parametrize(
    ("bounds", "hint"), [("{2,}", "{2,5}"), ("{0,}", "{1,5}"), ("{7,}", "{7,7}")]
)
def test_the_hint_for_a_walk_without_an_end_is_a_walk_that_is_accepted(bounds, hint):
    text = "query q() {{ match {{ $p: Person $p knows{} $f }} return {{ $f.name }} }}"
    with pytest.raises(DiagnosticsError) as told:
        compile_query(CATALOG, text.format(bounds))
    assert told.value.diagnostics[0].hint == f"write `{hint}`"
    assert compile_query(CATALOG, text.format(hint))
