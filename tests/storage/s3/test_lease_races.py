"""Processes that sleep through many epochs of a lease on S3, beside some that do not."""

from __future__ import annotations

import pytest

from omnigraph.storage.store import open_store
from tests.support.storage_model import A, check_whole, contents, new_graph
from tests.support.writers import append_between_naps, enter_alone

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]
SLEPT_THROUGH = 20  # epochs are forgotten every 16
ROUNDS = [4, pytest.param(60, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])]


def race(task, root, options, start, rounds):
    """Let two be busy while a third one naps; return what they said."""
    busy = [start(task, root, options, name, rounds * SLEPT_THROUGH, False) for name in ("x", "y")]
    sleeper = start(task, root, options, "sleeper", rounds, True)
    while sleeper.wait_frozen():
        before = _said(busy)
        while _said(busy) < before + SLEPT_THROUGH and any(c.process.is_alive() for c in busy):
            pass
        sleeper.wake_up()
    return [child.succeed(600).said for child in (*busy, sleeper)]


def _said(children):
    return sum(len(child.hear()) for child in children)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_nobody_enters_beside_another_after_a_nap(rounds, root, options, start):
    epochs = race(enter_alone, root, options, start, rounds)
    everybodys = sorted(epoch for said in epochs for epoch in said)
    assert len(everybodys) == rounds * (2 * SLEPT_THROUGH + 1)
    assert len(set(everybodys)) == len(everybodys), "an epoch was used twice"
    assert all(said == sorted(said) for said in epochs)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_writer_that_naps_writes_beside_others_and_nothing_is_lost(rounds, root, options, start):
    new_graph(root, options).close()
    said = race(append_between_naps, root, options, start, rounds)
    with open_store(root, options=options) as store:
        found = contents(store.snapshot())[A]
        assert set(found) == {"a1", "a2", "a3", "a4"} | {key for part in said for key in part}
        check_whole(store)
