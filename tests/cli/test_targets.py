"""Which of two words is the graph, and which is the name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.output import UsageError
from omnigraph.cli.target import looks_like_uri, split_words


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a/dir").mkdir(parents=True)
    (tmp_path / "plain").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "uri", "name"),
    [
        (["feature"], None, "feature"),
        (["x.omni"], None, "x.omni"),
        (["feature", "x.omni"], "x.omni", "feature"),
        (["x.omni", "feature"], "x.omni", "feature"),
        (["review/2026", "x.omni/"], "x.omni/", "review/2026"),
        (["s3://b/x", "review/2026"], "s3://b/x", "review/2026"),
        (["feature", "a/dir"], "a/dir", "feature"),
        (["a/dir", "feature"], "a/dir", "feature"),
        (["plain", "feature"], "plain", "feature"),
        (["feature", "missing/graph"], "missing/graph", "feature"),
        (["one.omni", "two.omni"], "two.omni", "one.omni"),
    ],
)
def test_the_word_that_looks_like_an_address_is_it_else_the_last(folder, words, uri, name):
    assert split_words(words, "a name") == (uri, name)


def test_more_words_than_two_are_refused(folder):
    with pytest.raises(UsageError, match="got 3 words"):
        split_words(["a", "b", "c"], "a name")


WORDS = st.sampled_from(["x.omni", "s3://b/c", "a/dir", "plain", "feature", "re/view", "01ABC"])


@given(WORDS, WORDS)
def test_order_matters_only_when_both_or_neither_look_like_addresses(
    tmp_path_factory, first, second
):
    if looks_like_uri(first) != looks_like_uri(second):
        assert split_words([first, second], "a name") == split_words([second, first], "a name")
    else:
        assert split_words([first, second], "a name") == (second, first)
