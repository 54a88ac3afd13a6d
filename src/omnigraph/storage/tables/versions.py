"""Which version of a dataset is the newest, without listing them all.

Versions are numbered without gaps, so the newest one is found by asking for the next until there
is none. Cleanup makes gaps: a version that a branch rests on may outlive its successors, and
whoever stands on it would take it for the newest. Therefore cleanup first notes from which
version on nothing was removed, and only above that note is "the next one is missing" a proof.
"""

from __future__ import annotations

import orjson

from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects

_LONGEST_NUMBER = 20
_UNKNOWN = 1 << 63


def newest_version(objects: Objects, location: str, branch: str | None) -> int | None:
    """Return the newest version, found by a few existence tests; None if only a listing can tell.

    On object stores a listing is one request, newest first, so nothing is saved there.
    """
    if not objects.root.is_local:
        return None
    version = _hinted(objects.find(layout.version_hint(location, branch)))
    while version is not None:
        # The note is asked for last: what was removed before these tests was noted before them.
        here, after, note = objects.marks(
            layout.version_file(location, branch, version),
            layout.version_file(location, branch, version + 1),
            layout.kept_from(location, branch),
        )
        if here is None:
            return None
        if after is None:
            is_proof = note is None or version >= kept_from(objects, location, branch)
            return version if is_proof else None
        version += 1
    return None


def hinted_version(objects: Objects, location: str, branch: str | None) -> int | None:
    """Return a version that is known to have been committed; None if nobody says so.

    Lance writes it after each commit, so what it names was there. Only asked for on disk.
    """
    if not objects.root.is_local:
        return None
    return _hinted(objects.find(layout.version_hint(location, branch)))


def kept_from(objects: Objects, location: str, branch: str | None) -> int:
    """Return the version from which on none has been removed; 0 if none ever was."""
    return read_note(objects, location, branch)[0]


def read_note(objects: Objects, location: str, branch: str | None) -> tuple[int, str]:
    """Return from which version on none has been removed, and the graph that says so."""
    data = objects.find(layout.kept_from(location, branch))
    if data is None:
        return 0, ""
    version, _, graph = data.partition(b" ")
    # A note that is torn says nothing: then no version is above it.
    if not version.isdigit() or len(version) > _LONGEST_NUMBER:
        return _UNKNOWN, ""
    return int(version), graph.decode(errors="replace").strip()


def encode_note(version: int, graph: str) -> bytes:
    """Return the note that a graph keeps all versions from one on."""
    return f"{version} {graph}".encode()


def note_kept_from(
    objects: Objects, location: str, branch: str | None, version: int, graph: str
) -> None:
    """Say, before removing versions, that none from `version` on will be missing."""
    objects.put(layout.kept_from(location, branch), encode_note(version, graph))


def _hinted(data: bytes | None) -> int | None:
    """Return the version a hint names; it is never synced, so it may be anything."""
    try:
        version = orjson.loads(data or b"")["version"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) and version > 0 else None
