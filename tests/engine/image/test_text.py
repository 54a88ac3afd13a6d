"""Text becomes terms, terms become postings, postings become scores."""

import math
import re
from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.image import postings as postings_module
from omnigraph.engine.image.analyzer import analyze, analyze_column
from omnigraph.engine.image.layers import layers_of
from omnigraph.engine.image.postings import (
    K1,
    B,
    bm25,
    bm25_best,
    build_lists,
    build_postings,
    matching_any,
    similar_terms,
    with_changes,
)
from omnigraph.engine.image.table import fresh_image

words = st.sampled_from(["red", "fox", "foxes", "running", "run", "the", "Ünïcode", "x1", "a_b"])
texts = st.lists(st.none() | st.lists(words, max_size=6).map(" ".join), max_size=12)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("Networks and LAYERS", ("network", "layer"), id="stem, stop, lower"),
        pytest.param("Café Ünïcode", ("cafe", "unicod"), id="fold"),
        pytest.param("snake_case-word 3.14", ("snake", "case", "word", "3", "14"), id="split"),
        pytest.param("x" * 41 + " ok", ("ok",), id="long tokens are dropped"),
        pytest.param("the of and", (), id="only stop words"),
        pytest.param("日本 data", ("日本", "data"), id="other scripts stay"),
        pytest.param("", (), id="empty"),
    ],
)
def test_the_analyzer_is_pinned(text, terms):
    assert analyze(text) == terms


@given(st.lists(st.none() | st.text(max_size=30), max_size=8))
def test_columns_and_single_texts_are_analyzed_alike(column):
    rows, terms, vocabulary = analyze_column(pa.array(column, pa.string()))
    found = [(int(row), vocabulary[term]) for row, term in zip(rows, terms, strict=True)]
    expected = [
        (row, term) for row, text in enumerate(column) if text is not None for term in analyze(text)
    ]
    assert found == expected


def naive_bm25(column, query, live):
    docs = {row: analyze(text) for row, text in enumerate(column) if text is not None and live[row]}
    scores: dict[int, float] = {}
    if not docs:
        return scores
    average = sum(map(len, docs.values())) / len(docs) or 1.0
    for term in analyze(query):
        having = {row: Counter(doc)[term] for row, doc in docs.items() if term in doc}
        idf = math.log(1 + (len(docs) - len(having) + 0.5) / (len(having) + 0.5))
        for row, count in having.items():
            norm = K1 * (1 - B + B * len(docs[row]) / average)
            scores[row] = scores.get(row, 0.0) + idf * count * (K1 + 1) / (count + norm)
    return scores


def an_image(column):
    rows = pa.table(
        {"id": [f"r{at}" for at in range(len(column))], "t": pa.array(column, "string")}
    )
    return fresh_image(len(column), lambda names: rows.select(list(names)))


def postings_of(image):
    changed = None if image.overlay is None else image.overlay.column("t").combine_chunks()
    return with_changes(build_lists(image.base.arrays(["t"])[0]), layers_of(image), changed)


def with_rows(image, upserts, deleted):
    rows = pa.table({"id": list(upserts), "t": pa.array(list(upserts.values()), "string")})
    return image.with_changes(rows if upserts else None, deleted)


ids = st.integers(0, 15).map("r{}".format)
text = st.none() | st.lists(words, max_size=6).map(" ".join)


@given(texts, st.dictionaries(ids, text, max_size=5), st.lists(ids, max_size=3), st.data())
def test_bm25_equals_the_formula_over_live_rows_however_they_came_about(
    column, upserts, deleted, data
):
    query = data.draw(st.lists(words, max_size=4).map(" ".join))
    image = with_rows(an_image(column), upserts, [one for one in deleted if one not in upserts])
    postings = postings_of(image)
    live = np.ones(image.positions, dtype=bool) if image.live is None else image.live
    now = image.column("t").full.to_pylist()
    result, expected = bm25(postings, analyze(query)), naive_bm25(now, query, live)
    assert result.rows.tolist() == sorted(expected)
    assert result.scores.tolist() == pytest.approx([expected[row] for row in sorted(expected)])
    wanted = set(analyze(query))
    assert matching_any(postings, analyze(query)).tolist() == [
        bool(here) and one is not None and bool(wanted & set(analyze(one)))
        for one, here in zip(now, live, strict=True)
    ]


