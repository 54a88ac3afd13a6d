"""Values a caller passes: coerced by declared type, refused before anything runs."""

from __future__ import annotations

import contextlib
import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.query.literals import (
    parse_date,
    parse_datetime,
    show_date,
    show_datetime,
)
from omnigraph.compiler.query.params import (
    MissingParamError,
    ParamError,
    ParamMode,
    bind_params,
    check_row_count,
)
from omnigraph.compiler.query.typed import NOW_PARAM, Param
from omnigraph.compiler.types import INTEGER_BOUNDS, PropType, Scalar
from omnigraph.errors import BadRequestError

NOW = 1_700_000_000_123
WITHOUT_ZONE = dt.datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001 - callers have such, too
TWO_HOURS_EAST = dt.timezone(dt.timedelta(hours=2))


def declared(text: str) -> PropType:
    nullable = text.endswith("?")
    text = text.removesuffix("?")
    if text.startswith("["):
        return PropType(Scalar(text[1:-1]), nullable=nullable, is_list=True)
    if text.startswith("Vector"):
        return PropType(Scalar.VECTOR, nullable=nullable, dim=int(text[7:-1]))
    return PropType(Scalar(text), nullable=nullable)


def bind(kind: str, value: object, mode: ParamMode = ParamMode.STANDARD):
    return bind_params([Param("x", declared(kind))], {"x": value}, now_ms=NOW, mode=mode)["x"]


