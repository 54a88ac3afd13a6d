"""Moved and copied graphs: refused exactly when a branch would read from elsewhere."""

import shutil

import pytest

from omnigraph.storage.store import open_store
from omnigraph.storage.upkeep.relocation import MovedGraphError
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, contents, write


def test_a_graph_without_branches_may_be_moved(store, root, tmp_path):
    write(store, {A: {"a": 1}})
    store.close()
    root.rename(tmp_path / "elsewhere")
    with open_store(str(tmp_path / "elsewhere"), options=QUIET) as moved:
        assert contents(moved.snapshot())[A] == {"a": 1}
        write(moved, {A: {"b": 1}})


@pytest.mark.parametrize("how", ["move", "copy"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_graph_with_branches_is_refused_elsewhere_with_the_remedy(
    store, root, tmp_path, how, read_only
):
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    store.close()
    there = tmp_path / "elsewhere"
    root.rename(there) if how == "move" else shutil.copytree(root, there)
    with pytest.raises(MovedGraphError, match="still reads from") as caught:
        open_store(str(there), read_only=read_only, options=QUIET)
    assert str(root) in (caught.value.hint or "")


def test_a_link_at_the_old_place_is_the_remedy(store, root, tmp_path):
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    store.close()
    root.rename(tmp_path / "elsewhere")
    root.symlink_to(tmp_path / "elsewhere")
    for place in (root, tmp_path / "elsewhere"):
        with open_store(str(place), options=QUIET) as moved:
            assert contents(moved.snapshot("side"))[A] == {"a": 1, "s": 1}
