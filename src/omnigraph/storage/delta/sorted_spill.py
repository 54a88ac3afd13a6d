"""Rows of two sides that do not fit into memory, on disk in ranges of ids.

Rows are written to Arrow files in runs; a run is sorted by id and cut at the same boundaries on
both sides, so that a range can be read back from both, compared alone by any process, and ranges
one after another give rows in the order of their ids.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint
from omnigraph.base.closing import Closing
from omnigraph.errors import StorageError
from omnigraph.storage.delta.side import ID

_MOST_RANGES = 4_096
_SAMPLED_OF_A_PIECE = 256


def boundaries(samples: Iterable[pa.Array], ranges: int) -> pa.Array:
    """Return ids that cut all ids into about equal ranges, from pieces of them."""
    drawn = [_some_of(ids) for ids in samples]
    if not drawn or ranges < 2:
        return pa.array([], pa.string())
    ids = pa.concat_arrays(drawn)
    ids = ids.take(pc.sort_indices(ids))
    count = min(ranges, _MOST_RANGES)
    at = np.arange(1, count) * len(ids) // count
    return pc.unique(ids.take(pa.array(at)))


def _some_of(ids: pa.Array) -> pa.Array:
    step = max(1, len(ids) // _SAMPLED_OF_A_PIECE)
    return ids.take(pa.array(np.arange(0, len(ids), step)))


@dataclass(frozen=True, slots=True)
class SpilledRows:
    """Rows of one side in a file; it can be pickled."""

    file: Path
    schema: pa.Schema
    batches: tuple[tuple[int, ...], ...]
    """Per range where in the file its rows are."""

    def range(self, number: int) -> pa.Table:
        """Return the rows of one range."""
        with pa.memory_map(str(self.file)) as source:
            stored = pa.ipc.open_file(source)
            found = [stored.get_batch(at) for at in self.batches[number]]
        return pa.Table.from_batches(found, self.schema)


def spilled(
    file: Path, schema: pa.Schema, cuts: pa.Array, run_bytes: int, rows: Iterable[pa.Table]
) -> SpilledRows:
    """Write rows, in any order, to a file from which ranges can be read back."""
    with disk_errors(file.parent):
        found = _Writer(file, schema, cuts, run_bytes)
        for piece in rows:
            found.add(piece)
        return found.finish()


class _Writer:
    """A file that is being written."""

    def __init__(self, file: Path, schema: pa.Schema, cuts: pa.Array, run_bytes: int) -> None:
        self._file = file
        self._schema = schema
        self._cuts = cuts
        self._run_bytes = run_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._written = 0
        self._batches: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
        self._writer = pa.ipc.new_file(file, schema)

    def add(self, rows: pa.Table) -> None:
        """Take rows, in any order."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._run_bytes:
            self._flush()

    def finish(self) -> SpilledRows:
        """Take no more; from now on ranges can be read."""
        self._flush()
        self._writer.close()
        return SpilledRows(self._file, self._schema, tuple(map(tuple, self._batches)))

    def _flush(self) -> None:
        if not self._held:
            return
        checkpoint("comparing rows on disk")
        run = pa.concat_tables(self._held).sort_by(ID).combine_chunks()
        self._held, self._held_bytes = [], 0
        ids = run[ID].combine_chunks()
        ids = ids if isinstance(ids, pa.Array) else pa.concat_arrays(ids.chunks)
        ends = np.asarray(pc.search_sorted(ids, self._cuts, side="right")).tolist()
        starts = [0, *ends]
        for number, (start, end) in enumerate(zip(starts, [*ends, len(run)], strict=True)):
            for batch in run.slice(start, end - start).to_batches():
                if batch.num_rows:
                    self._writer.write_batch(batch)
                    self._batches[number].append(self._written)
                    self._written += 1


class Spill(Closing):
    """Both sides on disk, and the ranges they share; a context that leaves no files behind."""

    def __init__(self, folder: Path, cuts: pa.Array, run_bytes: int) -> None:
        self._folder = folder
        self._cuts = cuts
        self._run_bytes = run_bytes

    def side(self, name: str, schema: pa.Schema, rows: Iterator[pa.Table]) -> SpilledRows:
        """Write all rows of one side."""
        return spilled(self._folder / name, schema, self._cuts, self._run_bytes, rows)

    @property
    def ranges(self) -> int:
        """Return how many ranges there are."""
        return len(self._cuts) + 1

    def __enter__(self) -> Self:
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def close(self) -> None:
        """Leave no files behind."""
        with disk_errors(self._folder):
            for file in self._folder.iterdir():
                file.unlink()
            self._folder.rmdir()


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Tell in our words what a disk does not take.

    Raises:
        StorageError: a file below the folder cannot be written or read back.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"rows to be compared cannot be kept in '{folder}': {error}",
            hint="free some space there",
        ) from error
