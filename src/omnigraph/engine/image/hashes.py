"""Hashes of texts for lookups: a column at a time, the same in every process, hard to flood.

Ids come from users, so a hash must not let them choose what collides: words of four bytes are
weighed by secret numbers and added up (multilinear hashing), whose upper half makes any two texts
meet no more often than chance. The secret is drawn per index and kept with it.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from dataclasses import dataclass
from functools import cached_property
from operator import mul

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.image.pieces import spans

Hashes = npt.NDArray[np.uint64]

SEED_BYTES = 16
_WORD = 4
_LONGEST = 256
"""Bytes from which on a text is hashed by its digest, so that one long id slows no other."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class TextHash:
    """One hash function out of many; `seed` tells which."""

    seed: bytes

    @cached_property
    def _weights(self) -> npt.NDArray[np.uint64]:
        """One number for every word, behind one for the length."""
        count = 1 + _LONGEST // _WORD
        return np.frombuffer(hashlib.shake_256(self.seed).digest(8 * count), "<u8")

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(self._weights.tolist())

    def of(self, text: str) -> int:
        """Return the hash of one text."""
        data = text.encode("utf-8", "surrogatepass")
        size = len(data)
        if size > _LONGEST:
            data = self._shortened(data)
        words = struct.unpack(f"<{-(-len(data) // _WORD)}I", data + bytes(-len(data) % _WORD))
        total: int = sum(map(mul, self._numbers, (size, *words)))
        return total & _MASK

    def of_all(self, texts: pa.Array) -> Hashes:
        """Return the hash of every text of a column; that of a null says nothing."""
        found = np.empty(len(texts), np.uint64)
        for start, end in spans(len(texts)):
            found[start:end] = self._of_some(texts.slice(start, end - start))
        return found

    def _of_some(self, texts: pa.Array) -> Hashes:
        offsets, data = _bytes_of(texts)
        lengths = np.diff(offsets)
        weights = self._weights
        found: Hashes = lengths.astype(np.uint64) * weights[0]
        most = int(lengths.max(initial=0))
        if most and (lengths == most).all() and most <= _LONGEST:
            words = _words_of_equal(data[offsets[0] : offsets[-1]], len(texts), most)
            for number in range(words.shape[1]):
                found += words[:, number].astype(np.uint64) * weights[number + 1]
            return found
        short = np.flatnonzero(lengths <= _LONGEST)
        for number in range(-(-min(most, _LONGEST) // _WORD)):
            short = short[lengths[short] > number * _WORD]
            words = _words_at(
                data, offsets[short] + number * _WORD, lengths[short] - number * _WORD
            )
            found[short] += words.astype(np.uint64) * weights[number + 1]
        for row in np.flatnonzero(lengths > _LONGEST).tolist():
            found[row] = self.of(data[offsets[row] : offsets[row + 1]].tobytes().decode("utf-8"))
        return found

    def _shortened(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self.seed).digest()


def fresh_hash() -> TextHash:
    """Return a hash function nobody outside can know."""
    return TextHash(secrets.token_bytes(SEED_BYTES))


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where texts begin and end, and what they are made of."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, bounds, data = texts.buffers()
    if bounds is None:
        return np.zeros(len(texts) + 1, np.int64), np.empty(0, np.uint8)
    offsets = np.frombuffer(bounds, width)[texts.offset : texts.offset + len(texts) + 1]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return offsets.astype(np.int64), held


def _words_of_equal(data: npt.NDArray[np.uint8], rows: int, width: int) -> npt.NDArray[np.uint32]:
    """Return the words of texts that are all equally long, as most ids are."""
    padded = np.zeros((rows, -(-width // _WORD) * _WORD), np.uint8)
    padded[:, :width] = data.reshape(rows, width)
    return padded.view("<u4")


def _words_at(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], left: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """Return the words that begin at some bytes, without what is not `left` of their texts."""
    if len(data) < _WORD:
        data = np.concatenate([data, np.zeros(_WORD, np.uint8)])
    every: npt.NDArray[np.uint32] = np.ndarray(
        (len(data) - _WORD + 1,), "<u4", buffer=data, strides=(1,)
    )
    # The last few bytes are read with those before them, which are shifted out.
    at = np.minimum(starts, len(every) - 1)
    words = every[at] >> ((starts - at) * 8).astype(np.uint32)
    beyond = (_WORD - np.minimum(left, _WORD)) * 8
    return words & (np.uint32(0xFFFFFFFF) >> beyond.astype(np.uint32))
