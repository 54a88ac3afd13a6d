"""The lines of history as people draw them: one lane for a branch, another for what was merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from omnigraph.api.history import GraphCommit
from omnigraph.errors import NotFoundError

_MOST_MERGED = 20


def drawn(
    commits: Sequence[GraphCommit],
    find: Callable[[str], GraphCommit],
    text: Callable[[GraphCommit], str],
) -> Iterator[str]:
    """Yield the commits of a line, newest first, with those that merges brought beside them."""
    shown = {commit.graph_commit_id for commit in commits}
    for commit in commits:
        yield f"* {text(commit)}"
        if commit.merged_parent_commit_id is None:
            continue
        yield "|\\"
        for brought in _brought(commit.merged_parent_commit_id, find, shown):
            yield f"| * {text(brought)}" if isinstance(brought, GraphCommit) else f"| {brought}"
        yield "|/"


def _brought(
    first: str, find: Callable[[str], GraphCommit], shown: set[str]
) -> Iterator[GraphCommit | str]:
    """Yield the commits of another line back to one that is shown already."""
    at: str | None = first
    for _ in range(_MOST_MERGED):
        if at is None or at in shown:
            return
        try:
            commit = find(at)
        except NotFoundError:
            yield f". {at} is not known any more"
            return
        if not commit.maintenance:
            yield commit
        shown.add(at)
        at = commit.parent_commit_id
    yield ". and more"
