"""Filling the `@embed` columns of a graph in one commit: what is missing, or everything again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.progress import Progress, listening
from omnigraph.api.words import REFILL_MODES, RefillMode
from omnigraph.api.writes import EmbedResult
from omnigraph.base.arguments import names_argument, word_argument
from omnigraph.base.budget import checkpoint, keep, unstoppable
from omnigraph.base.calls import Watch
from omnigraph.compiler.catalog.model import Catalog, Embed, NodeType
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.engine.search.embedder import Embedder, EmbeddingError
from omnigraph.engine.search.spaces import Filled
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.commit import record_fills
from omnigraph.engine.write.embed import can_be_embedded, fill_vectors
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.storage.commit.session import WriteSession
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables.foreign import write_foreign
from omnigraph.storage.tables.scan import Reader

_BATCH_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class EmbedTarget:
    """The graph to fill, and who asks."""

    store: GraphStore
    catalog_of: Callable[[Snapshot], Catalog]
    branch: str
    actor: str | None
    embedder: Embedder | None
    message: str | None = None


def embed_graph(
    target: EmbedTarget,
    types: Sequence[str] = (),
    mode: str = "fill_missing",
    progress: Progress | None = None,
) -> EmbedResult:
    """Fill the `@embed` columns of a branch as one commit.

    Args:
        target: the graph, the branch, the embedder.
        types: only these node types; without any, all that have such columns.
        mode: `fill_missing` makes what is missing, `reembed_all` makes everything again.
        progress: hears about batches.

    Raises:
        BadRequestError: the mode is unknown, or a type has nothing to fill.
        EmbeddingError: there is no embedder, or it failed; nothing was written.
        ConflictError: somebody changed one of the tables meanwhile; run it again.
    """
    chosen = word_argument(mode, REFILL_MODES, "mode")
    if target.embedder is None:
        raise EmbeddingError("no embedder is configured", hint="configure one, then fill again")
    with Watch(target.store.kernel.clock).job("embed") as seen:
        done = _embed(target, target.embedder, types, chosen, listening(progress))
        seen.rows = sum(done.embedded.values())
    return done


def _embed(
    target: EmbedTarget,
    embedder: Embedder,
    types: Sequence[str],
    chosen: RefillMode,
    shown: Progress,
) -> EmbedResult:
    session = target.store.begin(
        target.branch, target.actor, writer_kind="Embed", message=target.message
    )
    catalog = target.catalog_of(session.base)
    work = [
        _Refill(session, node, catalog, embedder, chosen, shown) for node in _chosen(catalog, types)
    ]
    embedded = {name: 0 for one in work for name in one.columns}
    wanting = {one: one.wanting() for one in work}
    shown.stage("embed", sum(-(-one.rows // _BATCH_ROWS) for one in work if wanting[one]))
    large = [one for one in work if wanting[one] > _largest(session)]
    small = [one for one in work if 0 < wanting[one] <= _largest(session)]
    with contextlib.ExitStack() as stack:
        if large:
            load = stack.enter_context(session.load([one.node.table_key for one in large]))
            for one in large:
                place = load.target(one.node.table_key)
                schema = place.schema
                rows = pa.RecordBatchReader.from_batches(schema, one.all_rows(schema, embedded))
                session.overwrite_fragments(one.node.table_key, write_foreign(place, rows))
        for one in small:
            session.upsert(one.node.table_key, one.changed_rows(embedded), strict=True)
        if not large and not small:
            return _result(target, chosen, embedder, embedded, None)
        again = chosen == "reembed_all"
        fills = [
            Filled(one.node, embed.target, embedder.space, replaces=again)
            for one in (*large, *small)
            for embed in one.node.embeds.values()
            if embedded[f"{one.node.name}.{embed.target}"]
        ]
        record_fills(session, fills)
        checkpoint("commit")
        with unstoppable():
            commit = session.commit(result=embedded)
    return _result(target, chosen, embedder, embedded, commit.id)


def _result(
    target: EmbedTarget,
    mode: RefillMode,
    embedder: Embedder,
    embedded: Mapping[str, int],
    commit_id: str | None,
) -> EmbedResult:
    uri = str(target.store.kernel.root)
    return EmbedResult(uri, target.branch, mode, embedder.space, embedded, commit_id, target.actor)


def _largest(session: WriteSession) -> int:
    """Return how many rows may change one by one; beyond that the table is written anew."""
    return session.max_rows_per_file


def _chosen(catalog: Catalog, types: Sequence[str]) -> list[NodeType]:
    names_argument(types, "types")
    for name in types:
        node = catalog.nodes.get(name)
        if node is None:
            raise NotFoundError(
                f"there is no node type '{name}'", hint=did_you_mean(name, list(catalog.nodes))
            )
        if not _is_filled(node):
            text = f"{name} has no @embed property that a model fills"
            raise BadRequestError(text, hint="there is nothing to fill")
    return [
        node
        for node in catalog.nodes.values()
        if _is_filled(node) and (not types or node.name in types)
    ]


def _is_filled(node: NodeType) -> bool:
    return any(not embed.by_hand for embed in node.embeds.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Refill:
    """One node type whose vectors are made."""

    session: WriteSession
    node: NodeType
    catalog: Catalog
    embedder: Embedder
    mode: RefillMode
    progress: Progress

    @property
    def reader(self) -> Reader:
        return self.session.base.open(self.node.table_key)

    @property
    def rows(self) -> int:
        return self.session.base.table(self.node.table_key).row_count

    @property
    def columns(self) -> list[str]:
        return [f"{self.node.name}.{embed.target}" for embed in self.node.embeds.values()]

    def wanting(self) -> int:
        """Return how many rows get a vector."""
        needed = {name for one in self.node.embeds.values() for name in (one.source, one.target)}
        found = 0
        for batch in self.reader.batches(sorted(needed)):
            found += pc.sum(self._mask(pa.Table.from_batches([batch]))).as_py() or 0
        return found

    def changed_rows(self, embedded: dict[str, int]) -> pa.Table:
        """Return the rows that get a vector, with it."""
        found = []
        for made, _ in self._made(embedded):
            if made is not None and made.num_rows:
                keep("embed", made.nbytes)
                found.append(made)
        return pa.concat_tables(found)

    def all_rows(self, schema: pa.Schema, embedded: dict[str, int]) -> Iterator[pa.RecordBatch]:
        """Yield every row of the table, with its vectors."""
        for made, rest in self._made(embedded):
            for part in (made, rest):
                if part is not None and part.num_rows:
                    yield from part.select(schema.names).cast(schema).to_batches()

    def _made(self, embedded: dict[str, int]) -> Iterator[tuple[pa.Table | None, pa.Table]]:
        """Yield, batch by batch, the rows with new vectors and the other ones."""
        for batch in self.reader.batches(batch_size=_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            mask = self._mask(rows)
            wanting, rest = rows.filter(mask), rows.filter(pc.invert(mask))
            made = self._filled(wanting, embedded) if len(wanting) else None
            self.progress.done(len(wanting), 0)
            yield made, rest

    def _filled(self, rows: pa.Table, embedded: dict[str, int]) -> pa.Table:
        for embed in self.node.embeds.values():
            if self.mode == "reembed_all":
                rows = _emptied(rows, embed)
        change = ChangeSet({self.node.table_key: TableChange(rows)})
        done = fill_vectors(change, self.catalog, self.embedder).upserts(self.node.table_key)
        assert done is not None
        for embed in self.node.embeds.values():
            made = rows[embed.target].null_count - done[embed.target].null_count
            embedded[f"{self.node.name}.{embed.target}"] += made
        return done

    def _mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return which rows get a vector: those with text, without a vector or all of them."""
        found: pa.ChunkedArray | None = None
        for embed in self.node.embeds.values():
            one = can_be_embedded(embed, rows)
            if self.mode == "fill_missing":
                one = pc.and_(one, pc.is_null(rows[embed.target]))
            found = one if found is None else pc.or_(found, one)
        assert found is not None
        return found


def _emptied(rows: pa.Table, embed: Embed) -> pa.Table:
    """Return rows without the vectors that can be made again."""
    at = rows.schema.get_field_index(embed.target)
    field = rows.schema.field(at)
    nothing = pa.nulls(len(rows), field.type)
    kept = pc.if_else(can_be_embedded(embed, rows), nothing, rows[embed.target])
    return rows.set_column(at, field.with_nullable(True), kept)
