"""Copies of whole graphs, and graphs that were copied or moved by other means."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

from omnigraph.api.progress import Progress
from omnigraph.api.upkeep import Cloned, Relocated
from omnigraph.base.uri import parse_uri
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.search.spaces import record_name, record_text, spaces_of
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.graph.graph import connect, make
from omnigraph.graph.options import GraphOptions
from omnigraph.storage.files.layout import MAIN
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import copy_store, open_store, relocate_store


def clone(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    branch: str | None = None,
    history: bool | None = None,
    options: GraphOptions | None = None,
    progress: Progress | None = None,
) -> Cloned:
    """Copy a graph with every branch, commit and tag to an empty place, and check the copy.

    Either place may be on a disk or in an object store. Writers need not stop: the copy is one
    state of the graph in which every write is whole. It has the identity of the original, so
    cursors of its change feed go on in the copy.

    Args:
        source: the graph.
        target: an empty place.
        branch: only what this branch holds now, without its past, as main of a new graph.
        history: False is the same for main; True cannot be had of a branch alone.
        options: settings of both graphs.
        progress: told of every object or row that is done.

    Raises:
        BadRequestError: the history of one branch is asked for, or a place inside the graph.
        NotFoundError: there is no graph.
        AlreadyExistsError: the place is not empty.
        ConflictError: its files vanish while no writer is at work.
        StorageError: the copy is not sound.
    """
    chosen = options or GraphOptions()
    if branch is not None and history:
        raise BadRequestError(
            "the history of one branch alone cannot be copied",
            hint="copy the whole graph, or the branch without its history",
        )
    if parse_uri(source).has_inside(parse_uri(target)):
        raise BadRequestError(
            f"{target} is inside the graph itself", hint=f"take a place beside {source}"
        )
    if branch is not None or history is False:
        return _clone_state(source, target, branch or MAIN, chosen, progress)
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


def _clone_state(
    source: str | PathLike[str],
    target: str | PathLike[str],
    branch: str,
    options: GraphOptions,
    progress: Progress | None,
) -> Cloned:
    """Make a graph of the rows a branch has now, with their ids, by one load.

    Vectors are copied as they are, and which model made them goes with them.
    """
    as_stored = replace(options, embedder=None)
    with (
        connect(source, options=as_stored) as graph,
        tempfile.TemporaryDirectory(prefix="omnigraph-clone-") as place,
    ):
        snapshot = graph.store.snapshot(branch)
        state = graph.at(snapshot.commit_id)
        rows = Path(place) / "rows"
        state.export(rows, format="parquet")
        fills = partial(_fills, snapshot, state.catalog)
        with make(target, state.schema, as_stored, fills) as made:
            if any(rows.iterdir()):
                known = f"{branch} at {snapshot.commit_id}"
                made.load(rows, "append", message=f"cloned from {known}", progress=progress)
            objects = list(made.store.kernel.objects.list(""))
            commit = made.store.snapshot(MAIN).commit_id
    size = sum(one.size for one in objects)
    return Cloned(str(source), str(target), len(objects), size, commit)


def _fills(snapshot: Snapshot, known: Catalog, catalog: Catalog) -> dict[str, bytes]:
    """Return which models made the vectors of a state, as the first commit of a graph states it."""
    return {
        record_name(node, prop, 0, space): record_text(node, prop, space)
        for name, node in catalog.nodes.items()
        for prop in node.embeds
        for space in spaces_of(snapshot, known.nodes[name], prop)
    }


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
