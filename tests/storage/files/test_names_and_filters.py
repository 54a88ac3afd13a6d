"""Names on disk, and filters that mean what their values say."""

import datetime as dt
import decimal

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import BadRequestError
from omnigraph.storage.files import layout
from omnigraph.storage.tables.predicate import (
    AllOf,
    AnyOf,
    Compare,
    Contains,
    IsNull,
    Not,
    StartsWith,
    equals,
    is_in,
    to_sql,
)

SECOND = dt.datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001 - the column has no time zone
WORDS = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00"), max_size=12
)


@pytest.mark.parametrize(
    ("key", "location"),
    [
        ("node:Person", "nodes/40d76f1f51639ec0"),
        ("edge:Knows", "edges/602a25a3bd0b455b"),
        ("edge:Person", "edges/40d76f1f51639ec0"),
    ],
)
def test_a_table_lives_at_the_hash_of_its_bare_name(key, location):
    assert layout.table_location(key) == location


@given(st.integers(1, 2**63))
def test_a_version_file_name_can_be_read_back(version):
    assert layout.version_of_file(layout.version_file("t", None, version)) == version


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_newer_version_files_sort_first(one, other):
    names = sorted([layout.version_file("t", "b", one), layout.version_file("t", "b", other)])
    assert layout.version_of_file(names[0]) == max(one, other)


def test_a_fork_belongs_to_its_branch_whatever_its_name():
    fresh = layout.fork_name("a/b.c", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert layout.fork_owner(fresh) == layout.fork_owner("a/b.c") == "a/b.c"
    assert layout.fork_owner(None) == "main"
    with pytest.raises(BadRequestError):
        layout.parse_branch(fresh)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    table = pa.table(
        {
            "camelCase": ["it's", 'say "hi"', "back`tick", "back\\slash", None],
            "n": pa.array([1, 2, 3, 4, 5], pa.int64()),
            "f": [0.5, -1.5, 2.0, 1e300, None],
            "flag": [True, False, True, None, False],
            "day": [dt.date(2024, 1, 1), dt.date(1969, 12, 31), None, None, None],
            "at": pa.array([0, 1_000_000, None, None, None], pa.timestamp("us")),
            "tags": [["x", "it's"], [], None, ["y"], ["x"]],
        }
    )
    return lance.write_dataset(table, str(tmp_path_factory.mktemp("p") / "t"))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (equals("camelCase", "it's"), [1]),
        (equals("camelCase", 'say "hi"'), [2]),
        (equals("camelCase", "back\\slash"), [4]),
        (is_in("n", [1, 3, 99]), [1, 3]),
        (is_in("n", []), []),
        (IsNull("camelCase"), [5]),
        (Not(IsNull("camelCase")), [1, 2, 3, 4]),
        (Compare("f", ">=", 0.5), [1, 3, 4]),
        (Compare("f", "=", 1e300), [4]),
        (equals("flag", True), [1, 3]),
        (Compare("n", "<", decimal.Decimal(2)), [1]),
        (equals("day", dt.date(1969, 12, 31)), [2]),
        (Compare("at", ">=", SECOND), [2]),
        (Contains("tags", "it's"), [1]),
        (Contains("tags", "x"), [1, 5]),
        (StartsWith("camelCase", "back"), [3, 4]),
        (AllOf(()), [1, 2, 3, 4, 5]),
        (AnyOf(()), []),
        (AllOf((Compare("n", ">", 1), AnyOf((equals("n", 1), equals("n", 2))))), [2]),
    ],
)
def test_a_filter_finds_what_its_values_say(people, where, expected):
    assert people.to_table(filter=to_sql(where))["n"].to_pylist() == expected


def test_values_that_cannot_be_said_are_refused():
    for where in (Compare("f", "=", float("nan")), equals("a`b", 1)):
        with pytest.raises(BadRequestError):
            to_sql(where)


@given(word=WORDS)
def test_any_text_is_found_by_itself(text_table, word):
    assert text_table(word).to_table(filter=to_sql(equals("t", word)))["t"].to_pylist() == [word]


@pytest.fixture(scope="module")
def text_table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")

    def make(word):
        return lance.write_dataset(
            pa.table({"t": [word, word + "!"]}), str(folder / "t"), mode="overwrite"
        )

    return make
