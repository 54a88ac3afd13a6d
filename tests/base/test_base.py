import pytest

from omnigraph.base import failpoints
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.hashing import fnv1a32, fnv1a64, fnv1a64_hex
from omnigraph.base.ids import UlidSource
from omnigraph.base.uri import parse_uri
from omnigraph.errors import BadRequestError, InternalError, NotFoundError, StorageError


def test_fnv_matches_the_published_values():
    assert fnv1a64("") == 14695981039346656037
    assert fnv1a64_hex("Person") == "40d76f1f51639ec0"
    assert fnv1a64_hex("Knows") == "602a25a3bd0b455b"
    assert fnv1a32("") == 2166136261
    assert fnv1a32("a") == 0xE40C292C


def test_ulids_increase_even_inside_one_millisecond_and_when_the_clock_goes_back():
    source = UlidSource()
    now = SYSTEM_CLOCK.now_us()
    ids = [source.next(now) for _ in range(1_000)] + [source.next(now - 5_000_000)]
    assert ids == sorted(set(ids))
    assert all(len(one) == 26 for one in ids)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("/a/./b/../c", "/a/c", id="dot segments"),
        pytest.param("file:///a/b%20c", "/a/b c", id="file url"),
        pytest.param("file:///a/b%23c", "/a/b#c", id="file url with an encoded sign"),
        pytest.param("s3://bucket/x/y/", "s3://bucket/x/y", id="s3"),
        pytest.param("FILE:///a/b", "/a/b", id="a scheme in capitals"),
        pytest.param("/日本/👨\u200d👩", "/日本/👨\u200d👩", id="letters of all kinds"),
        pytest.param("/a#b/c%20d", "/a#b/c%20d", id="a plain path is taken as it is"),
    ],
)
def test_addresses_are_normalised(text, expected):
    assert str(parse_uri(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "s3://bucket", "http://host/x", "file://host/x", "gs://b/x"),
        *("/a?b", "a\0b", "a\nb", "file:///a?b", "file:///a%3Fb", "file:///a#b"),
        *("s3://bucket/x?versionId=1", "s3://bucket/x#y", "s3://bucket/x\ty", "s3://[x/y"),
        *("s3://bucket/../x", "s3://bucket/x//y", "s3://bucket/x/./y"),
    ],
)
def test_other_addresses_are_refused_with_a_hint(text):
    with pytest.raises(BadRequestError) as caught:
        parse_uri(text)
    assert caught.value.hint


def test_a_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert str(parse_uri("~/graphs/x")) == "/home/ann/graphs/x"
    assert str(parse_uri("file:///~/x")) == "/~/x"


def test_errors_print_their_message_and_hint_whatever_they_also_are():
    assert str(NotFoundError("branch 'x' not found")) == "branch 'x' not found"
    assert str(StorageError("disk is full", hint="free some space")) == (
        "disk is full (hint: free some space)"
    )
    assert isinstance(StorageError("x"), OSError)


def test_a_failpoint_acts_only_when_armed_and_only_on_its_turn():
    failpoints.register("test.gap", "between nothing and nothing")
    failpoints.failpoint("test.gap")
    failpoints.enable("test.gap=raise@1")
    try:
        failpoints.failpoint("test.gap")
        with pytest.raises(failpoints.FailpointTriggeredError, match=r"test\.gap"):
            failpoints.failpoint("test.gap")
        with pytest.raises(InternalError, match="not in the registry"):
            failpoints.failpoint("test.unknown")
    finally:
        failpoints.disable_all()
        failpoints.REGISTRY.pop("test.gap")


def test_one_object_store_address_is_inside_another_by_whole_names():
    graph = parse_uri("s3://b/team")
    assert graph.has_inside(parse_uri("s3://b/team/inner"))
    for other in ("s3://b/team", "s3://b/team2/x", "s3://c/team/x", "/b/team/x"):
        assert not graph.has_inside(parse_uri(other))
