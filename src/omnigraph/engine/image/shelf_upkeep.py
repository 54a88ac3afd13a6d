"""What lies in a folder of derived files: listing, checking, holding its size, taking away.

Knows folders and files alone; which of them a graph would use, `shelf` knows.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from omnigraph.engine.image import mapped
from omnigraph.engine.image.mapped import FAULTS, entries_of

ABOUT = "about.json"
_GONE = ".gone-"
_AT_WORK_S = 3_600.0
"""A writer that is still at work began its file not longer ago than this."""

_ROUNDS = 8
"""How often others may rename something below a folder while it is removed."""


class About(TypedDict):
    """What a folder of bases is of."""

    uri: str
    location: str
    branch: str | None


@dataclass(frozen=True, slots=True)
class KeptBase:
    """One base on disk, as people are told of it."""

    place: Path
    graph: str
    about: About
    version: int
    rows: int
    bytes: int
    used_s: float
    """When it was used last, in seconds since 1970."""


def kept_in(root: Path) -> list[KeptBase]:
    """Return every base of every graph, by graph, table and version."""
    found = []
    for graph in folders_in(root):
        for lineage in folders_in(graph):
            about = about_of(lineage)
            if about is None:
                continue
            for version, place in bases_in(lineage):
                size, used = _weighed(place)
                rows = int(place.name.split("-")[1])
                found.append(KeptBase(place, graph.name, about, version, rows, size, used))
    return sorted(
        found, key=lambda one: (one.about["uri"], one.about["location"], one.graph, one.version)
    )


def faults_in(base: KeptBase) -> list[str]:
    """Return what is wrong with the files of a base, read from end to end; they are removed."""
    told = []
    for folder in (base.place, *folders_in(base.place)):
        for name in mapped.names_in(folder):
            fault = mapped.faults_of(folder, name)
            if fault is not None:
                told.append(f"{name}: {fault}")
                FAULTS.add(1, "unusable")
                mapped.remove(folder, name)
    return told


def sweep(root: Path) -> None:
    """Take away what processes that died left behind."""
    for graph in folders_in(root):
        for lineage in folders_in(graph):
            for _, place in bases_in(lineage):
                for folder in (place, *folders_in(place)):
                    mapped.sweep(folder, _AT_WORK_S)
        for folder in (graph, *folders_in(graph)):
            for left in entries_of(folder):
                if left.name.startswith(_GONE):
                    remove_tree(folder / left.name)


def shrink(root: Path, most: int) -> None:
    """Take away what was not used for longest until no more than so many bytes are left."""
    kept = sorted(kept_in(root), key=lambda one: one.used_s)
    total = sum(one.bytes for one in kept)
    for one in kept:
        if total <= most:
            return
        remove_tree(one.place)
        total -= one.bytes


def purge(root: Path, uri: str | None) -> int:
    """Take away everything, or everything of the graphs at one address; return the bytes."""
    freed = 0
    for one in kept_in(root):
        if uri is None or one.about["uri"] == uri:
            freed += one.bytes
            remove_tree(one.place)
    for graph in folders_in(root):
        for lineage in folders_in(graph):
            about = about_of(lineage)
            if uri is None or about is None or about["uri"] == uri:
                remove_tree(lineage)
        if not folders_in(graph):
            remove_tree(graph)
    return freed


def about_of(lineage: Path) -> About | None:
    """Return what a folder of bases is of; None if it does not say so."""
    try:
        found = json.loads((lineage / ABOUT).read_bytes())
        return About(uri=found["uri"], location=found["location"], branch=found["branch"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def bases_in(lineage: Path) -> list[tuple[int, Path]]:
    """Return the bases of a lineage with their versions, the newest first."""
    found = []
    for place in folders_in(lineage):
        parts = place.name.split("-", 2)
        if len(parts) == 3 and parts[0].isdecimal() and parts[1].isdecimal():
            found.append((int(parts[0]), place))
    return sorted(found, reverse=True)


def folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, if it is there, without those that are being removed."""
    return sorted(
        Path(one.path)
        for one in entries_of(folder)
        if not one.name.startswith(".") and one.is_dir(follow_symlinks=False)
    )


def put_text(path: Path, text: str) -> None:
    """Write a small file at once or not at all."""
    draft = path.with_name(f".{secrets.token_hex(8)}")
    draft.write_text(text)
    draft.rename(path)


def remove_tree(folder: Path) -> None:
    """Unlink everything below a folder, which nobody finds from the first moment on.

    Files that are mapped stay whole for who has mapped them. Other processes may be at the same
    folder, one above or one below it: what they were faster with is gone, too.

    Raises:
        OSError: something cannot be unlinked.
    """
    gone = folder.with_name(f"{_GONE}{secrets.token_hex(8)}")
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return
    for left in reversed(range(_ROUNDS)):
        for path, folders, files in os.walk(gone, topdown=False):
            for name in files:
                Path(path, name).unlink(missing_ok=True)
            for name in folders:
                _remove_empty(Path(path, name), again=True)
        if _remove_empty(gone, again=left > 0):
            return


def _remove_empty(folder: Path, *, again: bool) -> bool:
    """Remove a folder; tell whether it is gone, or not empty and to be looked at again."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if not again or error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _weighed(place: Path) -> tuple[int, float]:
    """Return the bytes below a folder, and when it was used last."""
    size = 0
    for file in _files_below(place):
        try:
            size += file.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    try:
        return size, place.stat().st_mtime
    except FileNotFoundError:
        return size, 0.0


def _files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    for one in entries_of(folder):
        if one.is_dir(follow_symlinks=False):
            yield from _files_below(Path(one.path))
        else:
            yield one
