"""Which commits come before which: the graph of parents, and what two lines have in common.

Read from two plain columns of the commit rows and kept warm, so that a merge does not pay for
history it has seen. Reachability decides, never distance: the common ancestors that count are those
from which no other common one can be reached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.base.ids import BranchName, CommitId
from omnigraph.storage.manifest.rows import Head, read_parents

Parents: TypeAlias = Mapping[CommitId, tuple[CommitId, ...]]
_BRANCHES_KEPT = 64


def ancestors(parents: Parents, commit: CommitId) -> set[CommitId]:
    """Return a commit and all that came before it."""
    found = {commit}
    ahead = [commit]
    while ahead:
        for one in parents.get(ahead.pop(), ()):
            if one not in found:
                found.add(one)
                ahead.append(one)
    return found


def lowest_common_ancestors(
    parents: Parents, some: Collection[CommitId], others: Collection[CommitId]
) -> tuple[CommitId, ...]:
    """Return the common ancestors of two groups of commits that no other common one descends from.

    A group has the ancestors of all its members, as a merge of them would.
    """
    common = _ancestors_of(parents, some) & _ancestors_of(parents, others)
    # Whatever lies between a common ancestor and one of its own ancestors is common, too.
    covered = {parent for commit in common for parent in parents.get(commit, ())}
    return tuple(sorted(common - covered))


def _ancestors_of(parents: Parents, commits: Iterable[CommitId]) -> set[CommitId]:
    return set().union(*(ancestors(parents, commit) for commit in commits))


def merge_bases_of_all(parents: Parents, heads: Collection[CommitId]) -> set[CommitId]:
    """Return a superset of the lowest common ancestors of every pair of heads, in one pass.

    A commit is one only if two heads reach it that do not both reach one of its children.
    """
    reached: dict[CommitId, int] = {}
    for number, head in enumerate(dict.fromkeys(heads)):
        for commit in ancestors(parents, head):
            reached[commit] = reached.get(commit, 0) | 1 << number
    covered: dict[CommitId, bool] = {}
    for commit, by in reached.items():
        for parent in parents.get(commit, ()):
            if reached.get(parent) == by:
                covered[parent] = True
    return {
        commit for commit, by in reached.items() if by & (by - 1) and not covered.get(commit, False)
    }


@dataclass(slots=True)
class _Known:
    """The parents in the manifest of one branch, up to a commit."""

    sequence: int = -1
    parents: dict[CommitId, tuple[CommitId, ...]] = field(default_factory=dict)


class Ancestries:
    """The parents of all commits of the branches in use, extended by what was committed since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[BranchName, str], _Known] = OrderedDict()
        self._facts: dict[CommitId, tuple[CommitId, ...]] = {}
        self._whole: set[CommitId] = set()
        """Commits of which everything that led to them is among the facts."""

    def note(self, commit: CommitId, parents: tuple[CommitId, ...]) -> None:
        """Learn of a commit this process has just published."""
        with self._lock:
            if self._whole.issuperset(parents):
                self._facts[commit] = parents
                self._whole.add(commit)

    def leading_to(self, *heads: Head) -> Parents:
        """Return the parents of all commits that lead to some heads.

        Whose child a commit is never changes, whatever becomes of branches, so nothing is read if
        all of them were seen before.
        """
        wanted = [head.commit_id for head in heads]
        if self._whole.issuperset(wanted):
            return self._facts
        found = self.together(*heads)
        with self._lock:
            for commit in wanted:
                line = ancestors(found, commit)
                if line <= found.keys():
                    self._whole |= line
                    self._facts |= {one: found[one] for one in line}
        return found

    def of(self, head: Head) -> Parents:
        """Return the parents of every commit that the manifest of a branch has a row for."""
        name = (head.branch, head.incarnation)
        with self._lock:
            known = self._known.get(name)
            if known is not None and known.sequence == head.sequence:
                self._known.move_to_end(name)
                return known.parents
            if known is None or known.sequence > head.sequence:
                known = _Known()
            fresh = read_parents(head.handle, since=known.sequence + 1)
            if any(len(one) > 1 for one in fresh.values()):
                fresh = read_parents(head.handle)  # a merge brings commits of another line along
            kept = _Known(head.sequence, {**known.parents, **fresh})
            self._known[name] = kept
            while len(self._known) > _BRANCHES_KEPT:
                self._known.popitem(last=False)
            return kept.parents

    def together(self, *heads: Head) -> Parents:
        """Return the parents that several branches know of.

        Who knows a commit and everything before it need not be helped by the branch whose it is, so
        most branches are not read. A branch from the past has later commits without what led to
        them: those that merges had brought to the line it left.
        """
        found: dict[CommitId, tuple[CommitId, ...]] = {}
        missing: set[CommitId] = set()
        for head in heads:
            if head.commit_id in found and not missing:
                continue
            known = self.of(head)
            found |= known
            missing |= {parent for parents in known.values() for parent in parents}
            missing -= found.keys()
        return found
