"""Search as part of a match: text tests, scores as values, ranking, fusion."""

import math

import pytest

from tests.engine.read.fixtures import library, pairs
from tests.support.plain import terms


def slugs(match: str, rest: str = "", **params: object) -> list[str]:
    header = ", ".join(f"${name}: {kind}" for name, (kind, _) in params.items())
    text = f"query q({header}) {{ match {{ $d: Doc {match} }} return {{ $d.slug }} {rest} }}"
    return library().values(text, **{name: value for name, (_, value) in params.items()})


# Text tests


def test_search_finds_any_word_in_any_form():
    assert slugs('search($d.body, "network")') == ["dl"]
    assert slugs('search($d.body, "REWARD data")') == ["ml", "rl"]
    assert slugs('search($d.body, "unknown")') == []


def test_match_text_does_not_ask_for_neighbours():
    assert slugs('match_text($d.body, "networks layers")') == ["dl"]
    assert slugs('match_text($d.body, "neural")') == ["dl"]


def test_fuzzy_tolerates_as_many_edits_as_it_is_told():
    assert slugs('fuzzy($d.title, "Languge")') == ["nlp"]
    assert slugs('fuzzy($d.title, "Languge", 1)') == ["nlp"]
    assert slugs('fuzzy($d.title, "Languge", 0)') == []
    assert slugs('fuzzy($d.title, "lerning")') == ["dl", "ml", "rl"]


def test_several_text_clauses_must_all_hold():
    assert slugs('search($d.body, "learning")  search($d.title, "machine")') == ["ml"]
    assert slugs('search($d.body, "learning")  search($d.body, "rewards")') == ["rl"]


def test_text_that_is_null_or_does_not_match_is_no_match():
    assert slugs('search($d.body, "learning") = false') == ["dl", "nlp", "void"]
    assert slugs('not { search($d.body, "learning") }') == ["dl", "nlp", "void"]


def test_a_query_of_stop_words_or_nothing_matches_nothing():
    assert terms("the of and") == []
    assert slugs('search($d.body, "the of and")') == []
    assert slugs('search($d.body, "")') == []
    assert slugs("", 'order { bm25($d.body, "the") }') == []
    assert slugs("search($d.body, $q)", q=("String?", None)) == []


def test_a_text_clause_works_on_a_variable_that_was_reached():
    text = 'match { $a: Author  $a wrote $d  search($d.body, "words") } return { $a, $d }'
    assert library().values(text) == [("bob", "nlp")]
    negated = 'match { $a: Author  not { $a wrote $d  search($d.body, "words") } } return { $a }'
    assert library().values(negated) == ["ann"]


# Scores as values


def test_scores_are_values_of_their_row_and_remove_nothing():
    text = """match { $d: Doc } return { $d.slug, bm25($d.body, "learning") as score,
              nearest($d.vec, [1.0, 0.0, 0.0]) as far, search($d.body, "learning") as hit }"""
    rows = {row["d.slug"]: row for row in library().ask(text)}
    assert list(rows) == ["dl", "ml", "nlp", "rl", "void"]
    assert [slug for slug, row in rows.items() if row["score"] > 0] == ["ml", "rl"]
    assert rows["void"] == {"d.slug": "void", "score": 0.0, "far": None, "hit": False}
    assert rows["rl"]["far"] == 0.0
    assert rows["ml"]["far"] == pytest.approx(1 - 1 / math.sqrt(2))
    assert rows["nlp"]["far"] == 1.0


def test_bm25_is_the_documented_formula_over_rows_that_have_text():
    text = 'match { $d: Doc { slug: "ml" } } return { bm25($d.body, "learning") as s }'
    lengths = [len(terms(row["body"])) for row in library().rows["node:Doc"] if row["body"]]
    assert lengths == [4, 3, 3, 3]  # stop words do not count, null is no text
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    expected = idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / (13 / 4)))
    assert library().values(text) == [pytest.approx(expected)]


