"""What both sides of a merge began from: the state of one commit, or rows agreed on by several.

After merges in both directions two lines have several lowest common ancestors, and no single one of
them is right for every row. Such bases are themselves merged row by row, with what *they* have in
common; where that cannot be settled a row has no base. Only rows in which the bases differ need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.ids import CommitId, TableKey
from omnigraph.engine.image.arrays import Mask
from omnigraph.engine.merge.images import Images, joined, same
from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.storage.delta.confirm import Changed
from omnigraph.storage.delta.side import ColumnPair
from omnigraph.storage.delta.table import TableDelta, table_delta
from omnigraph.storage.files.records import Place, TableVersion
from omnigraph.storage.manifest.ancestry import Parents, lowest_common_ancestors
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.failures import SnapshotExpiredError


class MergeBaseExpiredError(ConflictError):
    """The rows two branches began from are gone; an older base would undo what was reverted."""

    def __init__(self, commit_id: str) -> None:
        self.commit_id = commit_id
        super().__init__(
            f"the state of commit {commit_id}, which both branches began from, was cleaned up",
            hint="name another base whose rows count as what both sides have seen",
        )


Pairs: TypeAlias = Callable[
    [TableKey, TableVersion | None, TableVersion | None], Sequence[ColumnPair]
]
"""Tells which column of one version of a table is which of another."""


@dataclass(frozen=True, slots=True)
class Based:
    """Rows of the base by id, and the ids of which nobody can say what their base was."""

    images: Images
    unsettled: pa.Array


class Bases:
    """The lowest common ancestors of a merge; the first one stands for all where they agree."""

    def __init__(
        self,
        commits: Sequence[CommitId],
        parents: Parents,
        open_at: Callable[[CommitId], Snapshot],
        pairs: Pairs | None = None,
    ) -> None:
        self.commits = tuple(commits)
        self._parents = parents
        self._open_at = open_at
        self._pairs = pairs
        self._known: dict[CommitId, Snapshot] = {}
        self._deltas: dict[tuple[TableKey, Place | None], TableDelta] = {}

    def seen(self, open_at: Callable[[CommitId], Snapshot], pairs: Pairs) -> Bases:
        """Return the same bases under another schema."""
        return Bases(self.commits, self._parents, open_at, pairs)

    def snapshot(self, commit_id: CommitId) -> Snapshot:
        """Return the state of a base.

        Raises:
            MergeBaseExpiredError: nobody can read it any more.
        """
        if commit_id not in self._known:
            try:
                self._known[commit_id] = self._open_at(commit_id)
            except (NotFoundError, SnapshotExpiredError) as error:
                raise MergeBaseExpiredError(commit_id) from error
        return self._known[commit_id]

    @property
    def first(self) -> Snapshot:
        """Return the base that most rows have."""
        return self.snapshot(self.commits[0])

    def delta(self, key: TableKey, after: TableVersion | None) -> TableDelta:
        """Return what became of a table since the first base; fragments are compared once.

        Raises:
            MergeBaseExpiredError: its rows there were cleaned up.
        """
        asked = (key, None if after is None else after.place)
        if asked not in self._deltas:
            first = self.first
            before = first.tables.get(key)
            columns = None if self._pairs is None else self._pairs(key, before, after)
            try:
                found = table_delta(first.kernel, before, after, columns=columns)
            except SnapshotExpiredError as error:
                raise MergeBaseExpiredError(first.commit_id) from error
            self._deltas[asked] = found
        return self._deltas[asked]

    def disputed(self, key: TableKey) -> pa.Array:
        """Return the ids of rows of a table in which the bases may differ."""
        parts = [self._between(key, other).touched().ids for other in self.commits[1:]]
        return pc.unique(pa.concat_arrays(parts)) if parts else pa.array([], pa.string())

    def changes_between(self, key: TableKey, ids: pa.Array) -> list[Changed]:
        """Return how some rows differ between the first base and each other one."""
        found = [
            joined(self._between(key, other).batches(blobs=True), ids) for other in self.commits[1:]
        ]
        return [change for change in found if change is not None]

    def agreed(self, key: TableKey, ids: pa.Array, first: Images) -> Based:
        """Return the base of rows, which are given as they are at the first base."""
        at = partial(self._images, key, ids, first)
        images, unsettled = _agreed(self.commits, self._parents, ids, at)
        return Based(images, ids.filter(pa.array(unsettled)))

    def _between(self, key: TableKey, other: CommitId) -> TableDelta:
        return self.delta(key, self.snapshot(other).tables.get(key))

    def _images(self, key: TableKey, ids: pa.Array, first: Images, commit: CommitId) -> Images:
        if commit == self.commits[0]:
            return first
        changed = joined(self._between(key, commit).batches(blobs=True), ids)
        return first if changed is None else first.after(changed)


def _agreed(
    commits: Sequence[CommitId],
    parents: Parents,
    ids: pa.Array,
    images_at: Callable[[CommitId], Images],
) -> tuple[Images, Mask]:
    """Fold several states into one, each with the base it has in common with those before it."""
    agreed = images_at(commits[0])
    unsettled = np.zeros(len(ids), dtype=bool)
    for number, commit in enumerate(commits[1:], 1):
        mine = images_at(commit)
        common = lowest_common_ancestors(parents, commits[:number], [commit])
        if common:
            base, nowhere = _agreed(common, parents, ids, images_at)
        else:
            base, nowhere = Images(agreed.rows.slice(0, 0)), np.ones(len(ids), dtype=bool)
        alike = same(ids, agreed, mine)
        takes_mine = same(ids, agreed, base) & ~nowhere & ~alike
        keeps = same(ids, mine, base) & ~nowhere
        unsettled |= ~(alike | takes_mine | keeps)
        taken = ids.filter(pa.array(takes_mine))
        agreed = agreed.without(taken).with_rows(mine.only(taken).rows)
    return agreed, unsettled
