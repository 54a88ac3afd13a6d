"""The little of protobuf's wire format that Lance's own notes need: numbers, texts, messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

NUMBER, BYTES = 0, 2
"""The two ways a field is written that occur in what is read here."""
_FIXED = {1: 8, 5: 4}

Field = tuple[int, int, int | bytes]
"""One field: its tag, the way it is written, its value."""


def varint(number: int) -> list[int]:
    """Return a number as protobuf writes it."""
    out = []
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return [*out, number]


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    number = shift = 0
    while position < len(data):
        byte = data[position]
        number |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            break
        shift += 7
    return number, position


def decode(message: bytes) -> list[Field]:
    """Return the fields of a message, those nobody here knows among them."""
    return list(_fields(message))


def encode(fields: Sequence[Field]) -> bytes:
    """Return the message that has these fields."""
    out = bytearray()
    for tag, wire, value in fields:
        out += bytes(varint(tag << 3 | wire))
        if isinstance(value, int):
            out += bytes(varint(value))
        else:
            out += value if wire in _FIXED else bytes(varint(len(value))) + value
    return bytes(out)


def _fields(data: bytes) -> Iterator[Field]:
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        tag, wire = key >> 3, key & 7
        if wire == NUMBER:
            number, position = read_varint(data, position)
            yield tag, wire, number
            continue
        width = _FIXED.get(wire)
        if width is None:
            width, position = read_varint(data, position)
        yield tag, wire, data[position : position + width]
        position += width
