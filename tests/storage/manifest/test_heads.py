"""The newest known head of a branch, used by many threads."""

from __future__ import annotations

from omnigraph.storage.files import layout
from tests.support.operations import QUIET
from tests.support.storage_model import A, contents, new_graph, write


def test_a_head_that_another_thread_moves_while_it_is_read_is_not_taken_for_a_loss(root):
    with new_graph(root, QUIET) as store:
        heads = store._heads
        read = heads._open

        def read_slowly(branch):
            head = read(branch)
            heads._open = read
            write(store, {A: {"meanwhile": 1}})
            return head

        heads._open = read_slowly
        seen = heads.reread(layout.MAIN)
        assert seen.manifest_version < heads.current(layout.MAIN).manifest_version
        assert contents(store.snapshot())[A]["meanwhile"] == 1
