"""Row positions by id: dense positions, found through sorted 64-bit hashes.

A plain dict would have to be copied for every new version; sorted hashes are two flat arrays that
versions share, and a small overlay beside them holds what came later. Hashes only find
candidates: the id itself is compared before a position is returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import keep
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.image.pieces import gathered, sorted_rows, spans

MISSING = -1


@dataclass(frozen=True)
class IdIndex:
    """Immutable id → position lookup over one id column (no nulls, unique)."""

    ids: pa.StringArray
    hashes: Ints
    order: Ints

    @property
    def nbytes(self) -> int:
        """Memory held beside the ids themselves."""
        return self.hashes.nbytes + self.order.nbytes

    def find(self, wanted: str) -> int:
        """Return the position of an id, or -1."""
        key = hash(wanted)
        at = int(self.hashes.searchsorted(key))
        while at < len(self.hashes) and self.hashes[at] == key:
            position = int(self.order[at])
            if self.ids[position].as_py() == wanted:
                return position
            at += 1
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
        texts = wanted.to_pylist()
        keys = np.fromiter(map(hash, texts), np.int64, len(texts))
        at = np.empty(len(keys), np.int64)
        sweep = np.argsort(keys)  # looking up in order costs a third of jumping about
        at[sweep] = np.minimum(self.hashes.searchsorted(keys[sweep]), len(self.hashes) - 1)
        found = self.order[at].astype(np.int64)
        alike = self.hashes[at] == keys
        same = pc.fill_null(pc.equal(self.ids.take(pa.array(found)), wanted), False)
        certain = alike & same.to_numpy(zero_copy_only=False)
        found[~certain] = MISSING
        for row in np.flatnonzero(alike & ~certain):  # two ids of one hash, hardly ever
            if texts[row] is not None:
                found[row] = self.find(texts[row])
        return found


def build_ids(ids: pa.StringArray) -> IdIndex:
    """Return the lookup of an id column."""
    # Python's own string hash: already computed for interned keys, salted per process, and the
    # array never leaves the process.
    hashes = np.empty(len(ids), np.int64)
    for start, end in spans(len(ids)):
        some = ids.slice(start, end - start).to_pylist()
        hashes[start:end] = np.fromiter(map(hash, some), dtype=np.int64, count=end - start)
    order = sorted_rows([hashes], len(hashes)).astype(np.int32)
    found = IdIndex(ids, gathered(hashes, order), order)
    keep("reading ids", found.nbytes)
    return found
