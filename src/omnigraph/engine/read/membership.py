"""Text filters on a cold table: the rows whose text may match, found by a text index.

An index says which rows are looked at, never which match: the executor analyses their texts like
any others. So what comes from here is a superset, and where it cannot be one nothing comes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.compiler.ir.ops import Compare, Literal, NodeScan, TextMatch
from omnigraph.compiler.operations import CompareOp, TextFn
from omnigraph.engine.image.analyzer import analyze
from omnigraph.engine.read.pushdown import ValueOf
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.predicate import Predicate
from omnigraph.storage.tables.words import rows_of_fragments, text_index, words_of

MOST_WORDS = 1_024
"""A word of a question that so many words of the texts come down to is no way to few rows."""


def looked_up(op: NodeScan) -> TextMatch | None:
    """Return the filter of a scan that a text index can answer for, if one can."""
    for one in op.filters:
        if not isinstance(one, Compare) or not isinstance(one.left, TextMatch):
            continue
        holds = (
            one.op is CompareOp.EQ and isinstance(one.right, Literal) and one.right.value is True
        )
        if holds and one.left.fn is not TextFn.FUZZY:
            return one.left
    return None


def matching_rows(
    snapshot: Snapshot,
    key: str,
    match: TextMatch,
    value_of: ValueOf,
    where: Predicate | None,
    columns: Sequence[str],
    limit: int,
) -> pa.Table | None:
    """Return all rows whose text may match, and perhaps others; None where no index can tell.

    Rows written since the index was built are returned whatever they say; with `limit` rows, there
    may be more.
    """
    handle = snapshot.handle(key)
    index = text_index(handle, match.target.name)
    if index is None or index.uncovered_rows >= limit:
        return None
    query = value_of(match.query)
    terms = frozenset(() if query is None else analyze(query))
    known: list[str] = []
    begin = frozenset(term[0] for term in terms)
    for word in words_of(snapshot.kernel.tables, index):
        if word.isascii() and word[0].lower() not in begin:
            continue  # one word of ours, and stemming takes nothing from the front
        if not terms.isdisjoint(analyze(word)):
            known.append(word)
            if len(known) > MOST_WORDS:
                return None
    fresh = rows_of_fragments(handle, index.uncovered, columns)
    if not known:
        return fresh
    asked = {"columns": [index.column], "query": " ".join(known)}
    found = snapshot.open(key).scan([*columns, "_score"], where, full_text=asked, limit=limit)
    return pa.concat_tables([found.drop_columns("_score"), fresh.select(columns)])


def has_text_index(snapshot: Snapshot, key: str, match: TextMatch) -> bool:
    """Whether a text index would be asked for a filter."""
    return text_index(snapshot.handle(key), match.target.name) is not None