@pytest.mark.parametrize(
    ("kind", "value", "bound"),
    [
        ("String", "a", "a"),
        ("Bool", True, True),
        ("I32", -5, -5),
        ("I32", "42", 42),
        ("I64", "-9223372036854775808", -(2**63)),
        ("U32", 4294967295, 2**32 - 1),
        ("U64", 9223372036854775807, 2**63 - 1),
        ("U64", 2**64 - 1, 2**64 - 1),
        ("U64", str(2**63), 2**63),
        ("[U64]", [2**63, 1], (2**63, 1)),
        ("F64", 3, 3.0),
        ("F32", 0.5, 0.5),
        ("Date", "1970-01-11", 10),
        ("Date", "1969-12-31", -1),
        ("DateTime", "1970-01-01T00:00:01Z", 1000),
        ("DateTime", "1970-01-01T02:00:00+02:00", 0),
        ("DateTime", "1970-01-01", 0),
        ("DateTime", "1969-12-31T23:59:59.9995", -1),
        ("Blob", "base64:AAAA", "base64:AAAA"),
        ("Blob", b"\x00\x00\x00", "base64:AAAA"),
        ("Date", dt.date(1970, 1, 11), 10),
        ("DateTime", WITHOUT_ZONE, 1000),
        ("DateTime", dt.datetime(1970, 1, 1, 2, tzinfo=TWO_HOURS_EAST), 0),
        ("DateTime", dt.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=dt.UTC), -1),
        ("[Date]", [dt.date(1970, 1, 2), "1970-01-03"], (1, 2)),
        ("F64", 2**60, 2.0**60),
        ("Vector(2)", [1, 2.5], (1.0, 2.5)),
        ("[I32]", [1, "2"], (1, 2)),
        ("[Date]?", ["1970-01-02"], (1,)),
        ("I32", np.int64(7), 7),
        ("F64", np.float32(0.5), 0.5),
        ("Bool", np.bool_(True), True),
        ("[I64]", np.array([1, 2]), (1, 2)),
        ("[F64]", [np.float64(1), 2], (1.0, 2.0)),
        ("Vector(2)", np.array([1, 2], np.float32), (1.0, 2.0)),
        ("Date", np.datetime64("1970-01-11"), 10),
        ("[String]", [], ()),
        ("I32?", None, None),
    ],
)
def test_a_fitting_value_is_coerced(kind, value, bound):
    got = bind(kind, value)
    assert got == bound
    assert type(got) is type(bound)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("String", 1, "expected string, got number"),
        ("String", None, "null is not accepted for non-nullable parameter"),
        ("Bool", 1, "expected boolean, got number"),
        ("Bool", "true", "expected boolean, got string"),
        ("I32", 5_000_000_000, "value 5000000000 exceeds I32"),
        ("I32", 3.0, "expected integer, got number"),
        ("I32", True, "expected integer, got boolean"),
        ("I32", "3.0", "expected integer, got string '3.0'"),
        ("I32", "", "expected integer, got string ''"),
        ("I32", "\u0663", "expected integer, got string '\u0663'"),
        ("I32", "9" * 5000, "value of 5000 digits exceeds every integer type"),
        ("I64", 2**63, f"value {2**63} exceeds I64"),
        ("U32", -1, "value -1 exceeds U32"),
        ("U64", 2**64, f"value {2**64} exceeds U64"),
        ("String", "a\ud800", "not Unicode text: lone surrogate at 1"),
        ("[String]", ["\udfff"], "not Unicode text: lone surrogate at 0"),
        ("String", b"a", "expected string, got bytes"),
        (
            "F64",
            2**53 + 1,
            "the integer 9007199254740993 would become 9007199254740992 as F64; give that one, "
            "or 9007199254740993.0 if rounding is meant, or use I64",
        ),
        ("Date", WITHOUT_ZONE, "a Date has no time of day; pass the date of the moment you mean"),
        ("DateTime", dt.date(2026, 1, 1), "expected string, got date"),
        (
            "DateTime",
            dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
            "0001-01-01T00:00:00+14:00 is outside the years 1 to 9999 in UTC",
        ),
        ("F64", "1.5", "expected number, got string"),
        ("F64", math.nan, "nan is not a finite number"),
        ("F64", math.inf, "inf is not a finite number"),
        ("F64", 10**400, "the integer is too large for F64"),
        ("F32", 1e39, "value 1e+39 exceeds F32"),
        ("Date", "2020-02-30", "invalid Date literal '2020-02-30', expected YYYY-MM-DD"),
        ("Date", 5, "expected string, got number"),
        ("Date", "20200101", "invalid Date literal '20200101', expected YYYY-MM-DD"),
        (
            "DateTime",
            "noon",
            "invalid DateTime literal 'noon', expected for example 2026-01-31T12:00:00Z",
        ),
        (
            "DateTime",
            "9999-12-31T23:59:59-23:00",
            "invalid DateTime literal '9999-12-31T23:59:59-23:00', "
            "expected for example 2026-01-31T12:00:00Z",
        ),
        ("Vector(4)", [1, 2, 3], "expected 4 values for Vector(4), got 3"),
        ("Vector(2)", [1, "x"], "expected number, got string"),
        ("Vector(2)", [1, None], "expected number, got null"),
        ("Vector(2)", "x", "expected array for Vector(2), got string"),
        ("[I32]", 3, "expected array for [I32], got number"),
        ("[I32]", [1, None], "expected integer, got null"),
        ("[I32]", {"a": 1}, "expected array for [I32], got object"),
    ],
)
def test_an_unfitting_value_is_refused(kind, value, reason):
    with pytest.raises(ParamError) as caught:
        bind(kind, value)
    assert caught.value.reason == reason
    assert caught.value.message == f"param 'x': {reason}"
    assert caught.value.param == "x"
    assert caught.value.expected == declared(kind)


def test_a_missing_required_parameter_is_refused_with_a_near_name():
    with pytest.raises(MissingParamError) as caught:
        bind_params([Param("name", declared("String"))], {"nme": "x"}, now_ms=NOW)
    assert caught.value.message == "parameter 'name' not provided, expected String"
    assert caught.value.hint == "'nme' was given; did you mean 'name'?"


@pytest.mark.parametrize("given_params", [None, {}, {"x": None}])
def test_an_omitted_optional_parameter_is_null(given_params):
    bound = bind_params([Param("x", declared("String?"))], given_params, now_ms=NOW)
    assert bound == {"x": None, NOW_PARAM: NOW}


