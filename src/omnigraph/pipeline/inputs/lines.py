"""Lines of text files in whole blocks, from any byte range, compressed or not.

A line belongs to the range in which it starts, so ranges that cover a file read every line once.
A line longer than allowed is passed over and reported, never held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.model import UnreadableError

Compression = Literal["gzip", "zstd"]
BLOCK_BYTES = 16 << 20
_MAGIC: Mapping[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_NEWLINE = b"\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each ending in a newline."""

    data: bytes
    offset: int
    """Where the block starts in the (uncompressed) file."""
    too_long: bool = False
    """Whether this stands for one line that was too long to read."""


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes | None: ...
    def seek(self, to: int, /) -> int: ...
    def close(self) -> None: ...


def read_blocks(
    file: InputFile,
    compression: Compression | None,
    start: int = 0,
    end: int | None = None,
    *,
    max_line_bytes: int,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Yield the lines that start in `[start, end)`; a last line may lack its newline.

    Raises:
        UnreadableError: the file is gone, or its compressed data is broken.
    """
    try:
        stream = open_stream(file, compression)
        try:
            yield from _cut(stream, start, end, max_line_bytes, block_bytes)
        finally:
            stream.close()
    except (OSError, pa.ArrowInvalid) as error:
        raise UnreadableError(f"{file.name} cannot be read: {error}") from error


def compression_of(file: InputFile) -> Compression | None:
    """Return how a file is compressed, whatever it is called."""
    head = file.head(4)
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def open_stream(file: InputFile, compression: Compression | None) -> pa.NativeFile:
    """Open a file for reading from its beginning on."""
    plain = file.open()
    return plain if compression is None else pa.CompressedInputStream(plain, compression)


def _cut(
    stream: _Stream, start: int, end: int | None, max_line: int, block: int
) -> Iterator[Block]:
    at, rest = start, b""
    if start:  # the line that runs into the range belongs to the range before
        stream.seek(start - 1)
        at, rest = _next_line(stream, start - 1, b"", block, end)
    while end is None or at < end:
        fresh = stream.read(block) or b""
        data = rest + fresh
        if not data:
            return
        if not fresh and not data.endswith(_NEWLINE):
            data += _NEWLINE
        cut = _last_cut(data, None if end is None else end - at)
        if not cut:
            if len(data) > max_line:
                yield Block(_NEWLINE, at, too_long=True)
                at, rest = _next_line(stream, at, data, block, end)
            else:
                rest = data
            continue
        yield Block(_without_mark(data[:cut], at), at)
        at, rest = at + cut, data[cut:]


def _last_cut(data: bytes, wanted: int | None) -> int:
    """Return where the whole lines end that start within the first `wanted` bytes."""
    if wanted is not None and wanted <= len(data):
        found = data.find(_NEWLINE, wanted - 1) + 1
        if found:
            return found
    return data.rfind(_NEWLINE) + 1


def _next_line(
    stream: _Stream, at: int, data: bytes, block: int, end: int | None
) -> tuple[int, bytes]:
    """Pass over the line at `at`, of which `data` was read; return where the next one starts.

    What starts at `end` or later is not looked for: a long line costs each range its own bytes.
    """
    while not (found := data.find(_NEWLINE) + 1):
        at += len(data)
        if end is not None and at >= end:
            return at, b""
        data = stream.read(block) or b""
        if not data:
            return at, b""
    return at + found, data[found:]


def _without_mark(data: bytes, at: int) -> bytes:
    """Blank out a byte order mark; offsets stay as they are."""
    return data if at or not data.startswith(_BOM) else b"   " + data[len(_BOM) :]
