"""Term postings of one text column: exact BM25 over live rows, whatever indexes exist.

Statistics (number of texts, document frequency, average length) count live rows of the snapshot
only, so a score is a function of the data and never of files, indexes or deleted rows. The lists
of a base belong to the base and are shared by its versions; a version adds the few rows that
changed since and leaves out those that went.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.engine.image.analyzer import analyze_column
from omnigraph.engine.image.arrays import Floats, Ints, Mask, at_least_kth, distinct
from omnigraph.engine.image.layers import Layers, unchanged
from omnigraph.engine.image.mapped import held_bytes

K1, B = 1.2, 0.75

_SLACK = 1.0 - 1e-9
"""Sums in another order may differ in their last bits; what is left out must be surely worse."""


_WORTH_SPARING = 8
_LEAST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class TermLists:
    """Inverted lists of one column in one set of arrays; `docs` of a term are ascending rows."""

    vocabulary: dict[str, int]
    offsets: Ints
    docs: Ints
    counts: Ints
    lengths: Ints
    has_text: Mask

    @property
    def nbytes(self) -> int:
        """Memory held, the vocabulary's Python strings included (estimated at 150 bytes each)."""
        arrays = (self.offsets, self.docs, self.counts, self.lengths, self.has_text)
        return held_bytes(*arrays) + 150 * len(self.vocabulary)

    def of(self, term: str) -> tuple[Ints, Ints]:
        """Return the rows that have a term, ascending, and how often each has it."""
        code = self.vocabulary.get(term)
        span = slice(0, 0) if code is None else slice(*self.offsets[code : code + 2].tolist())
        return self.docs[span], self.counts[span]


def build_lists(texts: pa.Array) -> TermLists:
    """Return the lists of a text column; nulls have no terms and are not counted as texts."""
    rows, terms, vocabulary = analyze_column(texts)
    size = max(len(texts), 1)
    # One sortable number per (term, row): sorting it groups equal pairs and orders the lists.
    keys = np.sort(terms.astype(np.int64) * size + rows, kind="stable")
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    by_term, docs = np.divmod(keys[first], size)
    return TermLists(
        vocabulary={term: code for code, term in enumerate(vocabulary)},
        offsets=np.searchsorted(by_term, np.arange(len(vocabulary) + 1)),
        docs=docs.astype(np.int32),
        counts=np.diff(first, append=len(keys)).astype(np.int32),
        lengths=np.bincount(rows, minlength=len(texts)).astype(np.int32),
        has_text=texts.is_valid().to_numpy(zero_copy_only=False),
    )


@dataclass(frozen=True, slots=True)
class Hits:
    """What one term adds to the score of every row that has it; rows ascend."""

    rows: Ints
    scores: Floats
    best: float

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.rows.nbytes + self.scores.nbytes


@dataclass(frozen=True)
class Postings:
    """The texts of one table version: the lists of its base, and of the rows changed since."""

    base: TermLists
    layers: Layers
    changed: TermLists | None = None
    _hits: dict[str, Hits] = field(default_factory=dict, repr=False)

    @property
    def nbytes(self) -> int:
        """Memory held beside the base: what changed, and the terms asked for so far."""
        held = 0 if self.changed is None else self.changed.nbytes
        return held + sum(hits.nbytes for hits in list(self._hits.values()))

    @cached_property
    def sizes(self) -> tuple[int, float]:
        """How many live rows have a text, and how many terms one has on average."""
        texts = terms = 0
        for lists, live in ((self.base, self.layers.base), (self.changed, self.layers.changed)):
            if lists is not None:
                counted = lists.has_text if live is None else lists.has_text & live
                texts += int(np.count_nonzero(counted))
                terms += int(lists.lengths[counted].sum())
        return texts, (terms / texts or 1.0) if texts else 1.0

    def knows(self, term: str) -> bool:
        """Whether any row has or had a term."""
        lists = (self.base, self.changed)
        return any(one is not None and term in one.vocabulary for one in lists)

    def words(self) -> list[str]:
        """Return every term any row has or had."""
        if self.changed is None:
            return list(self.base.vocabulary)
        return list(self.base.vocabulary | self.changed.vocabulary)

    def hits(self, term: str) -> Hits:
        """Return the live rows with a term; kept, because queries repeat their words."""
        found = self._hits.get(term)
        if found is None:
            found = self._hits.setdefault(term, self._find(term))
        return found

    def rows_of(self, term: str) -> Ints:
        """Return the positions of the live rows with a term, ascending."""
        return self._occurrences(term)[0]

    def _find(self, term: str) -> Hits:
        return self.weighed(term, None)

    def weighed(self, term: str, having: int | None) -> Hits:
        """Return the live rows with a term, which so many rows have; None is those found here."""
        rows, counts, lengths = self._occurrences(term)
        total, average = self.sizes
        known = len(rows) if having is None else having
        idf = math.log(1.0 + (total - known + 0.5) / (known + 0.5))
        times = counts.astype(np.float64)
        norm = K1 * (1.0 - B + B * lengths / average)
        scores = idf * times * (K1 + 1.0) / (times + norm)
        return Hits(rows, scores, float(scores.max(initial=0.0)))

    def _occurrences(self, term: str) -> tuple[Ints, Ints, Ints]:
        """Return positions, how often each has the term, and how long each text is."""
        docs, counts = _kept(*self.base.of(term), self.layers.base)
        lengths = self.base.lengths[docs]
        rows = docs.astype(np.int64)
        if self.changed is None:
            return rows, counts, lengths
        more, more_counts = _kept(*self.changed.of(term), self.layers.changed)
        if not len(more):
            return rows, counts, lengths
        rows = np.concatenate([rows, self.layers.positions[more]])
        order = np.argsort(rows, kind="stable")
        return (
            rows[order],
            np.concatenate([counts, more_counts])[order],
            np.concatenate([lengths, self.changed.lengths[more]])[order],
        )


