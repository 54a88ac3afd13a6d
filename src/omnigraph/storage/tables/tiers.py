"""Which fragments of a dataset are too many, judged by their sizes.

Sizes grow by a factor from tier to tier, and a tier is merged when it is full, so a row is
rewritten a bounded number of times in its life however many rows there are. Decides only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.inherited import fragments_of_inherited_indexes

_FIRST_TIER_BYTES = 256 * 1024
"""What merging the newest commits may rewrite every time."""
_FIRST_TIER_ROWS = (16, 1_024)
_TIER_GROWTH = 32
_STEP_ROWS = 200_000
_NARROW_WIDTH = 24  # an open decodes up to so many small fragments; a fold holds up writers
_NARROW_BASE_ROWS = 256


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge that is due: of all fragments with fewer rows than this."""

    below_rows: int
    max_rows: int
    """How many rows one step may rewrite."""
    small: bool = False
    """Whether it is the first tier, which is merged in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class FragmentSize:
    """How much one fragment holds."""

    rows: int
    file_bytes: int


def fragment_sizes(handle: Handle, but: Collection[int] = ()) -> list[FragmentSize]:
    """Return the live rows and the bytes of every fragment `but` some, in storage order."""
    with lance_errors(f"looking at the fragments of {handle}"):
        described = [part.metadata for part in handle.dataset.get_fragments()]
    return [
        FragmentSize(part.num_rows, sum(file.file_size_bytes or 0 for file in part.files))
        for part in described
        if part.id not in but
    ]


def fragment_rows(handle: Handle) -> list[tuple[int, int]]:
    """Return the id and the live rows of every fragment, in storage order."""
    with lance_errors(f"looking at the fragments of {handle}"):
        return [
            (part.fragment_id, part.physical_rows - part.num_deletions)
            for part in handle.dataset.get_fragments()
        ]


def due_merge(handle: Handle, few: int, largest_rows: int) -> Merge | None:
    """Return what to merge so that a table stays a handful of fragments; None if nothing.

    `few` of one size are merged. What merging one tier leaves counts in the next: a cascade is
    one step.
    """
    sizes = fragment_sizes(handle, but=fragments_of_inherited_indexes(handle))
    largest = max(sizes, key=lambda part: part.rows, default=None)
    if largest is None:
        return None
    row_bytes = max(largest.file_bytes // max(largest.rows, 1), 1)
    fewest, most = _FIRST_TIER_ROWS
    first = min(max(_FIRST_TIER_BYTES // row_bytes, fewest), most)
    due, below = None, 0
    for tier in (first, first * _TIER_GROWTH, largest_rows):
        members = sum(below <= part.rows < tier for part in sizes) + (due is not None)
        if members >= few:
            due = Merge(tier, _STEP_ROWS, small=tier == first)
        below = tier
    return due


def over_full_tier(handle: Handle) -> list[int]:
    """Return the fragments of the smallest size class that has too many, or none.

    Sizes grow by a fixed factor from class to class, so merging a class when it is full
    rewrites each row a few times in its life, however many rows there are.
    """
    tiers: dict[int, list[int]] = {}
    for fragment_id, rows in fragment_rows(handle):
        tier = 0
        while rows >= _NARROW_BASE_ROWS * _NARROW_WIDTH**tier:
            tier += 1
        tiers.setdefault(tier, []).append(fragment_id)
    for tier in sorted(tiers):
        if len(tiers[tier]) >= _NARROW_WIDTH:
            return tiers[tier]
    return []
