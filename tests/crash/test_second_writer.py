"""Every operation, frozen or killed at its gaps, beside somebody who goes on writing.

Frozen: the second writer gets in or is told to wait, the graph reads whole, and the first one
finishes when it is thawed. Killed: a store that was open all the time heals and writes on.
"""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace

import pytest

from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.storage.locks.by_name import LockTimeoutError
from omnigraph.storage.store import open_store
from tests.crash.bench import Bench
from tests.support.operations import OPERATIONS, QUIET, run_operation
from tests.support.storage_model import A, check_whole, graph_state, write

pytestmark = pytest.mark.crash
IMPATIENT = replace(QUIET, lock_timeout_s=0.05)
# Opening these for writing is the operation itself, so nobody can have them open before.
OPEN_BEFORE = [
    name
    for name, operation in OPERATIONS.items()
    if operation.act is not None and not name.startswith(("recovery", "upgrade"))
]
USUALLY = 2


def _gaps(bench, every):
    """Return the gaps to stop at: all of them, or a few spread over the operation."""
    first = sorted(dict(reversed(bench.cells())).items())
    if every:
        return bench.cells()
    step = max(len(first) // USUALLY, 1)
    return first[::step][:USUALLY]


def _with_other(state, written):
    """Return a state with what the second writer has written on main."""
    if state is None or not written:
        return state
    changed = copy.deepcopy(state)
    changed["main"][A]["other"] = 1
    return changed


def _try_to_write(root, options):
    """Write as somebody who does not wait; return whether it was acknowledged."""
    try:
        with open_store(str(root), options=options) as store:
            write(store, {A: {"other": 1}})
    except (LockTimeoutError, NotFoundError):
        return False  # somebody holds the lock, or there is no graph yet
    return True


@pytest.mark.parametrize("name", OPERATIONS)
def test_frozen_it_lets_others_in_or_makes_them_wait_and_then_finishes(name, start, tmp_path):
    _freeze(name, start, tmp_path, every=False)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", OPERATIONS)
def test_frozen_at_every_gap_it_finishes(name, start, tmp_path):
    _freeze(name, start, tmp_path, every=True)


def _freeze(name, start, tmp_path, *, every):
    bench = Bench(start, name, tmp_path)
    for point, skip in _gaps(bench, every):
        root = bench.fresh()
        child = start(run_operation, name, str(root), points=f"{point}=stop@{skip}")
        try:
            assert child.wait_frozen()
            seen = bench.read(root)
            if not bench.operation.steps:
                assert seen in (bench.before, bench.after), "half of it was visible"
            options = replace(bench.operation.options, lock_timeout_s=0.05)
            written = _try_to_write(root, options)
            child.run_on()
            child.wait()
            _check_finished(bench, child, root, written)
        except Exception as error:
            raise AssertionError(f"{name} frozen at {point}, pass {skip + 1}: {error}") from error
        shutil.rmtree(root.parent)


def _check_finished(bench, child, root, written):
    """It went through on top of the other write, or was refused because of it."""
    if child.error is not None:
        assert written, child.error
        assert child.error[0] in ("ExpectedVersionMismatch", "ConflictError"), child.error
    with open_store(str(root), options=bench.operation.options) as store:
        if not bench.operation.steps:
            told = bench.before if child.error is not None else bench.after
            assert graph_state(store) == _with_other(told, written)
        check_whole(store, forgets=bench.operation.forgets)


@pytest.mark.parametrize("name", OPEN_BEFORE)
def test_killed_beside_an_open_store_it_is_healed_by_the_next_write(name, start, tmp_path):
    _kill(name, start, tmp_path, every=False)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", OPEN_BEFORE)
def test_killed_at_every_gap_beside_an_open_store_it_is_healed(name, start, tmp_path):
    _kill(name, start, tmp_path, every=True)


def _kill(name, start, tmp_path, *, every):
    bench = Bench(start, name, tmp_path)
    for point, skip in _gaps(bench, every):
        root = bench.fresh()
        try:
            with open_store(str(root), options=bench.operation.options) as living:
                write(living, {A: {"early": 1}})
                child = start(run_operation, name, str(root), points=f"{point}=kill@{skip}")
                assert child.wait().was_killed, (child.said, child.error)
                write(living, {A: {"other": 1}})
                found = graph_state(living)["main"][A]
                assert found["other"] == 1
                assert "early" in found or name == "overwrite"
            with open_store(str(root), options=bench.operation.options) as store:
                assert graph_state(store)["main"][A] == found
                check_whole(store, forgets=bench.operation.forgets)
        except (ConflictError, NotFoundError, AssertionError) as error:
            raise AssertionError(f"{name} killed at {point}, pass {skip + 1}: {error}") from error
        shutil.rmtree(root.parent)
