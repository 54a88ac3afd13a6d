"""A branch of a graph: as it is whenever something is asked, and to be written to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.api.progress import Progress
from omnigraph.api.protocols import Text
from omnigraph.api.upkeep import CompactionStats, IndexReport
from omnigraph.api.words import Engine, OnError
from omnigraph.api.writes import EmbedResult, LoadResult, MutationResult
from omnigraph.base.arguments import names_argument
from omnigraph.base.budget import Limits
from omnigraph.base.durations import seconds_of
from omnigraph.config.texts import read_query
from omnigraph.engine.maintain import ensure_indexes, index_coverage, with_pending_indexes
from omnigraph.engine.write.request import MutationRequest
from omnigraph.errors import BadRequestError
from omnigraph.graph.requests import check_labels, who_writes
from omnigraph.graph.state import GraphState
from omnigraph.graph.turns import TURNS
from omnigraph.graph.view import GraphView
from omnigraph.pipeline.model import load_options
from omnigraph.storage.commit.session import Preconditions, WriteSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.inputs.sources import Data


class GraphBranch(GraphView):
    """The view of a branch, which also writes to it; all is done by `actor` if there is one."""

    __slots__ = ("actor", "name")

    def __init__(self, state: GraphState, name: str, actor: str | None = None) -> None:
        super().__init__(state, partial(state.snapshot, name))
        self.name = name
        self.actor = actor

    def __repr__(self) -> str:
        who = "" if self.actor is None else f", actor={self.actor!r}"
        return f"{type(self).__name__}({self._state.described()}, {self.name!r}{who})"

    def at(self, moment: str | int) -> GraphView:
        """Return the graph as it was: at a commit id, or at a version of this branch."""
        return view_at(self._state, self.name, moment)

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        message: str | None = None,
        if_head: str | None = None,
        idempotency_key: str | None = None,
        preview: bool = False,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> MutationResult:
        """Run a mutation: all of its statements as one commit, or none.

        Args:
            source: the query text, or the path of a `.gq` file; its body alone will do.
            name: which query of the text; needed when it has several.
            params: parameter values by name, without `$`.
            actor: who does it; kept on the commit.
            message: why; kept on the commit.
            if_head: commit id the branch must still be at.
            idempotency_key: repeating a request under its key returns the first result.
            preview: compute and check everything, and write nothing.
            limits: time and memory limits until the commit begins, which is not interrupted.
            cancel: when another thread sets it before that, nothing is written.

        Raises:
            BudgetExceededError: a limit was reached; nothing was written.
            CompileError: the text is wrong.
            ConstraintError: the data breaks rules of the schema; nothing was written.
            ConflictError: someone else changed what this write relied on. Where running it again on
                the branch as it is now settles that, it was tried a few times.
        """
        labels = {"message": message, "if_head": if_head, "idempotency_key": idempotency_key}
        who = self._who(actor, **labels)
        asked = Preconditions(if_head, idempotency_key)
        request = MutationRequest(
            read_query(source, params), name, params, self.name, who, message, asked, preview
        )
        with TURNS.writing(), self._state.job_budget(limits, cancel) as budget:
            return self._state.writer.mutate(self._state.store, request, budget)

    def load(
        self,
        data: Data,
        mode: str = "overwrite",
        *,
        engine: Engine | None = None,
        actor: str | None = None,
        message: str | None = None,
        on_error: OnError = "fail",
        max_errors: int | None = None,
        idempotency_key: str | None = None,
        spark: object = None,
        columns: Mapping[str, str] | None = None,
        mapping: str | Path | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        progress: Progress | None = None,
        limits: Limits | None = None,
    ) -> LoadResult:
        """Load files or tables as one commit, or not at all.

        Args:
            data: paths, globs or folders; `-`; an open file; JSON lines as bytes; or a mapping
                from type names to files, tables (Arrow, pandas, polars) or lists of objects.
            mode: `overwrite` replaces every table the data has rows of, `append` adds rows with
                new ids, `merge` replaces rows by id and adds the others.
            engine: who does the work: `inline`, `spark`, or `auto` by the size of the data; unless
                said, as the graph's options say.
            actor: who does it; kept on the commit.
            message: why; kept on the commit.
            on_error: `fail` refuses everything if one row is bad, `skip` leaves bad rows out and
                reports them.
            max_errors: how many faults are told one by one; all are counted.
            idempotency_key: repeating a load under its key writes once and returns what it did;
                the same load is one of the same content, mode and actor.
            spark: a SparkSession to run on, or `SparkSettings` to start one for this load.
            columns: what columns of tables and fields of flat objects are called here:
                `{"Customer ID": "customer_id", "Buyer": "from"}`; `id` is the key of a node.
            mapping: a file that says the same type by type, as `schema infer` writes it.
            delimiter: what stands between the cells of CSV files; seen from their headers unless
                said.
            encoding: what CSV files are written in; UTF-8, or what their first bytes say, unless
                said.
            progress: hears about the stages.
            limits: memory (and, if said, time) limits of this process until the commit begins.

        Raises:
            BudgetExceededError: a limit was reached; nothing was written.
            ConstraintError: rows break rules; nothing was written. Names file and line.
            NotFoundError: a file or the branch does not exist.
            ConflictError: someone else changed what this load relied on.
        """
        from omnigraph.pipeline.inputs.mapping import asked_columns
        from omnigraph.pipeline.load.job import LoadTarget, load_data
        from omnigraph.pipeline.run.engines import Engines  # reading files needs more of Arrow

        who = self._who(actor, message=message, idempotency_key=idempotency_key)
        state, defaults = self._state, self._state.options.pipeline
        called = asked_columns(mapping, columns, delimiter, encoding)
        options = load_options(mode, engine, on_error, defaults, max_errors, called)
        target = LoadTarget(
            state.store,
            state.catalog,
            self.name,
            who,
            state.embedder,
            state.options.clock,
            state.input_options,
            message,
        )
        given = spark if spark is not None else defaults.spark
        with state.job_budget(limits), Engines(options, given, defaults.own_spark()) as engines:
            return load_data(target, data, options, engines, progress, idempotency_key)

    def write_spark(
        self,
        frame: DataFrame,
        *,
        type: str,
        mode: str = "append",
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> LoadResult:
        """Commit a Spark DataFrame with rows of one type as one commit; see `load`."""
        return self.load(
            {type: frame},
            mode,
            actor=actor,
            idempotency_key=idempotency_key,
            spark=frame.sparkSession,
        )

    def spark_sink(
        self,
        *,
        type: str | None = None,
        split: Callable[[DataFrame], Mapping[str, DataFrame]] | None = None,
        mode: str = "append",
        actor: str | None = None,
    ) -> Callable[[DataFrame, int], None]:
        """Return what `writeStream.foreachBatch` is given: every batch is one commit, made once.

        A batch that Spark runs again, as after a crash, writes nothing, also of edges and of nodes
        without a key: its load has a key of the query and the number of the batch.

        Args:
            type: the type all rows are of; or
            split: makes of a batch the frames of several types, as `load` takes them.
            mode: `append` or `merge`.
            actor: who does it; kept on the commits.

        Raises:
            StreamModeError: the mode would replace what the batches before have written.
            BadRequestError: not exactly one of `type` and `split` is given.
        """
        from omnigraph.graph.spark_streams import batch_sink  # needs PySpark

        who = self._who(actor)
        if (type is None) == (split is None):
            raise BadRequestError("a sink has a type, or a split into several", hint="name one")
        chosen = split or partial(_of_one_type, type)
        return batch_sink(self, chosen, mode, who)

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        *,
        actor: str | None = None,
        message: str | None = None,
        progress: Progress | None = None,
        limits: Limits | None = None,
    ) -> EmbedResult:
        """Fill the `@embed` columns as one commit.

        Args:
            types: only these node types; without any, all that have such columns.
            mode: `fill_missing` makes what is missing, `reembed_all` makes everything again, as
                after a change of the embedder.
            actor: who does it; kept on the commit.
            message: why; kept on the commit.
            progress: hears about batches.
            limits: memory (and, if said, time) limits until the commit begins.

        Raises:
            BudgetExceededError: a limit was reached; nothing was written.
            EmbeddingError: the embedder failed, or there is none; nothing was written.
            ConflictError: somebody changed one of the tables meanwhile; run it again.
        """
        from omnigraph.pipeline.embed.graph import EmbedTarget, embed_graph  # a bulk job

        state, who = self._state, self._who(actor, message=message)
        target = EmbedTarget(state.store, state.catalog, self.name, who, state.embedder, message)
        with state.job_budget(limits):
            return embed_graph(target, types, mode, progress)

    def optimize(
        self,
        *,
        tables: Sequence[str] = (),
        preview: bool = False,
        max_seconds: float | None = None,
        progress: Progress | None = None,
        spark: object = None,
    ) -> list[CompactionStats]:
        """Compact tables: the same rows in fewer pieces. All history stays; twice is as once.

        Args:
            tables: only these, by their keys (`node:Person`); without any, all of the branch.
            preview: only tell what would be merged; how much comes of it is estimated.
            max_seconds: begin no table later than this; what is left is told as `out_of_time`.
            progress: hears about tables.
            spark: a session, or settings to start one, which does the rewriting.

        Raises:
            NotFoundError: there is no such table.
        """
        names = names_argument(tables, "tables")
        limit = seconds_of(max_seconds, "max_seconds")
        store = self._state.store
        optimize = partial(
            store.optimize,
            self.name,
            tables=names,
            preview=preview,
            max_seconds=limit,
            progress=progress,
            actor=self.actor,
        )
        if spark is None or preview:
            done = optimize()
        else:
            from omnigraph.pipeline.run.engines import Engines, on_spark

            with Engines(on_spark(), spark) as engines:
                done = optimize(runner=engines.choose(0).runner)
        if not preview:
            self._state.build_cache(self.name)
        return with_pending_indexes(store, self.catalog, self.name, done)

    def indices(self) -> list[IndexReport]:
        """Return every index the schema asks for, and how far it covers the rows.

        Rows without are looked for all the same; `ensure_indices` builds what is missing.
        """
        return index_coverage(self._state.store, self.catalog, self.name)

    def ensure_indices(self, *, spark: object = None) -> list[IndexReport]:
        """Build the indexes the schema asks for, and bring existing ones up to date.

        Safe to repeat. Answers never depend on indexes; those that cannot be built yet are
        reported as pending. With `spark` (a session, or settings) missing ones are built there.
        """
        store, catalog, who = self._state.store, self.catalog, self.actor
        if spark is None:
            return ensure_indexes(store, catalog, self.name, actor=who)
        from omnigraph.pipeline.run.engines import Engines, on_spark

        with Engines(on_spark(), spark) as engines:
            runner = engines.choose(0).runner
            return ensure_indexes(store, catalog, self.name, runner, actor=who)

    def _begin_write(self, actor: str | None, message: str | None) -> WriteSession:
        """Begin a write on top of the branch as it is."""
        who = self._who(actor, message=message)
        return self._state.store.begin(self.name, who, writer_kind="Algorithm", message=message)

    def _who(self, actor: str | None, **labels: str | None) -> str | None:
        """Return who writes, having checked everything that is kept with a commit."""
        check_labels(branch=self.name, actor=actor, **labels)
        return who_writes(self.actor, actor)


def _of_one_type(type_name: str | None, frame: DataFrame) -> Mapping[str, DataFrame]:
    assert type_name is not None, "the caller has checked it"
    return {type_name: frame}


def view_at(state: GraphState, branch: str, moment: str | int) -> GraphView:
    """Return the graph as it was at a moment; found now, and read as often as asked."""
    if moment is None:  # a moment that was never set must not become now
        raise BadRequestError("no moment is given", hint="pass a commit id or a version")
    snapshot = state.snapshot(branch, moment)
    return GraphView(state, lambda: snapshot)
