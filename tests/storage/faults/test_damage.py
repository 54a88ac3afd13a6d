"""Bytes that are torn, missing or strange: the error names them, and the rest still reads."""

from __future__ import annotations

import pytest

from omnigraph.errors import FormatError, OmniGraphError
from omnigraph.storage.files import layout
from omnigraph.storage.files.sidecar import SidecarError
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.faults import files_of
from tests.support.operations import QUIET
from tests.support.storage_model import A, B, check_whole, contents, new_graph, write


def cut(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


@pytest.mark.parametrize("keep", [0, 2, 10, 200])
def test_a_truncated_manifest_is_named_and_left_alone(root, keep):
    with new_graph(root, QUIET) as store:
        version = store.snapshot().manifest_version
    cut(root / layout.version_file(layout.MANIFEST, None, version), keep)
    picture = files_of(root)
    for read_only in (True, False):
        with pytest.raises(DamagedError, match=layout.MANIFEST):
            open_store(str(root), read_only=read_only, options=QUIET)
    assert files_of(root) == picture


@pytest.mark.parametrize("keep", [0, 2, 10, 200])
def test_a_truncated_table_spoils_only_itself(root, keep):
    with new_graph(root, QUIET) as store:
        before = contents(store.snapshot())
        table = store.snapshot().table(A)
    cut(root / layout.version_file(table.location, None, table.version), keep)
    with open_store(str(root), options=QUIET) as store:
        with pytest.raises(DamagedError, match=table.location):
            store.snapshot().open(A)
        assert store.snapshot().open(B).count() == len(before[B])
        with pytest.raises(OmniGraphError, match=table.location):
            write(store, {A: {"n": 1}})
        write(store, {B: {"n": 1}})
        assert store.snapshot().open(B).count() == len(before[B]) + 1
        assert [found.kind for found in store.verify() if not found.harmless] == [
            "unreadable_table"
        ]


def test_a_missing_fragment_is_named_and_spoils_only_its_table(root):
    with new_graph(root, QUIET) as store:
        table = store.snapshot().table(A)
    for file in (root / table.location / layout.DATA_DIR).iterdir():
        file.unlink()
    with open_store(str(root), options=QUIET) as store:
        with pytest.raises(OmniGraphError, match=table.location):
            store.snapshot().open(A).scan()
        assert store.snapshot().open(B).scan().num_rows == 2
        assert [found.subject for found in store.verify() if not found.harmless] == [
            "node:A on 'main'"
        ]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"schema_version": 3}', b'{"schema_version": 99}', b"\xff\xfe"],
    ids=["empty", "half", "a list", "no fields", "newer", "no text"],
)
def test_a_sidecar_that_cannot_be_read_stops_writes_and_not_reads(root, content):
    name = f"{layout.RECOVERY_DIR}/01JZZZZZZZZZZZZZZZZZZZZZZZ.json"
    with new_graph(root, QUIET) as store:
        before = contents(store.snapshot())
        (root / layout.RECOVERY_DIR).mkdir(exist_ok=True)
        (root / name).write_bytes(content)
        picture = files_of(root)
        with pytest.raises(SidecarError, match=name):
            write(store, {A: {"n": 1}})
        assert contents(store.snapshot()) == before
    with pytest.raises(SidecarError, match=name):
        open_store(str(root), options=QUIET)
    with open_store(str(root), read_only=True) as reader:
        assert contents(reader.snapshot()) == before
    assert files_of(root) == picture, "something was changed"
    (root / name).unlink()
    with open_store(str(root), options=QUIET) as store:
        check_whole(store)


def test_a_pin_that_cannot_be_read_stops_cleanup_and_nothing_else(root):
    with new_graph(root, QUIET) as store:
        (root / layout.PINS_DIR).mkdir(exist_ok=True)
        (root / layout.PINS_DIR / "x.json").write_bytes(b"{")
        write(store, {A: {"n": 1}})
        with pytest.raises(FormatError, match=r"x\.json"):
            store.cleanup(CleanupPolicy(keep_versions=1))
