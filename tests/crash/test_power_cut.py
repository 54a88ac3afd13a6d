"""Every durable operation, cut off at every gap: what the disk kept is before or after.

A kill cannot show a missing fsync, because the system keeps what the process wrote. Here the
directory is rebuilt from what was forced to the disk: once without anything else, once with
all names but torn contents.
"""

from __future__ import annotations

import shutil

import pytest

from tests.crash.bench import Bench
from tests.support.operations import OPERATIONS, run_operation
from tests.support.powercut import MODES, Disk

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_power_cut_anywhere_leaves_before_or_after(name, start, tmp_path):
    bench = Bench(start, name, tmp_path)
    log = tmp_path / "syncs.log"
    problems = []
    for point, skip in [*bench.cells(), ("", 0)]:
        for mode in MODES:
            root = bench.fresh()
            disk = Disk(root).note_tree()
            log.unlink(missing_ok=True)
            points = f"{point}=kill@{skip}" if point else ""
            child = start(run_operation, name, str(root), str(log), points=points).wait()
            assert child.error is None, child.error
            disk.replay(log).cut(mode)
            try:
                bench.check(root, acknowledged="done" in child.said)
            except Exception as error:  # noqa: BLE001 - all cells are told of
                problems.append(
                    f"cut at {point or 'the end'}, pass {skip + 1}, {mode}: "
                    f"{type(error).__name__}: {str(error)[:500]}"
                )
            shutil.rmtree(root.parent)
    assert not problems, "\n".join(problems)