@pytest.mark.parametrize("params", [[], "x", 3])
def test_parameters_are_an_object(params):
    with pytest.raises(BadRequestError, match="params must be a JSON object"):
        bind_params([], params, now_ms=NOW)


def test_now_is_injected_and_can_be_set():
    assert bind_params([], None, now_ms=NOW) == {NOW_PARAM: NOW}
    bound = bind_params([], {NOW_PARAM: "1970-01-01T00:00:02Z"}, now_ms=NOW)
    assert bound == {NOW_PARAM: 2000}
    with pytest.raises(ParamError, match="__nanograph_now"):
        bind_params([], {NOW_PARAM: 5}, now_ms=NOW)


def test_undeclared_parameters_have_the_type_they_arrive_with():
    given_params = {"i": 1, "f": 0.5, "b": True, "s": "x", "l": [1, None], "n": None}
    bound = bind_params([], given_params, now_ms=NOW)
    assert bound == {**given_params, "l": (1, None), NOW_PARAM: NOW}
    for bad in ({"o": {}}, {"o": [[1]]}, {"o": math.nan}, {"o": 2**64}):
        with pytest.raises(ParamError, match="param 'o'"):
            bind_params([], bad, now_ms=NOW)


def test_javascript_integers_beyond_2_53_must_come_as_text():
    safe = 2**53 - 1
    assert bind("I64", safe, ParamMode.JAVASCRIPT) == safe
    assert bind("I64", str(safe + 1), ParamMode.JAVASCRIPT) == safe + 1
    assert bind("I64", safe + 1) == safe + 1
    with pytest.raises(ParamError, match="pass it as a decimal string"):
        bind("I64", safe + 1, ParamMode.JAVASCRIPT)
    with pytest.raises(ParamError, match="pass it as a decimal string"):
        bind_params([], {"x": -(2**53)}, now_ms=NOW, mode=ParamMode.JAVASCRIPT)


def test_row_counts_are_neither_null_nor_negative():
    count = Param("n", declared("I64?"))
    assert check_row_count("limit", None, {}) is None
    assert check_row_count("limit", 5, {}) == 5
    assert check_row_count("limit", count, {"n": 0}) == 0
    with pytest.raises(ParamError, match="null is not accepted for `limit`"):
        check_row_count("limit", count, {"n": None})
    with pytest.raises(ParamError, match="`offset` must be at least 0, got -1"):
        check_row_count("offset", count, {"n": -1})


@given(st.sampled_from(sorted(INTEGER_BOUNDS)), st.integers(-(2**70), 2**70))
def test_integers_are_bound_exactly_or_refused(scalar, value):
    low, high = INTEGER_BOUNDS[scalar]
    if low <= value <= high:
        assert bind(scalar, value) == bind(scalar, str(value)) == value
    else:
        with pytest.raises(ParamError):
            bind(scalar, value)


@given(st.dates())
def test_dates_read_back(day):
    assert show_date(parse_date(day.isoformat())) == day.isoformat()


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_moments_read_back(millis):
    assert parse_datetime(show_datetime(millis)) == millis


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_a_value_error(text):
    for parse in (parse_date, parse_datetime):
        with contextlib.suppress(ValueError):
            assert isinstance(parse(text), int)


def test_a_name_that_is_nearly_that_of_a_parameter_left_out_is_refused():
    declared = [Param("age", PropType(Scalar.I32, nullable=True))]
    with pytest.raises(ParamError, match=r"param 'aeg': the query has no such parameter") as error:
        bind_params(declared, {"aeg": 5}, now_ms=0)
    assert error.value.hint == "did you mean `age`?"
    assert bind_params(declared, {"age": 5, "aeg": 6}, now_ms=0)["age"] == 5
    assert bind_params(declared, {"city": "Oslo"}, now_ms=0)["age"] is None