def test_scores_filter_and_order_like_other_values():
    assert slugs('bm25($d.body, "learning") > 0') == ["ml", "rl"]
    assert slugs("nearest($d.vec, [1.0, 0.0, 0.0]) <= 0.5") == ["ml", "rl"]
    assert slugs("nearest($d.vec, [1.0, 0.0, 0.0]) is null") == ["void"]
    later = 'order { $d.status, bm25($d.body, "rewards"), $d.slug desc } limit 9'
    assert slugs("", later) == ["void", "rl", "ml", "dl", "nlp"]


def test_aggregates_take_scores():
    text = 'match { $d: Doc } return { $d.status, max(bm25($d.body, "words")) as best }'
    found = dict(library().values(text))
    assert found["miss"] > 0
    assert found["hit"] == found[None] == 0.0


# Ranking


def test_nearest_returns_the_closest_first_and_exactly_limit_rows():
    order = "order { nearest($d.vec, [1.0, 0.0, 0.0]) } limit %d"
    assert slugs("", order % 3) == ["rl", "ml", "dl"]
    assert slugs("", order % 9) == ["rl", "ml", "dl", "nlp"]
    assert slugs("", order % 0) == []
    assert slugs("", order % 2 + " offset 1") == ["ml", "dl"]


def test_filters_count_before_the_best_are_chosen():
    order = "order { nearest($d.vec, [0.0, 0.0, 1.0]) } limit 2"
    assert slugs('$d.status = "hit"', order) == ["dl", "ml"]
    assert slugs("$d cites $x", order) == ["nlp", "ml"]
    assert slugs('not { $d.slug = "nlp" }', order) == ["dl", "ml"]


def test_bm25_keeps_what_matches_a_word():
    assert slugs("", 'order { bm25($d.body, "learning rewards") }') == ["rl", "ml"]
    assert slugs("", 'order { bm25($d.body, "learning rewards") asc }') == ["ml", "rl"]
    assert slugs("", 'order { bm25($d.body, "learning rewards") desc } limit 1') == ["rl"]


def test_later_keys_settle_equal_scores_then_ids():
    tied = 'order { bm25($d.title, "learning")%s }'
    assert slugs("", tied % "") == ["dl", "ml", "rl"]
    assert slugs("", tied % ", $d.slug desc") == ["rl", "ml", "dl"]


def test_the_rows_of_a_ranked_node_stay_together_and_limit_counts_rows():
    text = """match { $a: Author  $a wrote $d } return { $d.slug, $a }
              order { nearest($d.vec, [1.0, 1.0, 0.0]) } limit %d"""
    everything = [("ml", "ann"), ("ml", "bob"), ("rl", "ann"), ("nlp", "bob")]
    assert library().values(text % 9) == everything
    assert library().values(text % 3) == everything[:3]


def test_tied_nodes_come_one_after_the_other_with_all_their_rows():
    graph = library(Wrote=pairs("bob>dl", "ann>rl", "ann>dl", "bob>rl"))
    text = """match { $a wrote $d } return { $d.slug, $a }
              order { bm25($d.title, "learning") }"""
    wanted = [("dl", "ann"), ("dl", "bob"), ("rl", "ann"), ("rl", "bob")]
    assert graph.values(text) == wanted


def test_a_variable_that_was_reached_is_ranked_too():
    text = """match { $a: Author { name: "ann" }  $a wrote $x  $x cites $d }
              return distinct { $d.slug, nearest($d.vec, [0.0, 1.0, 0.0]) as far }
              order { far } limit 5"""
    assert [row[0] for row in library().values(text)] == ["dl", "ml"]


def test_distinct_keeps_the_membership_and_order_of_a_ranking():
    text = """match { $d: Doc  $a wrote $d }
              return distinct { $d.slug, bm25($d.body, "learning data") as s } order { s desc }"""
    assert [row[0] for row in library().values(text)] == ["ml", "rl"]


# Fusion


def rrf(first: str, second: str, rest: str = "limit 9", k: str = "") -> list[tuple[str, float]]:
    text = f"""match {{ $d: Doc }} return {{ $d.slug, rrf({first}, {second}{k}) as score }}
               order {{ score desc }} {rest}"""
    return library().values(text)


