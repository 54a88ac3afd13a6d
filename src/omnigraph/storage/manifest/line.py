"""The first-parent line of a branch: every commit, and the tables and contract after each.

Read at once and folded forward, so that going through all states costs one pass over the history
rows; `history` answers for single ones. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from omnigraph.base.ids import TableKey
from omnigraph.storage.files.records import Commit, TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.history import files_in, table_of
from omnigraph.storage.manifest.rows import (
    CONTRACT_FILE,
    TABLE_VERSION,
    TOMBSTONE,
    Head,
    read_commits,
    read_rows,
    stated_in,
)
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.predicate import is_in


@dataclass(frozen=True, slots=True)
class TableMove:
    """A commit after which a dataset was at another version."""

    commit: Commit
    table: TableVersion


@dataclass(frozen=True)
class Line:
    """The line of one branch, as of one head."""

    kernel: Kernel
    head: Head

    @cached_property
    def commits(self) -> list[Commit]:
        """Return the commits, oldest first; their sequence is their place."""
        return read_commits(self.head.handle)

    def find(self, commit_id: str) -> Commit | None:
        """Return a commit of the line."""
        return next((one for one in self.commits if one.id == commit_id), None)

    def snapshots(self, first: int = 0) -> Iterator[tuple[Commit, Snapshot]]:
        """Yield the commits from a sequence on, oldest first, each with the state after it."""
        tables: dict[TableKey, TableVersion] = {}
        events = iter([*self._events, (len(self.commits) + 1, True, 0, TableKey(""), None)])
        due = next(events)
        for commit in self.commits:
            while due[0] <= commit.sequence:
                _, _, _, key, table = due
                if table is None:
                    tables.pop(key, None)
                else:
                    tables[key] = table
                due = next(events)
            if commit.sequence >= first:
                yield commit, self._snapshot(commit, dict(sorted(tables.items())))

    def moves_of(self, location: str) -> list[TableMove]:
        """Return how a dataset came to its version, newest first, whatever it was called."""
        by_sequence = {commit.sequence: commit for commit in self.commits}
        found: list[TableMove] = []
        for sequence, _, _, _, table in self._events:
            if table is not None and table.location == location and sequence in by_sequence:
                if found and found[-1].table.place == table.place:
                    continue  # it got another name
                found.append(TableMove(by_sequence[sequence], table))
        return found[::-1]

    def files_after(self, sequence: int) -> Mapping[str, str]:
        """Return the digests of the contract files after a commit."""
        return files_in(self.head, sequence, self._file_events)

    def _snapshot(self, commit: Commit, tables: Mapping[TableKey, TableVersion]) -> Snapshot:
        return Snapshot(
            self.kernel,
            self.head.branch,
            commit.id,
            commit.logical_id,
            commit.sequence,
            commit.manifest_version,
            tables,
            self.files_after(commit.sequence),
            self.head.incarnation,
        )

    @cached_property
    def _events(self) -> list[tuple[int, bool, int, TableKey, TableVersion | None]]:
        """Return what commits did to tables, in order; None is a tombstone."""
        head = self.head
        rows = read_rows(head.handle, is_in("object_type", (TABLE_VERSION, TOMBSTONE)))
        found = []
        for order, row in enumerate(rows.to_pylist()):
            stated = stated_in(head.handle, row["metadata"])
            table = table_of(row, stated)
            # A table that is dropped and made anew in one commit is there after it.
            at = (stated["sequence"], table is not None, order)
            found.append((*at, TableKey(row["table_key"]), table))
        return sorted(found, key=lambda event: event[:3])

    @cached_property
    def _file_events(self) -> list[tuple[str, int, str]]:
        rows = read_rows(self.head.handle, is_in("object_type", (CONTRACT_FILE,)))
        stated = [stated_in(self.head.handle, text) for text in rows["metadata"].to_pylist()]
        return [(one["name"], one["sequence"], one["digest"]) for one in stated]
