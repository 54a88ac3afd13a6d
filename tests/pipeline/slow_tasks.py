"""A task whose first attempt waits until Spark has started a copy of it; workers load this."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.pipeline.fragments import Written

PATIENCE_S = 60.0


@dataclass(frozen=True)
class SlowFirst:
    """Runs a task; of partition 0 two attempts run to the end, at the same time.

    Every attempt leaves a note `partition.attempt`, with the files it wrote once it has.
    """

    task: Callable[[Any], Any]
    folder: Path

    def __call__(self, spec: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition, attempt = context.partitionId(), context.attemptNumber()
        note = self.folder / f"{partition}.{attempt}"
        note.write_text("")
        if partition == 0 and attempt == 0:
            self._await_copy()
        found = self.task(spec)
        note.write_text(json.dumps(written_files(found)))
        return found

    def _await_copy(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not (self.folder / "0.1").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody started a copy of a task that takes long")
            time.sleep(0.01)


def written_files(found: Any) -> list[str]:
    """The names of the data files a task wrote, if it wrote any."""
    if not isinstance(found, Written):
        return []
    parts = [json.loads(part.metadata) for part in found.fragments]
    return [file["path"] for part in parts for file in part["files"]]
