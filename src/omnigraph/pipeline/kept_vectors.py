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
from types import TracebackType
from typing import Self

import numpy as np

from omnigraph.engine.search.embedder import Embedder, EmbeddingError, Matrix
from omnigraph.pipeline.model import StagingError

_FILE = "vectors.sqlite"
# An index on disk: one in memory would grow with the number of texts. The load's folder dies with
# it, so nothing is journalled or waited for. Vectors lie in the order they came, beside the index.
_SETTINGS = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
CREATE TABLE kept (space TEXT, dim INTEGER, text BLOB, vector BLOB, UNIQUE (space, dim, text));
"""
_TEXTS_PER_QUESTION = 4_096


class KeepingEmbedder:
    """An embedder that asks another one once for each text; close it, or use it in a `with`."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self._inner = inner
        self._path = folder / _FILE
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
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        with self._disk_errors():
            found = self._find(list(distinct), dim)
        new = [key for key in distinct if key not in found]
        if new:
            made = self._made([distinct[key] for key in new], dim)
            with self._disk_errors():
                self._keep(new, made, dim)
            found.update(zip(new, made, strict=True))
        return np.stack([found[key] for key in keys]) if keys else np.empty((0, dim), np.float32)

    def _made(self, texts: list[str], dim: int) -> Matrix:
        made = np.ascontiguousarray(self._inner.embed_documents(texts, dim), np.float32)
        if made.shape != (len(texts), dim):  # kept, a wrong one would be wrong for other rows too
            raise EmbeddingError(
                f"{self.space} gave vectors of shape {made.shape}, not {(len(texts), dim)}"
            )
        return made

    def _find(self, keys: list[bytes], dim: int) -> dict[bytes, Matrix]:
        found: dict[bytes, Matrix] = {}
        for start in range(0, len(keys), _TEXTS_PER_QUESTION):
            part = keys[start : start + _TEXTS_PER_QUESTION]
            marks = ",".join("?" * len(part))
            rows = self._disk().execute(
                f"SELECT text, vector FROM kept WHERE space = ? AND dim = ? AND text IN ({marks})",  # noqa: S608 - only question marks are put in
                [self.space, dim, *part],
            )
            found.update((key, np.frombuffer(vector, np.float32)) for key, vector in rows)
        return found

    def _keep(self, keys: list[bytes], vectors: Matrix, dim: int) -> None:
        with self._disk() as disk:
            disk.executemany(
                "INSERT INTO kept VALUES (?, ?, ?, ?)",
                (
                    (self.space, dim, key, vector.tobytes())
                    for key, vector in zip(keys, vectors, strict=True)
                ),
            )

    def _disk(self) -> sqlite3.Connection:
        """Return the file, made when the first text comes: most loads have none."""
        if self._opened is None:
            self._opened = sqlite3.connect(self._path)
            self._opened.executescript(_SETTINGS)
        return self._opened

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StagingError(
                f"cannot keep vectors in {self._path}: {error}", hint="is the disk full?"
            ) from error

    def close(self) -> None:
        """Let go of the file; it goes with its folder."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
