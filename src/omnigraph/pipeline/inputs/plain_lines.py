"""Lines of one local file, one after another: for jobs that are not split into tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from omnigraph.pipeline.model import UnreadableError

_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"


def compression_of(path: Path) -> str | None:
    """Return how a file is compressed, by its name."""
    return {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())


def is_device(path: Path) -> bool:
    """Whether writing to a path leaves no file there: a pipe, a terminal, `/dev/null`."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:  # a name too long: told by whoever opens it
        return False


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield every line that is not blank, trimmed, with its number.

    Raises:
        UnreadableError: the file broke while it was being read.
    """
    number = 0
    try:
        with pa.input_stream(str(path), compression=compression_of(path)) as stream:
            rest = b""
            while block := stream.read(_BLOCK_BYTES):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    number += 1
                    yield from _line(number, line)
            yield from _line(number + 1, rest)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> UnreadableError:
    """Return what to say of a file that cannot be read."""
    return UnreadableError(f"cannot read '{path}': {str(error).splitlines()[0]}")


def _line(number: int, line: bytes) -> Iterator[tuple[int, bytes]]:
    text = (line.removeprefix(_BOM) if number == 1 else line).strip()
    if text:
        yield number, text
