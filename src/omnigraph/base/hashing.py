"""FNV-1a, the hash the on-disk layout and the schema ids are defined by."""

from __future__ import annotations

_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF


def fnv1a32(text: str) -> int:
    """Return the 32-bit FNV-1a hash of the UTF-8 bytes of `text`.

    >>> hex(fnv1a32(""))
    '0x811c9dc5'
    """
    value = 2166136261
    for byte in text.encode():
        value = ((value ^ byte) * 16777619) & _MASK_32
    return value


def fnv1a64(text: str) -> int:
    """Return the 64-bit FNV-1a hash of the UTF-8 bytes of `text`.

    >>> f"{fnv1a64('Person'):016x}"
    '40d76f1f51639ec0'
    """
    value = 0xCBF2_9CE4_8422_2325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100_0000_01B3) & _MASK_64
    return value


def fnv1a64_hex(text: str) -> str:
    """Return `fnv1a64` as 16 lower-case hex digits: the directory name of a type."""
    return f"{fnv1a64(text):016x}"
