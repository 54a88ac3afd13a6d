"""Which version of a dataset is the newest, without listing them all.

Versions are numbered without gaps, so the newest one is found by asking for the next until there
is none. Cleanup makes gaps: a version that a branch rests on may outlive its successors, and
whoever stands on it would take it for the newest. Therefore cleanup first notes from which
version on nothing was removed, and only above that note is "the next one is missing" a proof.
"""

from __future__ import annotations

import orjson

from omnigraph.storage import layout
from omnigraph.storage.objects import Objects


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


def kept_from(objects: Objects, location: str, branch: str | None) -> int:
    """Return the version from which on none has been removed; 0 if none ever was."""
    data = objects.find(layout.kept_from(location, branch))
    if data is None:
        return 0
    # A note that is torn says nothing: then no version is above it.
    return int(data) if data.isdigit() else 1 << 63


def note_kept_from(objects: Objects, location: str, branch: str | None, version: int) -> None:
    """Say, before removing versions, that none from `version` on will be missing."""
    objects.put(layout.kept_from(location, branch), str(version).encode())


def _hinted(data: bytes | None) -> int | None:
    """Return the version a hint names; it is never synced, so it may be anything."""
    try:
        version = orjson.loads(data or b"")["version"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) and version > 0 else None
