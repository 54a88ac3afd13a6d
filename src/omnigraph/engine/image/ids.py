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

from omnigraph.engine.image.arrays import Ints

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
        found = pc.index_in(wanted, value_set=self.ids)
        return np.asarray(pc.fill_null(found, MISSING).to_numpy(), dtype=np.int64)


def build_ids(ids: pa.StringArray) -> IdIndex:
    """Return the lookup of an id column."""
    # Python's own string hash: already computed for interned keys, salted per process, and the
    # array never leaves the process.
    hashes = np.fromiter(map(hash, ids.to_pylist()), dtype=np.int64, count=len(ids))
    order = np.argsort(hashes, kind="stable").astype(np.int32)
    return IdIndex(ids, hashes[order], order)
