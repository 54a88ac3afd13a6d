"""Source files on disk: read with positioned errors, replaced atomically."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from omnigraph.base.uri import is_folder
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.errors import NotFoundError, StorageError

STDIN = Path("-")
SUFFIXES = (".pg", ".gq")
_MAX_FILE_BYTES = 64 << 20


def read_source(path: Path, what: str) -> Source:
    """Return the text of a file (`-` is stdin); `what` names it in messages."""
    if path == STDIN:
        return decode(sys.stdin.buffer.read(_MAX_FILE_BYTES), "<stdin>")
    try:
        with path.open("rb") as file:
            return decode(file.read(_MAX_FILE_BYTES), str(path))
    except FileNotFoundError:
        raise NotFoundError(f"{what} file '{path}' not found (No such file)") from None
    except OSError as error:
        raise StorageError(f"cannot read {what} file '{path}': {error.strerror}") from error


def replace_text(path: Path, text: str) -> None:
    """Replace a file's content, keeping its mode; readers see the old or the new text, whole."""
    try:
        mode = path.stat().st_mode
        with tempfile.NamedTemporaryFile(
            "w",
            dir=path.parent,
            prefix=f".{path.name}.",
            delete=False,
            encoding="utf-8",
            newline="",
        ) as draft:
            draft.write(text)
        Path(draft.name).chmod(mode)
        os.replace(draft.name, path)  # noqa: PTH105 - Path.replace is the same call
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {error.strerror}") from error


def find_sources(paths: list[Path]) -> list[Path]:
    """Return the given files, and every schema and query file below the given folders, sorted."""
    found: list[Path] = []
    for path in paths:
        if path != STDIN and is_folder(path):
            found += sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        else:
            found.append(path)
    return list(dict.fromkeys(found))
