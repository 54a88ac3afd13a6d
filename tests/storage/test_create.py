"""Creating a graph: all of it, or nothing."""

import pytest

from omnigraph.base import failpoints
from omnigraph.errors import AlreadyExistsError, BadRequestError, NotFoundError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.store import ReadOnlyError, init_store, open_store
from tests.storage.conftest import QUIET
from tests.support.storage_model import (
    CONTRACT,
    KEYS,
    SCHEMA,
    A,
    check_whole,
    contents,
    empty_graph,
    write,
)


def files(root):
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and layout.LOCKS_DIR not in path.parts
    }


def test_a_new_graph_is_empty_and_has_one_commit(store, root):
    assert contents(store.snapshot()) == {key: {} for key in sorted(KEYS)}
    genesis = store.commits()
    assert [(commit.sequence, commit.parent, commit.actor) for commit in genesis] == [
        (0, None, None)
    ]
    assert store.read_file(CONTRACT) == b"first"
    for key in KEYS:
        assert store.snapshot().handle(key).dataset.has_stable_row_ids
    assert store._heads.current("main").handle.dataset.has_stable_row_ids
    assert (root / layout.table_location(A)).is_dir()


@pytest.mark.parametrize("form", ["plain", "file"])
def test_every_form_of_a_local_address_works(root, form):
    uri = str(root) if form == "plain" else f"file://{root}"
    empty_graph(uri, QUIET).close()
    with open_store(uri, options=QUIET) as store:
        check_whole(store)


def test_init_over_a_graph_fails_and_leaves_it_untouched(store, root):
    write(store, {A: {"a": 1}})
    before = files(root)
    with pytest.raises(AlreadyExistsError):
        empty_graph(root, QUIET)
    assert files(root) == before
    assert contents(store.snapshot())[A] == {"a": 1}


def test_a_failed_init_leaves_nothing(root, monkeypatch):
    root.mkdir()

    def refuse(*args: object) -> None:
        raise BadRequestError("no room")

    monkeypatch.setattr("omnigraph.storage.create._first_rows", refuse)
    with pytest.raises(BadRequestError, match="no room"):
        empty_graph(root, QUIET)
    assert files(root) == set()
    monkeypatch.undo()
    empty_graph(root, QUIET).close()


@pytest.mark.parametrize("point", ["init.after_files", "init.after_tables", "init.after_manifest"])
def test_an_interrupted_init_can_be_run_again_or_is_done(root, point, monkeypatch):
    monkeypatch.setattr("omnigraph.storage.create._take_away", lambda *_args: None)  # a crash
    failpoints.enable(f"{point}=raise")
    with pytest.raises(failpoints.FailpointTriggeredError):
        empty_graph(root, QUIET)
    failpoints.disable_all()
    if point == "init.after_manifest":
        store = open_store(str(root), options=QUIET)
    else:
        with pytest.raises(NotFoundError):
            open_store(str(root), options=QUIET)
        store = empty_graph(root, QUIET)
    assert contents(store.snapshot()) == {key: {} for key in sorted(KEYS)}
    check_whole(store)
    store.close()


def test_a_table_given_twice_or_with_a_strange_key_is_refused(root):
    for keys in ((A, A), ("Person",), ("node:",)):
        with pytest.raises(BadRequestError):
            init_store(str(root), [TableSpec(key, SCHEMA) for key in keys], {}, QUIET)


def test_opening_where_there_is_no_graph_says_so(root):
    for read_only in (True, False):
        with pytest.raises(NotFoundError, match="there is no graph"):
            open_store(str(root), read_only=read_only, options=QUIET)
    assert not root.exists()


def test_a_store_opened_for_reading_refuses_to_write(store, root):
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        calls = (
            reader.begin,
            reader.maintain,
            reader.recover,
            reader.optimize,
            lambda: reader.branches.create("x"),
            lambda: reader.branches.delete("x"),
        )
        for call in calls:
            with pytest.raises(ReadOnlyError):
                call()
