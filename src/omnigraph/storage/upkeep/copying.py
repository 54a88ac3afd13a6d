"""A copy of a whole graph elsewhere: every branch, commit and tag, on disk or in an object store.

Almost all objects of a graph never change. So they are copied, and listed again: if nothing came,
went or changed since the listing before, what was copied is one state of the graph, in which every
write is whole. A graph that is written to meanwhile costs another round, for what is new; one that
is never quiet lets its writers wait for the last of it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from omnigraph.api.progress import Progress
from omnigraph.base.uri import GraphUri
from omnigraph.errors import AlreadyExistsError, ConflictError, NotFoundError, StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.backends import ObjectInfo
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.upkeep.relocation import at_home, is_version

_ROUNDS = 3
"""So often a pause of the writers is hoped for, and so often what vanishes is looked for again."""
_AT_ONCE = 8
_PIECE = 8 << 20
_NOT_COPIED = (f"{layout.LOCKS_DIR}/", f"{layout.PINS_DIR}/")
"""Who writes to, or reads from, the original is nothing to the copy."""
_CATALOG = f"{layout.MANIFEST}/"


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy consists of."""

    objects: int
    size: int


def copy_graph(
    source: Objects,
    target: Objects,
    home: GraphUri,
    progress: Progress,
    writers_wait: Callable[[], AbstractContextManager[object]],
) -> Copied:
    """Copy a graph to an empty place, where it is a graph of its own.

    The catalog comes last, so a copy that was broken off is no graph. `writers_wait` holds every
    lock of the graph.

    Raises:
        NotFoundError: there is no graph.
        AlreadyExistsError: the place is not empty.
        ConflictError: files vanish while no writer is at work.
    """
    if there := target.list(""):
        raise AlreadyExistsError(
            f"{home} is not empty: it holds {len(there)} objects", hint="take another place"
        )
    copied: dict[str, str] = {}
    rounds = partial(_rounds, source, target, home, copied, progress)
    done = rounds(is_quiet=False)
    if done is None:
        with writers_wait():
            done = rounds(is_quiet=True)
    if done is None:
        raise ConflictError(
            f"files of {source.root} vanish while its writers wait",
            hint="stop what removes them, and copy it again",
        )
    return done


def _rounds(
    source: Objects,
    target: Objects,
    home: GraphUri,
    copied: dict[str, str],
    progress: Progress,
    *,
    is_quiet: bool,
) -> Copied | None:
    """Copy until what was copied is one state; None if that does not come about.

    If nobody commits anyhow, every listing is one: files that writers prepare count for nothing.
    """
    for _ in range(_ROUNDS):
        found = _listed(source)
        if not any(name.startswith(f"{_CATALOG}{layout.VERSIONS_DIR}/") for name in found):
            raise NotFoundError(f"there is no graph at {source.root}")
        tags = {name: info.tag for name, info in found.items()}
        if copied != tags:
            gone = copied.keys() - tags.keys()
            target.delete(*gone)
            for name in gone:
                del copied[name]
            _copy_round(source, target, home, found, copied, progress)
            if not (is_quiet and copied == tags):
                continue
        target.sync_named(found)
        return Copied(len(found), sum(info.size for info in found.values()))
    return None


def _listed(source: Objects) -> dict[str, ObjectInfo]:
    return {info.name: info for info in source.list("") if not info.name.startswith(_NOT_COPIED)}


def _copy_round(
    source: Objects,
    target: Objects,
    home: GraphUri,
    found: dict[str, ObjectInfo],
    copied: dict[str, str],
    progress: Progress,
) -> None:
    """Copy what is new or changed; what vanishes meanwhile is no part of the next listing."""
    due = [info for name, info in found.items() if copied.get(name) != info.tag]
    progress.stage("copy", len(due))
    with ThreadPoolExecutor(_AT_ONCE, "omnigraph-copy") as pool:
        for last in (False, True):
            part = [info for info in due if info.name.startswith(_CATALOG) == last]
            tasks = [(info, pool.submit(_copy, source, target, home, info)) for info in part]
            for info, task in tasks:
                if task.result():
                    copied[info.name] = info.tag
                progress.done(1, 0, info.size)


def _copy(source: Objects, target: Objects, home: GraphUri, info: ObjectInfo) -> bool:
    """Copy one object; False if it is gone."""
    if is_version(info.name):
        data = source.find(info.name)
        if data is None:
            return False
        target.put(info.name, at_home(info.name, data, home))
        return True
    pieces = source.pieces(info.name, _PIECE)
    if pieces is None:
        return False
    size = target.put_pieces(info.name, pieces)
    if size < info.size:
        raise StorageError(f"'{info.name}' has {info.size} bytes, but only {size} were read")
    return True
