"""Every kind of operation killed on S3: before or after, and the lease it held dies with it."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import pytest

from omnigraph.errors import AlreadyExistsError, NotFoundError
from omnigraph.storage.recovery import healing
from omnigraph.storage.store import open_store
from tests.support.operations import OPERATIONS, on_s3, record_passes, run_operation
from tests.support.storage_model import (
    A,
    B,
    check_whole,
    contents,
    empty_graph,
    graph_state,
    new_graph,
    write,
)
from tests.support.writers import append_blindly

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3"), pytest.mark.crash]
# Each gap costs a lease: the usual run is killed at the telling ones, the long run at all.
TELLING = {
    "init": "init.after_tables",
    "branch create": "branch_create.after_ref",
    "branch delete": "branch_delete.after_ref",
    "first write on a branch": "write.after_fork",
    "compaction": "optimize.after_compact",
    "cleanup": "cleanup.between_tables",
}


def _read(root, options):
    try:
        with open_store(root, read_only=True, options=options) as store:
            return graph_state(store)
    except NotFoundError:
        return None


def _outlive(store):
    """Wait until every lease of the dead is over, and take part in no other way."""
    for holder in store.locks():
        with store.kernel.locks.hold(holder.name, "waiting"):
            pass


@pytest.mark.parametrize("name", TELLING)
def test_killed_at_a_telling_gap_it_is_before_or_after(name, root, mortal, start):
    _kill_at(name, [TELLING[name]], root, mortal, start)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TELLING)
def test_killed_at_every_gap_it_is_before_or_after(name, root, mortal, start):
    _kill_at(name, None, root, mortal, start)


_SECOND = 1.1
"""A store dates its objects by whole seconds; until one has passed, nothing in it is old."""


def _kill_at(name, gaps, root, options, start):
    operation = OPERATIONS[name]
    own = on_s3(operation.options, options)
    operation.prepare(f"{root}/before", own)
    before = _read(f"{root}/before", own)
    passes = start(record_passes, name, f"{root}/before", options).succeed().said[-1]
    after = _read(f"{root}/before", own)
    for gap in gaps or sorted(passes):
        assert gap in passes, sorted(passes)
        place = f"{root}/{gap}"
        operation.prepare(place, own)
        if operation.forgets:
            time.sleep(_SECOND)
        child = start(run_operation, name, place, None, options, points=f"{gap}=kill").wait()
        assert child.was_killed, (child.said, child.error)
        _check(operation, place, own, before, after)


def _check(operation, place, options, before, after):
    if operation.act is None:
        with contextlib.suppress(AlreadyExistsError):
            empty_graph(place, options).close()
    with open_store(place, options=options) as store:
        _outlive(store)
    with open_store(place, options=options) as store:
        assert graph_state(store) in (before, after)
        check_whole(store, forgets=operation.forgets)


@pytest.mark.parametrize("fenced", [True, False], ids=["fenced", "unfenced"])
def test_only_the_fence_keeps_the_appends_of_a_broken_lease_out(
    fenced, root, options, start, monkeypatch
):
    """The zombie looks at no lock; what stops it must be in the tables themselves."""
    if not fenced:
        unmoved = lambda tables, *place_and_mark: tables.reopen(*place_and_mark[:3])  # noqa: E731
        monkeypatch.setattr(healing, "restore", unmoved)
    with new_graph(root, options) as store:
        once = replace(options, publish_attempts=1)  # a second attempt would be a writer like any
        task = (append_blindly, root, once, "zombie")
        zombie = start(*task, points="publish.after_sidecar=stop")
        assert zombie.wait_frozen()
        store.break_lock("branch:main")
        store.recover()
        healed = store.snapshot()
        zombie.run_on()
        zombie.wait()
        assert "committed" not in zombie.said
        landed = [
            store.kernel.tables.next_exists(table.location, table.branch, table.version)
            for table in (healed.table(A), healed.table(B))
        ]
        assert any(landed) == (not fenced), "without the fence it lands, so the test can fail"
        assert "zombie" not in contents(store.snapshot())[A]
        if fenced:
            write(store, {A: {"alive": 1}, B: {"alive": 1}})
            assert "zombie" not in contents(store.snapshot())[B]
