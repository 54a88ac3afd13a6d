"""Copies of whole graphs, and graphs that were copied or moved by other means."""

from __future__ import annotations

from os import PathLike

from omnigraph.api.progress import Progress
from omnigraph.api.upkeep import Cloned, Relocated
from omnigraph.errors import StorageError
from omnigraph.graph.options import GraphOptions
from omnigraph.storage.store import copy_store, open_store, relocate_store


def clone(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    options: GraphOptions | None = None,
    progress: Progress | None = None,
) -> Cloned:
    """Copy a graph with every branch, commit and tag to an empty place, and check the copy.

    Either place may be on a disk or in an object store. Writers need not stop: the copy is one
    state of the graph in which every write is whole. It has the identity of the original, so
    cursors of its change feed go on in the copy.

    Raises:
        NotFoundError: there is no graph.
        AlreadyExistsError: the place is not empty.
        ConflictError: its files vanish while no writer is at work.
        StorageError: the copy is not sound.
    """
    chosen = options or GraphOptions()
    done = copy_store(source, target, chosen.storage, progress=progress)
    with open_store(target, options=chosen.storage) as made:
        broken = [finding for finding in made.verify() if not finding.harmless]
        if broken:
            first = broken[0]
            raise StorageError(
                f"the copy at {target} is not sound: {first.kind} {first.subject}: {first.detail}",
                hint="look at the original with `omnigraph verify --deep`",
            )
        commit = made.snapshot("main").commit_id
    return Cloned(str(source), str(target), done.objects, done.size, commit)


def relocate(uri: str | PathLike[str], *, options: GraphOptions | None = None) -> Relocated:
    """Make a graph that was moved or copied file by file a graph of its own, where it is now.

    Only graphs with branches need it. Nobody may write to it meanwhile; a relocation that was
    broken off is repeated.

    Raises:
        NotFoundError: there is no graph.
        FormatError: a branch reads from what is no part of the graph.
    """
    chosen = options or GraphOptions()
    changed = relocate_store(uri, chosen.storage)
    open_store(uri, read_only=True, options=chosen.storage).close()
    return Relocated(str(uri), len(changed))
