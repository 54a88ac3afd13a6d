"""The one text analyzer: how text becomes terms, for stored rows and for queries alike.

Split into runs of letters and digits, lower-case, fold to ASCII where a letter has a plain form,
drop tokens longer than 40 characters and English stop words, stem (Snowball English). Positions
are not kept. Changing anything here changes every text score, so it is pinned by tests.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import Stemmer

from omnigraph.engine.image.arrays import Ints

MAX_TOKEN_CHARS = 40

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with".split()
)

_TOKEN = re.compile(r"[^\W_]+")
# Columns are first cut at what separates tokens in ASCII; the distinct pieces are then cut by
# `_TOKEN`. Two ways of cutting never have to agree on what a letter is beyond ASCII.
_SPACED = np.array(
    [byte if byte >= 0x80 or chr(byte).isalnum() else 0x20 for byte in range(256)], np.uint8
)
_stemmer = Stemmer.Stemmer("english")


def analyze(text: str) -> tuple[str, ...]:
    """Return the terms of one text in order, repeated as often as they occur.

    >>> analyze("The Networks, and running Café layers!")
    ('network', 'run', 'cafe', 'layer')
    """
    terms = (normalise(token) for token in _TOKEN.findall(text))
    return tuple(term for term in terms if term is not None)


@lru_cache(maxsize=65_536)
def normalise(token: str) -> str | None:
    """Return the term of one raw token, or None when it is dropped."""
    if len(token) > MAX_TOKEN_CHARS:
        return None
    folded = _fold(token.lower())
    if not folded or folded in STOP_WORDS:
        return None
    return str(_stemmer.stemWord(folded))


def analyze_column(texts: pa.Array) -> tuple[Ints, Ints, list[str]]:
    """Return `(rows, terms, vocabulary)`: one entry per kept token of a text column.

    `rows` are positions into the column, ascending; `terms` index into the vocabulary, whose
    order depends only on the column's content.
    """
    pieces = pc.split_pattern(_spaced(texts), " ")
    rows = pc.list_parent_indices(pieces).to_numpy()
    encoded = pc.dictionary_encode(pieces.flatten())
    per_piece, codes, vocabulary = _vocabulary(encoded.dictionary.to_pylist())
    which = encoded.indices.to_numpy()
    counts = per_piece[which]
    starts = (np.cumsum(per_piece) - per_piece)[which]
    if not len(per_piece) or per_piece.max() <= 1:
        kept = counts > 0
        return rows[kept], codes[starts[kept]], vocabulary
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(rows, counts), codes[np.repeat(starts, counts) + within], vocabulary


def _spaced(texts: pa.Array) -> pa.Array:
    """Return the texts with a space for every ASCII separator; far cheaper than a regex."""
    if not len(texts):
        return texts
    validity, offsets, data = texts.buffers()
    if data is None:
        return texts
    spaced = _SPACED[np.frombuffer(data, np.uint8)]
    buffers = [validity, offsets, pa.py_buffer(spaced)]
    return pa.Array.from_buffers(texts.type, len(texts), buffers, texts.null_count, texts.offset)


def _vocabulary(pieces: Iterable[str]) -> tuple[Ints, Ints, list[str]]:
    """Return how many terms each distinct piece has, their codes in a row, and the terms."""
    known: dict[str, int] = {}
    counts: list[int] = []
    codes: list[int] = []
    for piece in pieces:
        terms = analyze(piece)
        counts.append(len(terms))
        codes += [known.setdefault(term, len(known)) for term in terms]
    return np.asarray(counts, np.int64), np.asarray(codes, np.int64), list(known)


def _fold(token: str) -> str:
    if token.isascii():
        return token
    decomposed = unicodedata.normalize("NFKD", token)
    return "".join(char for char in decomposed if not unicodedata.combining(char))
