"""Vectors that a load has made already, kept on disk for as long as it runs.

Making a vector costs time or money, so a text that comes again, in another row or because a load
checks and writes once more, takes the one that was made. Knows texts and vectors, not rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from omnigraph.base.closing import Closing
from omnigraph.engine.search.embedder import Embedder, EmbeddingError, Matrix
from omnigraph.pipeline.model import StagingError

# An index on disk, as one in memory would grow with the number of texts; it tells where in a file
# beside it a vector starts. Both die with the load, so nothing is journalled or waited for.
_VECTORS, _INDEX = "vectors.f32", "vectors.sqlite"
_SETTINGS = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
CREATE TABLE kept (key BLOB PRIMARY KEY, start INTEGER NOT NULL) WITHOUT ROWID;
"""
_KEYS_PER_QUESTION = 4_096


class KeepingEmbedder(Closing):
    """An embedder that asks another one once for each text; close it, or use it in a `with`."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self._inner = inner
        self._vectors = folder / _VECTORS
        self._index = folder / _INDEX
        self._opened: sqlite3.Connection | None = None

    @property
    def space(self) -> str:
        """Return the space of the one that is asked."""
        return self._inner.space

    def embed_queries(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per question; they are not kept, as nobody loads questions."""
        return self._inner.embed_queries(texts, dim)

    def embed_documents(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per text, made now or before.

        Raises:
            EmbeddingError: the texts cannot be embedded at this width.
            StagingError: the disk does not take the vectors.
        """
        keys = self._keys(texts, dim)
        distinct = dict(zip(keys, texts, strict=True))
        if not distinct:
            return np.empty((0, dim), np.float32)
        at = {key: number for number, key in enumerate(distinct)}
        vectors = np.empty((len(distinct), dim), np.float32)
        with self._disk_errors():
            starts = self._starts(list(distinct))
            if starts:
                vectors[[at[key] for key in starts]] = self._read(list(starts.values()), dim)
        new = [key for key in distinct if key not in starts]
        if new:
            made = self._made([distinct[key] for key in new], dim)
            with self._disk_errors():
                self._keep(new, made)
            vectors[[at[key] for key in new]] = made
        return vectors if len(keys) == len(distinct) else vectors[[at[key] for key in keys]]

    def _keys(self, texts: Sequence[str], dim: int) -> list[bytes]:
        """Return what tells vectors apart: space, width and text."""
        common = hashlib.sha256(f"{self.space}\n{dim}\n".encode())
        keys = []
        for text in texts:
            one = common.copy()
            one.update(text.encode())
            keys.append(one.digest())
        return keys

    def _made(self, texts: list[str], dim: int) -> Matrix:
        made = np.ascontiguousarray(self._inner.embed_documents(texts, dim), np.float32)
        if made.shape != (len(texts), dim):  # kept, a wrong one would be wrong for other rows too
            raise EmbeddingError(
                f"{self.space} gave vectors of shape {made.shape}, not {(len(texts), dim)}"
            )
        return made

    def _starts(self, keys: list[bytes]) -> dict[bytes, int]:
        """Return where the vectors start that were made before, counted in numbers."""
        found: dict[bytes, int] = {}
        for first in range(0, len(keys), _KEYS_PER_QUESTION):
            part = keys[first : first + _KEYS_PER_QUESTION]
            marks = ",".join("?" * len(part))
            found.update(
                self._disk().execute(f"SELECT key, start FROM kept WHERE key IN ({marks})", part)  # noqa: S608 - only question marks are put in
            )
        return found

    def _read(self, starts: list[int], dim: int) -> Matrix:
        kept = np.memmap(self._vectors, np.float32, mode="r")
        return np.asarray(kept[np.asarray(starts)[:, None] + np.arange(dim)])

    def _keep(self, keys: list[bytes], vectors: Matrix) -> None:
        with self._vectors.open("ab") as out:
            start, dim = out.tell() // vectors.itemsize, vectors.shape[1]
            out.write(vectors.tobytes())
        # Behind the vectors, so that the index never tells of any that are not there.
        with self._disk() as disk:
            disk.executemany(
                "INSERT INTO kept VALUES (?, ?)",
                [(key, start + number * dim) for number, key in enumerate(keys)],
            )

    def _disk(self) -> sqlite3.Connection:
        """Return the index, made when the first text comes: most loads have none."""
        if self._opened is None:
            self._opened = sqlite3.connect(self._index)
            self._opened.executescript(_SETTINGS)
        return self._opened

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StagingError(
                f"cannot keep vectors in {self._vectors.parent}: {error}", hint="is the disk full?"
            ) from error

    def close(self) -> None:
        """Let go of the index; the files go with their folder."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
