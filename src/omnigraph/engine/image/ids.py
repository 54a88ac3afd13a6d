"""Row positions by id: dense positions, found through buckets of hashes.

A plain dict would have to be copied for every new version; buckets are three flat arrays that
versions share, and that a file can hold as they are. A small overlay beside them holds what came
later. Hashes only find candidates: the id itself is compared before a position is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import NUMBER_BYTES, checkpoint, keep
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.image.hashes import Hashes, TextHash, fresh_hash
from omnigraph.engine.image.pieces import ascending, gathered, spans

MISSING = -1
_MOST_BITS = 30
_MARK_SHIFT = np.uint64(16)


@dataclass(frozen=True)
class IdIndex:
    """Immutable id → position lookup over one id column (no nulls, unique).

    Bucket b has the rows `rows[starts[b]:starts[b + 1]]`; `marks` are further bits of their hashes.
    """

    ids: pa.StringArray
    hash: TextHash
    starts: Ints
    rows: Ints
    marks: npt.NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Memory held beside the ids themselves."""
        return self.starts.nbytes + self.rows.nbytes + self.marks.nbytes

    @cached_property
    def _shift(self) -> int:
        return _shift_of(len(self.starts) - 1)

    def find(self, wanted: str) -> int:
        """Return the position of an id, or -1."""
        key = self.hash.of(wanted)
        bucket, mark = key >> self._shift, (key >> 16) & 0xFFFFFFFF
        for at in range(int(self.starts[bucket]), int(self.starts[bucket + 1])):
            if self.marks[at] == mark:
                position = int(self.rows[at])
                if self.ids[position].as_py() == wanted:
                    return position
        return MISSING

    def find_many(self, wanted: pa.Array) -> Ints:
        """Return the positions of many ids, -1 where unknown or null."""
        if len(wanted) < 64:
            return np.asarray(
                [MISSING if one is None else self.find(one) for one in wanted.to_pylist()],
                dtype=np.int64,
            )
        found = np.full(len(wanted), MISSING, np.int64)
        if len(self.ids):
            for start, end in spans(len(wanted)):
                found[start:end] = self._find_some(wanted.slice(start, end - start))
        return found

    def _find_some(self, wanted: pa.Array) -> Ints:
        found = np.full(len(wanted), MISSING, np.int64)
        hashes = self.hash.of_all(wanted)
        buckets, marks = _buckets(hashes, self._shift), _marks(hashes)
        at, ends = self.starts[buckets], self.starts[buckets + 1]
        left = np.flatnonzero(at < ends)
        while len(left):
            slots = at[left]
            likely = left[self.marks[slots] == marks[left]]
            if len(likely):
                rows = self.rows[at[likely]]
                same = pc.equal(self.ids.take(pa.array(rows)), wanted.take(pa.array(likely)))
                sure = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
                found[likely[sure]] = rows[sure]
            at[left] = slots + 1
            left = left[(found[left] == MISSING) & (at[left] < ends[left])]
        return found


def build_ids(ids: pa.StringArray, hash: TextHash | None = None) -> IdIndex:
    """Return the lookup of an id column.

    Args:
        ids: unique, none of them null.
        hash: the hash function; None draws one.
    """
    chosen = fresh_hash() if hash is None else hash
    size = len(ids)
    buckets = 1 << min(max(size - 1, 1).bit_length(), _MOST_BITS)
    shift = _shift_of(buckets)
    checkpoint("reading ids", 4 * size * NUMBER_BYTES)
    packed, marks = np.empty(size, np.int64), np.empty(size, np.uint32)
    for start, end in spans(size):
        hashes = chosen.of_all(ids.slice(start, end - start))
        packed[start:end] = _buckets(hashes, shift) << 32 | np.arange(start, end)
        marks[start:end] = _marks(hashes)
    packed = ascending(packed)
    rows = (packed & 0xFFFFFFFF).astype(np.int32)
    starts = np.zeros(buckets + 1, np.int32)
    np.cumsum(np.bincount(packed >> 32, minlength=buckets), out=starts[1:])
    found = IdIndex(ids, chosen, starts, rows, gathered(marks, rows))
    keep("reading ids", found.nbytes)
    return found


def _shift_of(buckets: int) -> int:
    return 64 - (buckets - 1).bit_length()


def _buckets(hashes: Hashes, shift: int) -> Ints:
    return (hashes >> np.uint64(shift)).astype(np.int64)


def _marks(hashes: Hashes) -> npt.NDArray[np.uint32]:
    return (hashes >> _MARK_SHIFT).astype(np.uint32)
