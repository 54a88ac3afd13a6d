"""Term postings of one text column: exact BM25 over live rows, whatever indexes exist.

Statistics (number of texts, document frequency, average length) count live rows of the snapshot
only, so a score is a function of the data and never of files, indexes or deleted rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.engine.image.analyzer import analyze_column
from omnigraph.engine.image.arrays import Floats, Ints, Mask

K1, B = 1.2, 0.75


@dataclass(frozen=True)
class Postings:
    """Inverted lists in one set of arrays; `docs` of a term are ascending row positions."""

    vocabulary: dict[str, int]
    offsets: Ints
    docs: Ints
    counts: Ints
    lengths: Ints
    has_text: Mask

    @property
    def nbytes(self) -> int:
        """Memory held, the vocabulary's Python strings included (estimated at 80 bytes each)."""
        arrays = (self.offsets, self.docs, self.counts, self.lengths, self.has_text)
        return sum(array.nbytes for array in arrays) + 80 * len(self.vocabulary)

    def sizes(self, live: Mask | None) -> tuple[int, float]:
        """Return how many live rows have a text, and how many terms one has on average."""
        if live is None:
            return self._all_sizes
        return _sizes(self.lengths, self.has_text & live)

    @cached_property
    def _all_sizes(self) -> tuple[int, float]:
        return _sizes(self.lengths, self.has_text)

    def of(self, term: int) -> slice:
        """Return the slice of `docs` and `counts` that belongs to a term."""
        return slice(int(self.offsets[term]), int(self.offsets[term + 1]))


def _sizes(lengths: Ints, texts: Mask) -> tuple[int, float]:
    total = int(np.count_nonzero(texts))
    return total, (float(lengths[texts].sum()) / total or 1.0) if total else 1.0


def build_postings(texts: pa.Array) -> Postings:
    """Return the postings of a text column; nulls have no terms and are not counted as texts."""
    rows, terms, vocabulary = analyze_column(texts)
    size = len(texts)
    # One sortable number per (term, row): sorting it groups equal pairs and orders the lists.
    pairs, counts = np.unique(terms.astype(np.int64) * max(size, 1) + rows, return_counts=True)
    by_term = pairs // max(size, 1)
    offsets = np.searchsorted(by_term, np.arange(len(vocabulary) + 1))
    return Postings(
        vocabulary={term: code for code, term in enumerate(vocabulary)},
        offsets=offsets,
        docs=(pairs - by_term * max(size, 1)).astype(np.int32),
        counts=counts.astype(np.int32),
        lengths=np.bincount(rows, minlength=size).astype(np.int32),
        has_text=texts.is_valid().to_numpy(zero_copy_only=False),
    )


@dataclass(frozen=True, slots=True)
class Bm25:
    """Scores of the rows that contain at least one query term, by ascending position."""

    rows: Ints
    scores: Floats


def bm25(postings: Postings, terms: tuple[str, ...], live: Mask | None = None) -> Bm25:
    """Return the BM25 score of every live row that matches; `live` None means all rows live.

    A term repeated in the query counts as often as it is repeated.
    """
    total, average = postings.sizes(live)
    rows_of: list[Ints] = []
    parts: list[Floats] = []
    if total:
        for term in terms:
            code = postings.vocabulary.get(term)
            if code is None:
                continue
            span = postings.of(code)
            docs, counts = postings.docs[span], postings.counts[span].astype(np.float64)
            if live is not None:
                kept = live[docs]
                docs, counts = docs[kept], counts[kept]
            if not len(docs):
                continue
            idf = math.log(1.0 + (total - len(docs) + 0.5) / (len(docs) + 0.5))
            norm = K1 * (1.0 - B + B * postings.lengths[docs] / average)
            rows_of.append(docs)
            parts.append(idf * counts * (K1 + 1.0) / (counts + norm))
    if not rows_of:
        return Bm25(np.empty(0, np.int32), np.empty(0, np.float64))
    if len(rows_of) == 1:
        return Bm25(rows_of[0], parts[0])
    # Terms are added in query order, so equal texts get bit-equal scores.
    scores = np.zeros(len(postings.lengths), np.float64)
    hit = np.zeros(len(postings.lengths), dtype=bool)
    for docs, part in zip(rows_of, parts, strict=True):
        scores[docs] += part
        hit[docs] = True
    rows = np.flatnonzero(hit)
    return Bm25(rows, scores[rows])


def matching_any(postings: Postings, terms: tuple[str, ...]) -> Mask:
    """Return a mask over all rows: those that contain at least one of the terms."""
    mask = np.zeros(len(postings.lengths), dtype=bool)
    for term in terms:
        code = postings.vocabulary.get(term)
        if code is not None:
            mask[postings.docs[postings.of(code)]] = True
    return mask


def similar_terms(postings: Postings, term: str, max_edits: int) -> tuple[str, ...]:
    """Return the vocabulary terms within `max_edits` insertions, deletions or substitutions."""
    if max_edits <= 0:
        return (term,) if term in postings.vocabulary else ()
    words = [word for word in postings.vocabulary if abs(len(word) - len(term)) <= max_edits]
    if not words:
        return ()
    distances = _levenshtein(term, words)
    return tuple(word for word, near in zip(words, distances <= max_edits, strict=True) if near)


def _levenshtein(term: str, words: list[str]) -> Ints:
    """Return the edit distance from `term` to each word, all words advanced together."""
    width = max(len(word) for word in words)
    letters = np.zeros((len(words), width), dtype=np.uint32)
    lengths = np.asarray([len(word) for word in words])
    for at, word in enumerate(words):
        letters[at, : len(word)] = np.frombuffer(word.encode("utf-32-le"), dtype=np.uint32)
    row = np.tile(np.arange(width + 1), (len(words), 1))
    for done, char in enumerate(term, start=1):
        before, row = row, np.empty_like(row)
        row[:, 0] = done
        replaced = before[:, :-1] + (letters != ord(char))
        for column in range(1, width + 1):
            row[:, column] = np.minimum(
                np.minimum(before[:, column] + 1, row[:, column - 1] + 1), replaced[:, column - 1]
            )
    return np.asarray(row[np.arange(len(words)), lengths])
