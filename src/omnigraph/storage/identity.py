"""Which graph lies at the root: the one that was opened, or another that took its place.

Every graph has a uuid. It stands in the metadata of its manifest and in the note that cleanup
keeps beside it, which every probe of the head looks at anyway; so a place that now holds another
graph is found by a system call that is made in any case. A handle whose graph was replaced never
works again: what it knows of versions and files is true of another graph.
"""

from __future__ import annotations

from omnigraph.errors import ConflictError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Mark, Objects
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.versions import note_kept_from, read_note

GRAPH_UUID_KEY = "omnigraph:graph_uuid"

_NOTE = layout.kept_from(layout.MANIFEST, None)
_WITNESS = layout.CONTRACT_FILES[0]  # for graphs without a note, which only readers meet


class GraphReplacedError(ConflictError):
    """The place of an open graph holds another graph, or none."""


class Identity:
    """The identity of one open graph."""

    def __init__(self, objects: Objects, tables: Tables) -> None:
        self._objects = objects
        self._tables = tables
        self._uuid: str | None = None
        self._mark: object = None
        self._lost: str | None = None

    @property
    def uuid(self) -> str:
        """Return the uuid of the graph that was opened; empty for formats that had none."""
        return self._uuid or ""

    def learn(self, manifest: Handle) -> None:
        """Take the graph that a first manifest belongs to for the one that was opened."""
        if not self._uuid:
            self._mark = self._seen()
            self._uuid = manifest.metadata.get(GRAPH_UUID_KEY, "")

    def check(self) -> None:
        """Return if the root still holds the graph that was opened; a system call.

        Raises:
            GraphReplacedError: it holds another one, or none.
        """
        self.compare(*self._objects.marks(_NOTE))

    def compare(self, note: Mark | None) -> None:
        """Check with a mark of the note that was just looked at."""
        if self._lost is not None:
            raise self._error(self._lost)
        if self._uuid is None or (note is not None and note == self._mark):
            return
        seen = self._seen(note)
        if seen == self._mark:
            return
        found = self._stored()
        if found is None:
            self._lost = "there is no graph any more"
        elif self._uuid not in ("", found):
            self._lost = "there is another graph now"
        if self._lost is not None:
            raise self._error(self._lost)
        self._uuid, self._mark = found or "", seen

    def note(self) -> None:
        """Put the uuid where probes find it, in a graph from before it stood there.

        The caller holds the refs lock, under which cleanup writes the note too.
        """
        version, stated = read_note(self._objects, layout.MANIFEST, None)
        if self._uuid and stated != self._uuid:
            note_kept_from(self._objects, layout.MANIFEST, None, version, self._uuid)

    @property
    def is_noted(self) -> bool:
        """Whether the note says which graph this is."""
        return read_note(self._objects, layout.MANIFEST, None)[1] == self.uuid

    def lose(self, what: str) -> GraphReplacedError:
        """Return the error that from now on every use of this graph ends in."""
        self._lost = what
        return self._error(what)

    def _seen(self, note: Mark | None = None) -> object:
        """Return what changes when another graph comes: of the note, without one of a file."""
        if note is None:
            [note] = self._objects.marks(_NOTE)
        return note if note is not None else ("unnoted", *self._objects.marks(_WITNESS))

    def _stored(self) -> str | None:
        """Return the uuid that is stored now, past every cache; None if there is no graph."""
        _, stated = read_note(self._objects, layout.MANIFEST, None)
        if stated:
            return stated
        try:
            manifest = self._tables.open_cold(layout.MANIFEST, None, None)
        except SnapshotExpiredError:
            return None
        return manifest.metadata.get(GRAPH_UUID_KEY, "")

    def _error(self, what: str) -> GraphReplacedError:
        return GraphReplacedError(
            f"the graph that was opened at {self._objects.root} was moved or removed: {what}",
            hint="open the graph again",
        )
