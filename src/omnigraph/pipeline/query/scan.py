"""Tables read in tasks: some fragments each, the columns that are needed, the rows that pass.

Scores of a variable are made where its rows are read: a distance needs its own row alone, a
relevance also how often words occur in all texts, which `count_words` has found before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.compiler.ir.ops import Predicate, Prop, operands
from omnigraph.compiler.query.typed import Bm25, Nearest
from omnigraph.engine.image.analyzer import analyze
from omnigraph.engine.image.arrays import Floats, one_array
from omnigraph.engine.image.layers import unchanged
from omnigraph.engine.image.postings import Hits, Postings, bm25, build_lists
from omnigraph.engine.read.evaluate import distances, value_of
from omnigraph.engine.read.operators import matching
from omnigraph.engine.read.order import contenders
from omnigraph.pipeline.query.batches import Slot, batch_of, context_of
from omnigraph.pipeline.stages.fragments import TablePiece

SCORE = "~score"
"""Begins the names of columns that are scores, which no text can name."""


@dataclass(frozen=True, slots=True)
class Words:
    """What relevance needs to know of all texts of a column."""

    texts: int
    terms: int
    rows_with: Mapping[str, int]

    def __add__(self, other: Words) -> Words:
        both = {
            term: self.rows_with.get(term, 0) + other.rows_with.get(term, 0)
            for term in (*self.rows_with, *other.rows_with)
        }
        return Words(self.texts + other.texts, self.terms + other.terms, both)


NO_WORDS = Words(0, 0, {})


@dataclass(frozen=True, slots=True)
class CountWords:
    """Count the texts of a column, their terms, and those that have some terms."""

    prop: str
    terms: tuple[str, ...]

    def __call__(self, piece: TablePiece) -> Words:
        """Return the counts of some fragments."""
        found = NO_WORDS
        for batch in piece.batches([self.prop], blobs=False):
            lists = build_lists(one_array(batch.column(self.prop)))
            counted = lists.has_text
            with_term = {term: len(lists.of(term)[0]) for term in self.terms}
            found += Words(int(counted.sum()), int(lists.lengths[counted].sum()), with_term)
        return found


@dataclass(frozen=True)
class _AmongAll(Postings):
    """The texts of a batch, weighed as part of all texts of the column."""

    among: Words = NO_WORDS

    @cached_property
    def sizes(self) -> tuple[int, float]:
        texts, terms = self.among.texts, self.among.terms
        return texts, (terms / texts or 1.0) if texts else 1.0

    def _find(self, term: str) -> Hits:
        return self.weighed(term, self.among.rows_with.get(term, 0))


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """A score of a variable, as a column beside its properties."""

    name: str
    score: Nearest | Bm25
    words: Words = NO_WORDS
    fill: float | None = None
    """What stands for no score, if not null."""

    def of(self, rows: pa.Table, params: Mapping[str, Any]) -> pa.Array:
        """Return the scores of the rows of a table."""
        if isinstance(self.score, Nearest):
            ctx = context_of({self.score.var: rows}, params)
            found = distances(self.score, np.arange(len(rows)), ctx)
            return pa.array(found, pa.float64(), mask=np.isnan(found))
        query = value_of(self.score.query, params)
        terms = () if query is None else analyze(query)
        texts = one_array(rows[self.score.target.name])
        lists = build_lists(texts)
        hits = bm25(_AmongAll(lists, unchanged(len(texts)), among=self.words), terms)
        scores, known = np.zeros(len(texts)), np.zeros(len(texts), dtype=bool)
        scores[hits.rows], known[hits.rows] = hits.scores, True
        return pa.array(scores, pa.float64(), mask=None if self.fill is not None else ~known)


@dataclass(frozen=True, slots=True)
class Best:
    """Only rows that can be among the first by a score are wanted."""

    column: str
    ascending: bool
    wanted: int

    def kept(self, scores: pa.Array) -> pa.Array:
        """Return which rows those are; the unranked never."""
        known = np.flatnonzero(scores.is_valid().to_numpy(zero_copy_only=False))
        numbers: Floats = scores.to_numpy(zero_copy_only=False)[known]
        ahead = contenders(numbers if self.ascending else -numbers, self.wanted)
        return pa.array(known[ahead])


def _asks_for_scores(predicate: Predicate) -> bool:
    return any(
        isinstance(side, Prop) and side.name.startswith(SCORE) for side in operands(predicate)
    )


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Read a variable's rows from pieces of its table, by their numbers."""

    pieces: tuple[TablePiece, ...]
    var: str
    filters: tuple[Predicate, ...]
    slots: tuple[Slot, ...]
    columns: tuple[str, ...]
    """What is read: carried, filtered by, or scored."""
    scores: tuple[ScoreColumn, ...]
    params: Mapping[str, Any]
    best: Best | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the pieces whose numbers come in."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in self.pieces[number].batches(self.columns, blobs=False):
                    yield self._passing(pa.Table.from_batches([rows]))

    def _filtered(self, rows: pa.Table, filters: tuple[Predicate, ...]) -> pa.Table:
        if not filters:
            return rows
        ctx = context_of({self.var: rows}, self.params)
        found = matching(ctx.images.node(self.var), self.var, filters, ctx)
        return rows.take(pa.array(found))

    def _passing(self, rows: pa.Table) -> pa.RecordBatch:
        scored = tuple(one for one in self.filters if _asks_for_scores(one))
        plain = tuple(one for one in self.filters if one not in scored)
        rows = self._filtered(rows, plain)
        for score in self.scores:
            rows = rows.append_column(score.name, score.of(rows, self.params))
        rows = self._filtered(rows, scored)
        if self.best is not None:
            rows = rows.take(self.best.kept(one_array(rows[self.best.column])))
        return batch_of({slot.name: one_array(rows[slot.prop]) for slot in self.slots})
