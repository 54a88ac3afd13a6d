"""Tasks that wait for what else is to happen meanwhile; workers load this."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from omnigraph.pipeline.stages.fragments import Written

PATIENCE_S = 120.0


@dataclass(frozen=True)
class SlowFirst:
    """Runs a task; of partition 0 two attempts run to the end, at the same time.

    Every attempt leaves a note `partition.attempt`, with the files it wrote once it has. Spark
    stops an attempt as soon as the other one is through: so each of the two waits for the note of
    the other before it returns.
    """

    task: Callable[[Any], Any]
    folder: Path

    def __call__(self, spec: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition, attempt = context.partitionId(), context.attemptNumber()
        note = self.folder / f"{partition}.{attempt}"
        note.write_text("")
        is_watched = partition == 0 and attempt < 2
        if is_watched and attempt == 0:
            self._await("0.1", size=0)
        found = self.task(spec)
        whole = note.with_name(f".{note.name}")
        whole.write_text(json.dumps(written_files(found)))
        whole.replace(note)
        if is_watched:
            self._await(f"0.{1 - attempt}", size=1)
        return found

    def _await(self, name: str, *, size: int) -> None:
        """Wait until another attempt left a note of at least this many bytes."""
        _await_note(self.folder / name, size)


@dataclass(frozen=True)
class AfterFirst:
    """Runs a task; all but that of partition 0 leave a note with their process and wait."""

    task: Callable[[Any], Any]
    folder: Path
    GO: ClassVar[str] = "0"

    def __call__(self, spec: Any) -> Any:
        from pyspark import TaskContext

        if TaskContext.get().partitionId() != 0:
            (self.folder / str(os.getpid())).touch()
            _await_note(self.folder / self.GO, 0)
        return self.task(spec)


def _await_note(note: Path, size: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (note.exists() and note.stat().st_size >= size):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody left the note {note.name}")
        time.sleep(0.01)


def written_files(found: Any) -> list[str]:
    """The names of the data files a task wrote, if it wrote any."""
    if not isinstance(found, Written):
        return []
    parts = [json.loads(part.metadata) for part in found.fragments]
    return [file["path"] for part in parts for file in part["files"]]
