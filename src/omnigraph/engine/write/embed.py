"""Vectors a schema asks to be made from text: filled where they are missing, in one batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.catalog.model import Catalog, Embed, NodeType
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.search.embedder import Embedder, check_space
from omnigraph.engine.search.spaces import Filled
from omnigraph.engine.write.change_set import ChangeSet
from omnigraph.engine.write.columns import says_something


def fills(changes: ChangeSet, catalog: Catalog, embedder: Embedder | None) -> list[Filled]:
    """Return which columns `fill_vectors` will fill, and in whose space."""
    if embedder is None:
        return []
    return [
        Filled(
            node,
            embed.target,
            embedder.space,
            replaces=changes.tables[node.table_key].replaces,
            beside_given=rows[embed.target].null_count < len(rows),
        )
        for node in catalog.nodes.values()
        if (rows := changes.upserts(node.table_key)) is not None
        for embed in node.embeds.values()
        if pc.any(wants_vector(embed, rows)).as_py()
    ]


def fill_vectors(changes: ChangeSet, catalog: Catalog, embedder: Embedder | None) -> ChangeSet:
    """Return the changes with every missing `@embed` vector made from its source text.

    A vector that was given is never touched; a row without text, or whose text says nothing to
    the embedder, stays without a vector. Without an embedder nothing is filled.

    Raises:
        EmbeddingError: the embedder cannot serve a column.
        SpaceMismatchError: the schema pins another model.
    """
    if embedder is None:
        return changes
    tables = dict(changes.tables)
    for node in catalog.nodes.values():
        rows = changes.upserts(node.table_key)
        if rows is None or not node.embeds:
            continue
        for embed in node.embeds.values():
            rows = _filled(node, embed, rows, embedder)
        tables[node.table_key] = replace(tables[node.table_key], upserts=rows)
    return replace(changes, tables=tables)


def _filled(node: NodeType, embed: Embed, rows: pa.Table, embedder: Embedder) -> pa.Table:
    missing = wants_vector(embed, rows)
    count = pc.sum(missing).as_py() or 0
    if not count:
        return rows
    if embed.model is not None:
        check_space(f"{node.name}.{embed.target}", embed.model, embedder)
    dim = node.properties[embed.target].type.dim
    assert dim is not None
    texts = rows[embed.source].filter(missing).to_pylist()
    vectors = embedder.embed_documents(texts, dim)
    kind = rows.schema.field(embed.target).type
    silent = pa.array(~vectors.any(axis=1))  # no direction: it would be as near to all as to none
    made = pa.FixedSizeListArray.from_arrays(
        pa.array(vectors.ravel(), pa.float32()), type=kind, mask=silent
    )
    at = rows.schema.get_field_index(embed.target)
    # Given vectors first, made ones behind; each row then takes its own.
    given = one_array(rows[embed.target])
    flags = one_array(missing)
    order = pc.if_else(
        flags,
        pc.add(pc.subtract(pc.cumulative_sum(flags.cast(pa.int64())), 1), len(rows)),
        pa.array(range(len(rows)), pa.int64()),
    )
    return rows.set_column(at, rows.schema.field(at), pa.concat_arrays([given, made]).take(order))


def wants_vector(embed: Embed, rows: pa.Table) -> pa.ChunkedArray:
    """Return which rows have something to embed, but no vector."""
    return pc.and_(pc.is_null(rows[embed.target]), can_be_embedded(embed, rows))


def can_be_embedded(embed: Embed, rows: pa.Table) -> pa.ChunkedArray:
    """Return which rows have a text that says something, in a column that a model fills."""
    if embed.by_hand:
        return pa.chunked_array([np.zeros(len(rows), bool)])
    return says_something(rows[embed.source])