WORD = 'bm25($d.body, "learning")'
DEEP = 'bm25($d.title, "deep")'
NEAR = "nearest($d.vec, [0.0, 1.0, 0.0])"
ALT = "nearest($d.alt, [0.0, 1.0, 0.0])"


def test_fusion_adds_reciprocal_ranks_of_both_arms():
    found = dict(rrf(WORD, NEAR))
    assert found == {
        "ml": pytest.approx(1 / 61 + 1 / 62),
        "rl": pytest.approx(1 / 62 + 1 / 64),
        "dl": pytest.approx(1 / 61),
        "nlp": pytest.approx(1 / 63),
    }
    assert [slug for slug, _ in rrf(WORD, NEAR)] == ["ml", "rl", "dl", "nlp"]


def test_a_node_in_both_arms_beats_the_first_of_one():
    assert rrf(DEEP, WORD)[0][0] == "dl"
    assert rrf(NEAR, WORD)[0][0] == "ml"


def test_equal_scores_keep_the_primary_order_then_newcomers():
    assert [slug for slug, _ in rrf(DEEP, 'bm25($d.body, "rewards")')] == ["dl", "rl"]
    assert [slug for slug, _ in rrf('bm25($d.body, "rewards")', DEEP)] == ["rl", "dl"]


def test_texts_and_vectors_fuse_in_any_combination():
    assert {slug for slug, _ in rrf(WORD, DEEP)} == {"dl", "ml", "rl"}
    assert {slug for slug, _ in rrf(NEAR, ALT)} == {"dl", "ml", "nlp", "rl", "void"}
    assert {slug for slug, _ in rrf(NEAR, WORD)} == {"dl", "ml", "nlp", "rl"}


def test_a_nearest_arm_keeps_as_many_as_can_be_returned():
    assert [slug for slug, _ in rrf(DEEP, NEAR, "limit 1")] == ["dl"]
    # Two members: dl and ml. Without the bound nlp and rl would be there as well.
    assert [slug for slug, _ in rrf(NEAR, DEEP, "limit 1 offset 1")] == ["ml"]
    kept = [slug for slug, _ in rrf(NEAR, WORD, "limit 2")]
    assert kept == ["ml", "dl"]


def test_k_changes_scores():
    assert rrf(DEEP, WORD, k=", 1")[0] == ("dl", pytest.approx(0.5))


def test_worst_first_is_the_reverse():
    text = f"match {{ $d: Doc }} return {{ $d.slug }} order {{ rrf({WORD}, {NEAR}) %s }} limit 9"
    assert library().values(text % "asc") == library().values(text % "desc")[::-1]


def test_rows_of_a_fused_node_are_kept():
    text = f"""match {{ $d: Doc  $a wrote $d }} return {{ $d.slug, $a }}
               order {{ rrf({WORD}, {NEAR}) }} limit 9"""
    wanted = [("ml", "ann"), ("ml", "bob"), ("rl", "ann"), ("nlp", "bob")]
    assert library().values(text) == wanted


def test_a_fused_score_is_a_value_even_where_it_does_not_rank():
    text = f"""match {{ $d: Doc }} return {{ $d.slug, rrf({WORD}, {DEEP}) as score }}
               order {{ $d.slug }}"""
    found = dict(library().values(text))
    assert found["nlp"] is None
    assert found["void"] is None
    assert found["dl"] == pytest.approx(1 / 61)
    total = f"match {{ $d: Doc }} return {{ count(rrf({WORD}, {DEEP})) as n }}"
    assert library().values(total) == [3]


def test_nodes_tied_at_the_end_of_a_nearest_arm_are_cut_by_id():
    # dl, ml and rl are equally far; with a limit of two only dl stays beside nlp.
    found = rrf("nearest($d.vec, [0.0, 0.0, 1.0])", WORD, "limit 2")
    assert found == [("nlp", pytest.approx(1 / 61)), ("ml", pytest.approx(1 / 61))]
