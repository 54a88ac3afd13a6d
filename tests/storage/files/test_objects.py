"""Small objects: atomic, create-only, and named in every failure."""

import pytest

from omnigraph.base.uri import parse_uri
from omnigraph.errors import StorageError
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.objects import Objects
from tests.storage.conftest import QUIET


@pytest.fixture
def objects(root):
    return Objects(parse_uri(str(root)), QUIET, Counters())


def test_what_was_put_is_read_back_and_replaced(objects):
    objects.put("a/b.json", b"1")
    objects.put("a/b.json", b"2")
    assert (objects.get("a/b.json"), objects.find("a/nope"), objects.exists("a/b.json")) == (
        b"2",
        None,
        True,
    )


def test_create_succeeds_once(objects):
    assert objects.create("x", b"first")
    assert not objects.create("x", b"second")
    assert objects.get("x") == b"first"


def test_listing_is_sorted_deep_and_hides_unfinished_writes(objects, root):
    for name in ("p/2", "p/1/deep", "q"):
        objects.put(name, b"x")
    (root / "p" / "3#12").write_bytes(b"half")
    assert [info.name for info in objects.list("p")] == ["p/1/deep", "p/2"]
    assert objects.list("nowhere") == []


def test_deleting_is_idempotent(objects):
    objects.put("a/1", b"x")
    objects.put("a/2", b"x")
    objects.delete("a/1", "a/1", "gone")
    assert [info.name for info in objects.list("a")] == ["a/2"]
    objects.delete_prefix("a")
    objects.delete_prefix("a")
    assert objects.list("") == []


def test_a_tag_tells_two_incarnations_of_one_name_apart(objects):
    objects.put("ref", b"same")
    first = objects.info("ref")
    objects.delete("ref")
    objects.put("other", b"takes the inode")
    objects.put("ref", b"same")
    assert objects.info("ref").tag != first.tag


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda objects: objects.get("file/x"), id="get"),
        pytest.param(lambda objects: objects.put("file/x", b""), id="put"),
        pytest.param(lambda objects: objects.create("file/x", b""), id="create"),
        pytest.param(lambda objects: objects.rename("file/x", "y"), id="rename"),
        pytest.param(lambda objects: objects.delete("file/x"), id="delete"),
    ],
)
def test_every_failure_names_the_object(objects, root, call):
    root.mkdir()
    (root / "file").write_bytes(b"in the way")
    with pytest.raises(StorageError, match="'file/x'"):
        call(objects)


def test_looking_below_a_file_finds_nothing(objects, root):
    root.mkdir()
    (root / "file").write_bytes(b"in the way")
    assert objects.list("file/x") == []
    assert not objects.exists("file/x")


def test_a_store_that_ignores_create_only_writes_is_refused(objects, monkeypatch):
    objects.probe_create_only("probe")
    assert not objects.exists("probe")
    monkeypatch.setattr(objects, "create", lambda *_args, **_kwargs: True)
    with pytest.raises(StorageError, match="create-only"):
        objects.probe_create_only("probe")


def test_no_half_written_file_is_left_when_the_disk_refuses(objects, root, monkeypatch):
    objects.put("dir/old", b"kept")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(StorageError, match=r"dir/old.*No space left"):
        objects.put("dir/old", b"lost")
    assert [path.name for path in (root / "dir").iterdir()] == ["old"]
    assert objects.get("dir/old") == b"kept"
