"""A place that comes to hold another graph is noticed by whoever had the first one open."""

import shutil

import pytest

from omnigraph.storage.files import layout
from omnigraph.storage.identity import GraphReplacedError
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.failures import SnapshotExpiredError
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, contents, empty_graph, rows, write


@pytest.mark.parametrize("commits", [0, 2, 3, 4, 9])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_handle_whose_place_holds_another_graph_refuses_to_read_and_to_write(
    store, root, commits, read_only
):
    for number in range(3):
        write(store, {A: {f"a{number}": number}})
    with open_store(str(root), read_only=read_only, options=QUIET) as old:
        assert len(contents(old.snapshot())[A]) == 3
        shutil.rmtree(root)
        with empty_graph(root, QUIET) as other:
            for number in range(commits):
                write(other, {A: {f"other{number}": number}})
            for _ in range(2):
                with pytest.raises(GraphReplacedError, match="another graph"):
                    old.snapshot()
            with pytest.raises(GraphReplacedError, match="open the graph again"):
                write(store, {A: {"from": 1}})
            assert len(contents(other.snapshot())[A]) == commits
            write(other, {A: {"more": 1}})
            assert [finding for finding in other.verify() if not finding.harmless] == []


def test_a_snapshot_taken_before_never_opens_a_table_of_the_other_graph(store, root):
    write(store, {A: {"a": 1}})
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        before = reader.snapshot()
        shutil.rmtree(root)
        with empty_graph(root, QUIET) as other:
            write(other, {A: {"other": 1}})
            with pytest.raises(GraphReplacedError):
                before.open(A)


def test_a_write_that_began_before_is_not_put_into_the_other_graph(store, root):
    session = store.begin()
    session.upsert(A, rows({"a": 1}))
    shutil.rmtree(root)
    with empty_graph(root, QUIET) as other:
        with pytest.raises(GraphReplacedError):
            session.commit()
        assert contents(other.snapshot())[A] == {}


def test_a_handle_whose_graph_was_removed_says_so(store, root):
    store.snapshot()
    shutil.rmtree(root)
    with pytest.raises(GraphReplacedError, match="no graph"):
        store.snapshot()


def test_a_graph_put_back_from_an_older_copy_is_not_read_on_top_of_what_was_known(
    store, root, tmp_path
):
    write(store, {A: {"a": 1}})
    shutil.copytree(root, tmp_path / "copy")
    write(store, {A: {"b": 1}})
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "copy", root)
    with pytest.raises(GraphReplacedError, match="not there any more"):
        store.snapshot()
    with open_store(str(root), options=QUIET) as again:
        assert contents(again.snapshot())[A] == {"a": 1}


def test_a_branch_of_another_graph_is_not_taken_for_ones_own(store, root):
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    store.snapshot("side")
    shutil.rmtree(root)
    with empty_graph(root, QUIET) as other:
        write(other, {A: {"o": 1}})
        other.branches.create("side")
        with pytest.raises(GraphReplacedError):
            store.snapshot("side")


def test_a_graph_from_before_the_note_gets_it_from_the_first_writer(store, root):
    write(store, {A: {"a": 1}})
    store.close()
    note = root / layout.kept_from(layout.MANIFEST, None)
    note.unlink()
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        assert contents(reader.snapshot())[A] == {"a": 1}
        assert not note.exists()
        with open_store(str(root), options=QUIET) as writer:
            write(writer, {A: {"b": 1}})
            assert writer.kernel.identity.uuid in note.read_text()
        assert contents(reader.snapshot())[A] == {"a": 1, "b": 1}


def test_a_reader_notices_another_graph_where_neither_has_a_note(store, root):
    write(store, {A: {"a": 1}})
    (root / layout.kept_from(layout.MANIFEST, None)).unlink()
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        shutil.rmtree(root)
        with empty_graph(root, QUIET):
            (root / layout.kept_from(layout.MANIFEST, None)).unlink()
            with pytest.raises(GraphReplacedError):
                reader.snapshot()


def test_a_graph_put_back_is_noticed_even_if_it_could_not_be_read_at_first(store, root, tmp_path):
    write(store, {A: {"a": 1}})
    shutil.copytree(root, tmp_path / "copy")
    write(store, {A: {"b": 2}})
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        for _ in range(2):
            assert len(contents(reader.snapshot())[A]) == 2
        versions = root / layout.MANIFEST / layout.VERSIONS_DIR
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "copy", root)
        versions.rename(tmp_path / "out of reach")
        with pytest.raises(SnapshotExpiredError):
            reader.snapshot()
        (tmp_path / "out of reach").rename(versions)
        with pytest.raises(GraphReplacedError, match="not there any more"):
            reader.snapshot()


@pytest.mark.parametrize("is_there_another", [False, True])
def test_branches_are_neither_listed_nor_missed_where_the_graph_was(store, root, is_there_another):
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    store.snapshot("side")
    shutil.rmtree(root)
    if is_there_another:
        empty_graph(root, QUIET).close()
    uses = (store.branches.list, lambda: store.snapshot("side"), lambda: store.begin("side"))
    for use in (*uses, lambda: store.branches.delete("side")):
        with pytest.raises(GraphReplacedError):
            use()
    assert root.exists() is is_there_another
