"""`7d` and its like."""

import math
from datetime import timedelta

import pytest

from omnigraph.base.durations import parse_duration, seconds_of
from omnigraph.errors import BadRequestError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("45", 45), ("30s", 30), ("15m", 900), ("12h", 43_200), (" 7d ", 604_800)],
)
def test_a_whole_number_and_one_unit_is_a_duration(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "duration is empty"),
        ("  ", "duration is empty"),
        ("7y", "unknown duration unit 'y'. Supported: s, m, h, d, w"),
        ("7D", "unknown duration unit 'D'"),
        ("1d12h", "invalid duration '1d12h'"),
        ("1.5d", "invalid duration '1.5d'"),
        ("-1d", "invalid duration '-1d'"),
        ("d", "invalid duration 'd'"),
        ("٣d", "invalid duration"),
    ],
)
def test_anything_else_is_refused_and_says_what_is_wrong(text, message):
    with pytest.raises(BadRequestError) as refused:
        parse_duration(text)
    assert message in refused.value.message


def test_programs_may_say_seconds_or_a_time_span():
    assert seconds_of(None, "age") is None
    assert seconds_of(1.5, "age") == 1.5
    assert seconds_of(timedelta(days=1), "age") == 86_400
    for wrong in (-1, math.inf, math.nan, True, [], timedelta(seconds=-1)):
        with pytest.raises(BadRequestError, match="age"):
            seconds_of(wrong, "age")
