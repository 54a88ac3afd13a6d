"""Every durable operation, cut off at every gap: what the disk kept is before or after.

A kill cannot show a missing fsync, because the system keeps what the process wrote. Here the
directory is rebuilt from what was forced to the disk: without anything else, with all names but
torn contents, and with each single file torn that was not synced.
"""

from __future__ import annotations

import shutil

import pytest

from tests.crash.bench import Bench
from tests.support.operations import OPERATIONS, run_operation
from tests.support.powercut import Disk

pytestmark = pytest.mark.crash
TORN = ("unsynced files empty", "unsynced files zeroed")


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_power_cut_anywhere_leaves_before_or_after(name, start, tmp_path):
    _cut_everywhere(name, start, tmp_path, every_file=False)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_power_cut_that_tears_any_one_file_leaves_before_or_after(name, start, tmp_path):
    _cut_everywhere(name, start, tmp_path, every_file=True)


def _cut_everywhere(name, start, tmp_path, *, every_file):
    bench = Bench(start, name, tmp_path)
    log = tmp_path / "syncs.log"
    problems = []
    first = dict(reversed(bench.cells()))
    cells = [*(bench.cells() if every_file else first.items()), ("", 0)]
    for number, (point, skip) in enumerate(cells):
        root = bench.fresh()
        disk = Disk(root).note_tree()
        log.unlink(missing_ok=True)
        points = f"{point}=kill@{skip}" if point else ""
        child = start(run_operation, name, str(root), str(log), points=points).wait()
        assert child.error is None, child.error
        images = disk.replay(log).images(every_file=every_file)
        if not every_file:  # torn in one way here, in the other at the next gap
            del images[TORN[number % 2]]
        for damage, image in images.items():
            disk.become(image)
            try:
                bench.check(root, acknowledged="done" in child.said, briefly=not every_file)
            except Exception as error:  # noqa: BLE001 - every cell is told of
                problems.append(
                    f"cut at {point or 'the end'}, pass {skip + 1}, {damage}: "
                    f"{type(error).__name__}: {str(error)[:300]}"
                )
        shutil.rmtree(root.parent)
    assert not problems, "\n".join(problems)
