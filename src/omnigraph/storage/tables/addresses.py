"""Where a version says that files lie: Lance writes absolute addresses into manifests of branches.

A manifest file ends with the place of its message, two numbers of its format and a magic word.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.protobuf import BYTES, decode, encode

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"
_METADATA, _BASE_PATHS = 5, 18
_KEY, _VALUE, _PATH = 1, 2, 4

Moved = Callable[[str], str]


def with_addresses(
    name: str, data: bytes, moved: Moved, metadata: tuple[str, str] | None = None
) -> bytes:
    """Return a manifest whose base paths lie elsewhere; the same bytes if it has none.

    Args:
        name: what messages call it.
        data: the whole file.
        moved: where a base path is now.
        metadata: an entry of the table's metadata that is replaced where it stands.

    Raises:
        DamagedError: it is no manifest.
    """
    if len(data) < _FOOTER.size:
        raise DamagedError(f"'{name}' is cut off")
    start, _, _, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    if magic != _MAGIC or start + _LENGTH.size > len(data) - _FOOTER.size:
        raise DamagedError(f"'{name}' is no manifest of a version")
    (length,) = _LENGTH.unpack(data[start : start + _LENGTH.size])
    first = start + _LENGTH.size
    message = data[first : first + length]
    if first + length + _FOOTER.size != len(data):
        raise DamagedError(f"'{name}' is damaged: its message does not fill it")
    fields = decode(message)
    changed = [
        (tag, wire, _changed(tag, value, moved, metadata)) if wire == BYTES else (tag, wire, value)
        for tag, wire, value in fields
    ]
    if changed == fields:
        return data
    made = encode(changed)
    return data[:start] + _LENGTH.pack(len(made)) + made + data[-_FOOTER.size :]


def _changed(tag: int, value: int | bytes, moved: Moved, entry: tuple[str, str] | None) -> bytes:
    assert isinstance(value, bytes)
    if tag == _BASE_PATHS:
        return encode(
            [
                (inner, wire, moved(one.decode()).encode())
                if inner == _PATH and isinstance(one, bytes)
                else (inner, wire, one)
                for inner, wire, one in decode(value)
            ]
        )
    if tag == _METADATA and entry is not None:
        parts = {inner: one for inner, _, one in decode(value)}
        if parts.get(_KEY) == entry[0].encode():
            return encode([(_KEY, BYTES, entry[0].encode()), (_VALUE, BYTES, entry[1].encode())])
    return value
