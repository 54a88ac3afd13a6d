"""Adjacency on disk: the arrays of one direction, mapped instead of sorted anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.engine.image import mapped
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.topology.csr import Csr

_ARRAYS, _NEAR, _FAR = "arrays", "near", "far"
_PARTS = ("offsets", "targets", "edges")
_ONCE = "once_"


@dataclass(frozen=True)
class BaseEdges:
    """One direction between three bases, and the edges that have an end elsewhere.

    `loose` are their positions, `near` and `far` the ids of their ends: whether a node has one of
    them is asked for every version.
    """

    csr: Csr
    loose: Ints
    near: pa.Array
    far: pa.Array
    is_mapped: bool = False

    @property
    def nbytes(self) -> int:
        """Memory held; files that are mapped hold none."""
        held = self.loose.nbytes + int(self.near.nbytes) + int(self.far.nbytes)
        return held if self.is_mapped else held + self.csr.nbytes


def find_edges(place: Path | None) -> BaseEdges | None:
    """Return adjacency that was kept; None if it was not."""
    found = None if place is None else mapped.read_arrays(place, _ARRAYS)
    if place is None or found is None:
        return None
    arrays, said = found
    csr = _csr(arrays, "", parallel=bool(said["parallel"]))
    if csr.parallel:
        vars(csr)["distinct"] = _csr(arrays, _ONCE, parallel=False)
    none = pa.array([], pa.string())
    if not len(arrays["loose"]):
        return BaseEdges(csr, arrays["loose"], none, none, is_mapped=True)
    near, far = mapped.read_column(place, _NEAR), mapped.read_column(place, _FAR)
    if near is None or far is None:
        return None
    return BaseEdges(csr, arrays["loose"], near[0], far[0], is_mapped=True)


def _csr(arrays: mapped.Arrays, which: str, *, parallel: bool) -> Csr:
    offsets, targets, edges = (arrays[which + part] for part in _PARTS)
    return Csr(offsets, targets, edges, parallel)


def are_kept(place: Path | None) -> bool:
    """Whether adjacency was written."""
    return place is not None and mapped.is_there(place, _ARRAYS)


def keep_edges(place: Path | None, edges: BaseEdges) -> None:
    """Write adjacency, if nobody did."""
    if place is None or edges.is_mapped or are_kept(place):
        return
    place.mkdir(0o700, exist_ok=True)
    if len(edges.loose):
        mapped.write_column(place, _NEAR, edges.near, {})
        mapped.write_column(place, _FAR, edges.far, {})
    csr = edges.csr
    arrays = {part: getattr(csr, part) for part in _PARTS}
    if csr.parallel:
        arrays |= {_ONCE + part: getattr(csr.distinct, part) for part in _PARTS}
    arrays["loose"] = np.asarray(edges.loose, np.int64)
    mapped.write_arrays(place, _ARRAYS, arrays, {"parallel": csr.parallel})
