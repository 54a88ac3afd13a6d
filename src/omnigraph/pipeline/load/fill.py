"""Between the second and the third stage: vectors that the schema asks to be made from text.

Comes after the checks, so that nobody pays for rows that are refused. Rows pass by in batches.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.compiler.catalog.model import NodeType
from omnigraph.engine.search.embedder import Embedder
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.embed import fill_vectors
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import Violations
from omnigraph.pipeline.stages.loaded import Gone, Loaded, without
from omnigraph.pipeline.stages.staging import Spill, SpillWriter

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS_AT_ONCE = 8_192


@dataclass(frozen=True, slots=True)
class Made:
    """What came of one column's vectors: how many were made, and how many were given."""

    made: int
    given: int


Fills = dict[tuple[str, str], Made]
"""By table key and column; only columns of which some vectors were made."""


def filled(
    loaded: Loaded, gone: Gone, embedder: Embedder | None, folder: Path
) -> tuple[Loaded, Fills]:
    """Return the rows with every vector made that can be, and how many were made per column.

    Rows in `gone` may be missing from the result; nobody makes vectors for them.
    """
    if embedder is None:
        return loaded, {}
    spills = dict(loaded.spills)
    fills: Fills = {}
    for key in loaded.keys:
        kind = loaded.catalog.type_named(key)
        if isinstance(kind, NodeType) and kind.embeds:
            spills[key], made, given = _table(loaded, kind, gone, embedder, folder)
            fills |= {(key, target): Made(made[target], given[target]) for target in +made}
    return replace(loaded, spills=spills), fills


def _table(
    loaded: Loaded, kind: NodeType, gone: Gone, embedder: Embedder, folder: Path
) -> tuple[tuple[Spill, ...], Counter[str], Counter[str]]:
    new: list[Spill] = []
    made: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for spill, rows in zip(
        loaded.spills[kind.table_key], loaded.pieces(kind.table_key), strict=True
    ):
        given.update({name: len(rows) - rows[name].null_count for name in kind.embeds})
        if not _missing(rows, kind).total():
            new.append(spill)
            continue
        writer = SpillWriter(folder)
        for start in range(0, len(rows), _TEXTS_AT_ONCE):
            part = without(rows.slice(start, _TEXTS_AT_ONCE), gone.get(kind.table_key))
            if len(part):
                done = _batch(loaded, kind, part, embedder)
                made.update(_missing(part, kind) - _missing(done, kind))
                writer.write(kind, done, generated_ids=spill.generated_ids)
        new += writer.close()
    return tuple(new), made, given


def _batch(loaded: Loaded, kind: NodeType, rows: pa.Table, embedder: Embedder) -> pa.Table:
    change = ChangeSet({kind.table_key: TableChange(rows)})
    done = fill_vectors(change, loaded.catalog, embedder).upserts(kind.table_key)
    assert done is not None
    wrong = Violations()
    for broken in broken_values(kind, done):  # an embedder may fail to give numbers
        wrong.extend(broken)
    wrong.raise_if_any()
    return done


def _missing(rows: pa.Table, kind: NodeType) -> Counter[str]:
    return Counter({name: rows[name].null_count for name in kind.embeds})