@pytest.mark.parametrize("sparing", [0, 8])
@given(seed=st.integers(0, 2**32), wanted=st.integers(1, 12), width=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_best_by_bm25_are_those_of_all_with_bit_equal_scores(sparing, seed, wanted, width):
    with patch.object(postings_module, "_WORTH_SPARING", sparing):
        check_best(seed, wanted, width)


def check_best(seed, wanted, width):
    rng = np.random.default_rng(seed)
    drawn = [f"w{number}" for number in rng.zipf(1.4, 6_000) % 40]
    column = [" ".join(drawn[at * 6 : at * 6 + rng.integers(1, 7)]) for at in range(1_000)]
    postings = build_postings(pa.array(column))
    query = tuple(f"w{number}" for number in rng.zipf(1.4, width) % 40)
    every, best = bm25(postings, query), bm25_best(postings, query, wanted)
    scores = dict(zip(every.rows.tolist(), every.scores.tolist(), strict=True))
    least = sorted(scores.values(), reverse=True)[:wanted][-1:] or [0.0]
    assert {row for row, score in scores.items() if score >= least[0]} <= set(best.rows.tolist())
    assert best.scores.tolist() == [scores[row] for row in best.rows.tolist()]
    assert best.rows.tolist() == sorted(best.rows.tolist())


def test_a_word_that_is_asked_for_twice_is_as_strong_as_two():
    column = ["common common common"] * 60 + ["rare filler"] + ["x"] * 440
    postings = build_postings(pa.array(column))
    query = ("common", "common", "rare")
    every = bm25(postings, query)
    with patch.object(postings_module, "_WORTH_SPARING", 0):
        best = bm25_best(postings, query, 1)
    assert set(every.rows[every.scores == every.scores.max()].tolist()) <= set(best.rows.tolist())


def test_scores_do_not_depend_on_how_many_dead_rows_there_are():
    column = ["red fox", "red dog", "fox fox"]
    alone = bm25(build_postings(pa.array(column)), analyze("fox"))
    grown = with_rows(an_image([*column, "fox"]), {"r8": None, "r9": "fox red"}, [])
    with_dead = bm25(postings_of(with_rows(grown, {}, ["r3", "r8", "r9"])), analyze("fox"))
    assert with_dead.rows.tolist() == alone.rows.tolist()
    assert with_dead.scores.tolist() == alone.scores.tolist()


@given(texts, st.lists(words, max_size=3).map(" ".join))
def test_any_term_makes_a_match(column, query):
    mask = matching_any(build_postings(pa.array(column, pa.string())), analyze(query))
    wanted = set(analyze(query))
    assert mask.tolist() == [
        text is not None and bool(wanted & set(analyze(text))) for text in column
    ]


def edit_distance(left, right):
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row, before = [i], row
        for j, b in enumerate(right, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
    return row[-1]


@given(
    st.lists(st.text("abcé", min_size=1, max_size=6), max_size=12, unique=True),
    st.text("abcé", min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_similar_terms_are_exactly_those_within_the_edit_distance(column, term, edits):
    postings = build_postings(pa.array([" ".join(column)]))
    expected = {word for word in postings.words() if edit_distance(term, word) <= edits}
    assert set(similar_terms(postings, term, edits)) == expected


def test_both_spellings_of_the_separator_class_agree():
    every = "".join(map(chr, range(0x20, 0x3000)))
    column_tokens = [token for token in re.split(r"[\W_]+", every) if token]
    rows, _, _ = analyze_column(pa.array([every]))
    kept = [token for token in column_tokens if analyze(token)]
    assert len(rows) == len(kept)