def _kept(docs: Ints, counts: Ints, live: Mask | None) -> tuple[Ints, Ints]:
    if live is None:
        return docs, counts
    kept = live[docs]
    return docs[kept], counts[kept]


def build_postings(texts: pa.Array) -> Postings:
    """Return the postings of a column that did not change since it was read."""
    return Postings(build_lists(texts), unchanged(len(texts)))


def with_changes(base: TermLists, layers: Layers, changed: pa.Array | None) -> Postings:
    """Return the postings of a later version; costs the changed rows only."""
    return Postings(base, layers, None if changed is None else build_lists(changed))


@dataclass(frozen=True, slots=True)
class Bm25:
    """Scores of rows that contain at least one query term, by ascending position."""

    rows: Ints
    scores: Floats


def bm25(postings: Postings, terms: tuple[str, ...]) -> Bm25:
    """Return the BM25 score of every live row that matches.

    A term repeated in the query counts as often as it is repeated. Terms are added in query
    order, so equal texts get bit-equal scores.
    """
    found = [hits for hits in map(postings.hits, terms) if len(hits.rows)]
    if not found:
        return Bm25(np.empty(0, np.int64), np.empty(0, np.float64))
    if len(found) == 1:
        return Bm25(found[0].rows, found[0].scores)
    rows = np.concatenate([hits.rows for hits in found])
    # Scores are positive, so a sum of zero is a row without any of the terms.
    sums = _summed(rows, found)
    members = np.flatnonzero(sums > 0.0)
    return Bm25(members, sums[members])


def bm25_best(postings: Postings, terms: tuple[str, ...], wanted: int) -> Bm25:
    """Return the `wanted` best rows and all that tie with the last, perhaps some more.

    Their scores are exactly those `bm25` gives. Rows that only have terms too weak to lift them
    among the best are never looked at.
    """
    found = [hits for hits in map(postings.hits, terms) if len(hits.rows)]
    if len(found) <= 1 or wanted <= 0:
        return _cut(bm25(postings, terms), wanted)
    enough = max(at_least_kth(hits.scores, wanted) for hits in found) * _SLACK
    strong = _able_to_reach(found, enough)
    missing = sum(hits.best for hits in found) - sum(hits.best for hits in strong)
    rows = _within_reach(strong, wanted, enough, missing)
    return _cut(Bm25(rows, _added_up(found, rows)), wanted)


def _within_reach(strong: list[Hits], wanted: int, enough: float, missing: float) -> Ints:
    """Return the rows that may be among the best once what is missing of them is added."""
    rows = np.concatenate([hits.rows for hits in strong])
    sums = _summed(rows, strong)
    if 2 * len(rows) > len(sums):  # most rows have one of the terms: look at all of them in order
        enough = max(enough, at_least_kth(sums, wanted) * _SLACK)
        return np.flatnonzero(sums >= max(enough - missing, _LEAST))
    sums = sums[rows]
    # A row is in the array once per term, so as many more values must reach the score.
    enough = max(enough, at_least_kth(sums, wanted * len(strong)) * _SLACK)
    return distinct(rows[sums + missing >= enough])


def _summed(rows: Ints, found: list[Hits]) -> Floats:
    """Return by position what the terms add up to, added in their order."""
    scores = np.concatenate([hits.scores for hits in found])
    return np.asarray(np.bincount(rows, scores), np.float64)


def _able_to_reach(found: list[Hits], enough: float) -> list[Hits]:
    """Leave out the weakest terms as long as all of them together cannot reach a score.

    Only if that spares much: their part has to be looked up for the rows that are left.
    """
    weak: set[int] = set()  # by place: a word may be asked for twice, and counts twice
    total, rows = 0.0, 0
    for at in sorted(range(len(found)), key=lambda at: found[at].best):
        total += found[at].best
        if total >= enough:
            break
        weak.add(at)
        rows += len(found[at].rows)
    strong = [hits for at, hits in enumerate(found) if at not in weak]
    spares = rows > _WORTH_SPARING * sum(len(hits.rows) for hits in strong)
    return strong if spares else found


def _added_up(found: list[Hits], rows: Ints) -> Floats:
    """Return the sums over all terms, in query order, for a few rows."""
    sums = np.zeros(len(rows), np.float64)
    for hits in found:
        at = np.minimum(np.searchsorted(hits.rows, rows), len(hits.rows) - 1)
        sums += np.where(hits.rows[at] == rows, hits.scores[at], 0.0)
    return sums


def _cut(found: Bm25, wanted: int) -> Bm25:
    if len(found.rows) <= wanted:
        return found
    kept = np.flatnonzero(found.scores >= at_least_kth(found.scores, wanted))
    return Bm25(found.rows[kept], found.scores[kept])


def matching_any(postings: Postings, terms: tuple[str, ...]) -> Mask:
    """Return a mask over all positions: those that contain at least one of the terms."""
    mask = np.zeros(postings.layers.size, dtype=bool)
    for term in terms:
        mask[postings.rows_of(term)] = True
    return mask


def similar_terms(postings: Postings, term: str, max_edits: int) -> tuple[str, ...]:
    """Return the known terms within `max_edits` insertions, deletions or substitutions."""
    if max_edits <= 0:
        return (term,) if postings.knows(term) else ()
    words = [word for word in postings.words() if abs(len(word) - len(term)) <= max_edits]
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
