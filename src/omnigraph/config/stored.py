"""Where stored queries are: files and folders, read again when they changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError, NotFoundError

SUFFIX = ".gq"
Marks = tuple[tuple[str, int, int, int], ...]
"""What tells the files of one moment from those of another: name, file, size and time of each."""


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The places of stored queries, and which of them agents may write with."""

    places: tuple[Path, ...] = ()
    """`.gq` files, and folders all of whose `.gq` files are meant."""
    exposed: tuple[str, ...] = ()
    """Writes that are tools of agents, too."""

    def files(self) -> Iterator[Path]:
        """Yield every file there is now, in a fixed order.

        Raises:
            NotFoundError: a place is not there.
        """
        for place in self.places:
            if place.is_dir():
                yield from sorted(one for one in place.glob(f"*{SUFFIX}") if one.is_file())
            elif place.is_file():
                yield place
            else:
                raise NotFoundError(
                    f"stored queries '{place}' not found", hint="`queries.files` names them"
                )

    def marks(self) -> Marks:
        """Return what changes with the files; a look at each, and none into it.

        Raises:
            NotFoundError: a place is not there.
            BadRequestError: a file cannot be looked at.
        """
        found = []
        for path in self.files():
            try:
                stat = path.stat()
            except OSError as error:
                why = error.strerror or error
                raise BadRequestError(f"file '{path}' cannot be read: {why}") from None
            found.append((str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return tuple(found)

    def sources(self) -> list[Source]:
        """Return the text of every file.

        Raises:
            NotFoundError: a place is not there.
            BadRequestError: a file cannot be read.
        """
        from omnigraph.config.texts import read_text  # who has no stored queries needs none of it

        return [read_text(path) for path in self.files()]
