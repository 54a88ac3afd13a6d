"""Bulk jobs of an open graph: load, ingest, export, embed, compact and index. Wiring only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from omnigraph.config.environment import process_environment, s3_options, spark_master
from omnigraph.engine.maintain import IndexReport, ensure_indexes
from omnigraph.errors import BadRequestError
from omnigraph.graph.opened import OpenGraph
from omnigraph.graph.requests import check_words
from omnigraph.pipeline.model import (
    EXPORT_FORMATS,
    Engine,
    ExportFormat,
    ExportResult,
    LoadResult,
    OnError,
    SparkSettings,
    load_options,
)
from omnigraph.pipeline.progress import Progress
from omnigraph.storage.maintain import CompactionStats
from omnigraph.storage.options import S3Options
from omnigraph.storage.snapshot import Snapshot

if TYPE_CHECKING:
    from omnigraph.pipeline.embed_graph import GraphEmbedResult
    from omnigraph.pipeline.export import Selection
    from omnigraph.pipeline.sources import Data


class BulkJobs(OpenGraph):
    """Jobs over many rows; each is one commit, or none."""

    def load(
        self,
        data: Data,
        mode: str = "overwrite",
        *,
        branch: str = "main",
        engine: Engine | None = None,
        actor: str | None = None,
        on_error: OnError = "fail",
        max_errors: int | None = None,
        spark: object = None,
        progress: Progress | None = None,
    ) -> LoadResult:
        """Load files or tables into a branch as one commit, or not at all.

        Args:
            data: paths, globs or folders; `-`; an open file; JSON lines as bytes; or a mapping
                from type names to files or tables (Arrow, pandas, polars).
            mode: `overwrite` replaces every table the data has rows of, `append` adds rows with
                new ids, `merge` replaces rows by id and adds the others.
            branch: the branch to write; it must exist.
            engine: who does the work: `inline`, `spark`, or `auto` by the size of the data; unless
                said, as the graph's options say.
            actor: who does it; kept on the commit.
            on_error: `fail` refuses everything if one row is bad, `skip` leaves bad rows out and
                reports them.
            max_errors: how many faults are told one by one; all are counted.
            spark: a SparkSession to run on, or `SparkSettings` to start one for this load.
            progress: hears about the stages.

        Raises:
            ConstraintError: rows break rules; nothing was written. Names file and line.
            NotFoundError: a file or the branch does not exist.
            ConflictError: someone else changed what this load relied on.
        """
        from omnigraph.pipeline.engines import Engines  # reading files needs more of Arrow
        from omnigraph.pipeline.load import LoadTarget, load_data

        check_words(branch=branch, actor=actor)
        defaults = self._options.pipeline
        options = load_options(mode, engine, on_error, defaults, max_errors)
        target = LoadTarget(
            self.store,
            self._catalog,
            branch,
            actor,
            self._options.embedder,
            self._options.clock,
            self._s3_options,
        )
        given = spark if spark is not None else self._spark_settings()
        with Engines(options, given, defaults.own_spark()) as engines:
            return load_data(target, data, options, engines, progress)

    def ingest(
        self,
        data: Data,
        *,
        branch: str,
        source: str = "main",
        mode: str = "merge",
        engine: Engine | None = None,
        actor: str | None = None,
        on_error: OnError = "fail",
        max_errors: int | None = None,
        spark: object = None,
        progress: Progress | None = None,
    ) -> LoadResult:
        """Load into a branch, creating it from `source` first if it does not exist.

        See `load` for the arguments. A load that fails leaves no branch it created behind.
        """
        check_words(branch=branch, actor=actor)
        load_options(mode, engine, on_error, self._options.pipeline, max_errors)
        created: Snapshot | None = None
        if branch not in self.branches.list():
            created = self.branches.create(branch, source=source)
        try:
            result = self.load(
                data,
                mode,
                branch=branch,
                engine=engine,
                actor=actor,
                on_error=on_error,
                max_errors=max_errors,
                spark=spark,
                progress=progress,
            )
        except BaseException:
            # Somebody else may have found the new branch and written to it.
            if created is not None and _is_at(self.snapshot(branch), created):
                self.branches.delete(branch)
            raise
        return replace(result, base_branch=source, branch_created=created is not None)

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = "main",
        at: str | int | None = None,
    ) -> ExportResult:
        """Write the graph out: JSON lines that load back to an equal graph, or Parquet files.

        Args:
            target: a path (`.gz` and `.zst` are compressed), `-`, or an open file; for Parquet a
                folder that gets one file per type.
            format: `jsonl` or `parquet`.
            types: only these node and edge types.
            tables: only these tables, by key (`node:<Type>` or `edge:<Type>`).
            branch: the branch to read.
            at: a commit id, or a version of the branch, to write out the past.

        Raises:
            NotFoundError: no such type, table, branch or commit.
        """
        from omnigraph.pipeline.export import export_to  # writing files needs more of Arrow

        if format not in EXPORT_FORMATS:
            raise BadRequestError(f"unknown format '{format}'", hint="use jsonl or parquet")
        return export_to(self._selection(types, tables, branch, at), target, format)

    def iter_export(
        self,
        *,
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = "main",
        at: str | int | None = None,
    ) -> Iterator[bytes]:
        """Yield what `export` writes as JSON lines, in pieces of many lines."""
        from omnigraph.pipeline.export import export_lines  # writing needs more of Arrow

        return export_lines(self._selection(types, tables, branch, at))

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        *,
        branch: str = "main",
        actor: str | None = None,
        progress: Progress | None = None,
    ) -> GraphEmbedResult:
        """Fill the `@embed` columns of a branch as one commit.

        Args:
            types: only these node types; without any, all that have such columns.
            mode: `fill_missing` makes what is missing, `reembed_all` makes everything again, as
                after a change of the embedder.
            branch: the branch to write.
            actor: who does it; kept on the commit.
            progress: hears about batches.

        Raises:
            EmbeddingError: the embedder failed, or there is none; nothing was written.
            ConflictError: somebody changed one of the tables meanwhile; run it again.
        """
        from omnigraph.pipeline.embed_graph import EmbedTarget, embed_graph  # a bulk job

        check_words(branch=branch, actor=actor)
        target = EmbedTarget(self.store, self._catalog, branch, actor, self._options.embedder)
        return embed_graph(target, types, mode, progress)

    def _selection(
        self, types: Sequence[str], tables: Sequence[str], branch: str, at: str | int | None
    ) -> Selection:
        from omnigraph.pipeline.export import select  # writing needs more of Arrow

        snapshot = self._snapshot_at(branch, at)
        return select(snapshot, self._catalog(snapshot), types, tables)

    def _s3_options(self) -> S3Options:
        """Return how to reach the object stores of inputs: like the graph's own, if it is there."""
        own = self._options.storage.s3
        return own if own != S3Options() else s3_options(process_environment())

    def _spark_settings(self) -> SparkSettings | None:
        """Return where Spark runs, if the options or the environment say so."""
        pipeline = self._options.pipeline
        master = spark_master(process_environment())
        if pipeline.spark is not None or master is None:
            return pipeline.spark
        return pipeline.own_spark(master)

    def optimize(self, branch: str = "main", *, spark: object = None) -> list[CompactionStats]:
        """Compact every table of a branch; `spark` (a session, or settings) does the rewriting."""
        if spark is None:
            return self.store.optimize(branch)
        from omnigraph.pipeline.engines import Engines, on_spark

        with Engines(on_spark(), spark) as engines:
            return self.store.optimize(branch, engines.choose(0).runner.map)

    def ensure_indices(self, branch: str = "main", *, spark: object = None) -> list[IndexReport]:
        """Build the indexes the schema asks for, and bring existing ones up to date.

        Safe to repeat. Answers never depend on indexes; those that cannot be built yet are
        reported as pending. With `spark` (a session, or settings) missing ones are built there.
        """
        catalog = self._catalog(self.store.snapshot(branch))
        if spark is None:
            return ensure_indexes(self.store, catalog, branch)
        from omnigraph.pipeline.engines import Engines, on_spark

        with Engines(on_spark(), spark) as engines:
            return ensure_indexes(self.store, catalog, branch, engines.choose(0).runner.map)


def _is_at(snapshot: Snapshot, other: Snapshot) -> bool:
    """Whether nobody has written anything in between."""
    return snapshot.logical_commit_id == other.logical_commit_id
