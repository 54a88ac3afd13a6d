"""Deltas on a real S3 server: deletion files are found there, rows are spilled to this disk."""

from __future__ import annotations

import itertools

import pytest

from omnigraph.storage.delta.table import table_delta
from tests.support.storage_model import A, contents, empty_graph, rows, write

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]


def test_states_across_branches_of_branches_differ_by_what_their_rows_tell(root, options):
    with empty_graph(root, options) as store:
        write(store, {A: {f"k{number:04d}": number for number in range(2_000)}})
        states = [store.snapshot()]
        for name, source in (("team/a", "main"), ("team/b", "team/a")):
            store.branches.create(name, source)
            session = store.begin(name)
            session.upsert(A, rows({"k0007": -len(states), f"new{len(states)}": 1}))
            session.delete(A, [f"k{number:04d}" for number in range(100, 100 + 5 * len(states))])
            session.commit()
            states.append(store.snapshot(name))
        for before, after in itertools.permutations(states, 2):
            old, new = contents(before)[A], contents(after)[A]
            for memory in (64 << 20, 1_000):
                pair = (before.table(A), after.table(A))
                pieces = list(table_delta(store.kernel, *pair, memory=memory).batches())
                found = [row["id"] for one in pieces for row in one.inserted.to_pylist()]
                assert found == sorted(new.keys() - old.keys())
                gone = [row["id"] for one in pieces for row in one.deleted.to_pylist()]
                assert gone == sorted(old.keys() - new.keys())
                both = [row["id"] for one in pieces for row in one.after.to_pylist()]
                assert both == sorted(
                    key for key in old.keys() & new.keys() if old[key] != new[key]
                )
