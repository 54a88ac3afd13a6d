"""The lines of history as people draw them: one lane for a branch, others for what was merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.api.history import GraphCommit
from omnigraph.errors import NotFoundError

_MOST_MERGED = 20


@dataclass(frozen=True, slots=True)
class _Node:
    """A commit, and those before it that are drawn, too."""

    commit: GraphCommit
    parents: tuple[str, ...]
    left_out: str = ""
    """What is said of the commits before it that are not drawn."""


def drawn(
    commits: Sequence[GraphCommit],
    find: Callable[[str], GraphCommit],
    text: Callable[[GraphCommit], str],
) -> Iterator[str]:
    """Yield the commits of a line, newest first, with those that merges brought beside them."""
    nodes = _nodes(commits, find)
    lanes: list[str] = []
    for node in _newest_first(nodes):
        name = node.commit.graph_commit_id
        here = [at for at, expected in enumerate(lanes) if expected == name]
        if not here:
            here = [len(lanes)]
            lanes.append(name)
        at = here[0]
        for other in reversed(here[1:]):  # lines that began here come together
            yield _row(other) + "/" + " |" * (len(lanes) - other - 1)
            del lanes[other]
        yield f"{_row(len(lanes), at, '*')} {text(node.commit)}"
        if node.left_out:
            yield f"{_row(len(lanes), at, '.')} {node.left_out}"
        others = list(node.parents[1:])
        right = len(lanes) - at - 1
        if others and others == lanes[at + 1 : at + 2]:  # the line beside it
            yield _row(at + 1) + "\\" + _row(right)
        elif others and others[0] not in lanes:
            yield _row(at + 1) + "\\" + " \\" * right
            lanes.insert(at + 1, others[0])
        lanes[at : at + 1] = node.parents[:1]


def _row(width: int, at: int = -1, mark: str = "") -> str:
    """Return so many lanes side by side, one of them with a mark."""
    return " ".join(mark if lane == at else "|" for lane in range(width))


def _nodes(
    commits: Sequence[GraphCommit], find: Callable[[str], GraphCommit]
) -> Mapping[str, _Node]:
    """Return what is drawn by id: the line, and what led to its merges back to where it began."""
    line = [commit.graph_commit_id for commit in commits]
    found: dict[str, _Node] = {}
    for commit, before in zip(commits, [*line[1:], None], strict=False):
        parents: tuple[str, ...] = () if before is None else (before,)
        if commit.merged_parent_commit_id is not None:
            brought = _brought(commit, {*line, *found}, find)
            found |= brought[1]
            if brought[0] is not None:  # the line goes on, though it is not shown
                parents = (before or f"before {commit.graph_commit_id}", brought[0])
        found[commit.graph_commit_id] = _Node(commit, parents)
    return found


def _brought(
    merge: GraphCommit, drawn_already: set[str], find: Callable[[str], GraphCommit]
) -> tuple[str | None, dict[str, _Node]]:
    """Return what of the line that a merge brought comes first, and its commits."""
    chain: list[GraphCommit] = []
    at, left_out = merge.merged_parent_commit_id, ""
    while at is not None and at not in drawn_already:
        try:
            commit = find(at)
        except NotFoundError:
            left_out = f"{at} is not known any more"
            break
        if commit.manifest_branch == merge.manifest_branch:
            break  # of the line itself, from before what is shown
        if len(chain) == _MOST_MERGED:
            left_out = "and more"
            break
        if not commit.maintenance:
            chain.append(commit)
        at = commit.parent_commit_id
    end = at if at in drawn_already else None
    names = [commit.graph_commit_id for commit in chain]
    nodes = {
        commit.graph_commit_id: _Node(commit, () if before is None else (before,))
        for commit, before in zip(chain, [*names[1:], end], strict=False)
    }
    if chain and left_out:
        nodes[names[-1]] = _Node(chain[-1], (), left_out)
    return (names[0] if names else end), nodes


def _newest_first(nodes: Mapping[str, _Node]) -> Iterator[_Node]:
    """Yield commits by time, none before one that it led to."""
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes.values():
        for parent in nodes.keys() & node.parents:
            waiting[parent] += 1
    ready = [name for name, children in waiting.items() if not children]
    while ready:
        name = max(ready, key=lambda one: (nodes[one].commit.created_at, one))
        ready.remove(name)
        yield nodes[name]
        for parent in nodes.keys() & nodes[name].parents:
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
