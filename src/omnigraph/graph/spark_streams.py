"""Graphs in Structured Streaming: a sink that takes every batch once, a source that tells changes.

Spark runs a batch again when it does not know whether it was done. A batch therefore is a load
under a key made of the stream and the number of the batch: asked again, it writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema

from omnigraph.api.changes import EntityChange
from omnigraph.base.arguments import word_argument
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.model import DST, ID, SRC, EdgeType, NodeType
from omnigraph.errors import BadRequestError
from omnigraph.graph.graph import Graph, connect
from omnigraph.graph.options import GraphOptions
from omnigraph.pipeline.inputs.columns import from_json, json_type
from omnigraph.pipeline.query.carried import sort_key
from omnigraph.pipeline.run.spark_types import spark_rows, spark_schema
from omnigraph.storage.options import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from omnigraph.api.words import Mode
    from omnigraph.graph.branch import GraphBranch

_MODES = ("append", "merge")
_SINK = ("path", "type", "branch", "stream", "mode", "actor", "checkpointlocation")
_SOURCE = ("path", "type", "branch", "changes", "cursor")
_FACTS = pa.schema(
    [
        pa.field("_op", pa.string()),
        pa.field("_commit", pa.string()),
        pa.field("_changed", pa.list_(pa.field("element", pa.string()))),
    ]
)
_QUERY_ID = "sql.streaming.queryId"

Split = Callable[["DataFrame"], Mapping[str, "DataFrame"]]


class StreamModeError(BadRequestError):
    """A stream adds to what is there; it never replaces it."""


def stream_mode(mode: object) -> str:
    """Return how a batch is loaded.

    Raises:
        StreamModeError: it would replace the batches before it.
    """
    if mode == "overwrite":
        raise StreamModeError(
            "a batch would replace those before it", hint=f"use {' or '.join(_MODES)}"
        )
    return word_argument(mode, _MODES, "mode")


def batch_sink(
    branch: GraphBranch, split: Split, mode: str | Mode, actor: str | None
) -> Callable[[DataFrame, int], None]:
    """Return what `foreachBatch` calls: it commits a batch, once however often it is asked."""
    chosen = stream_mode(mode)

    def commit(frame: DataFrame, batch: int) -> None:
        session = frame.sparkSession
        query = session.sparkContext.getLocalProperty(_QUERY_ID)
        if query is None:
            raise BadRequestError(
                "this is no batch of a stream", hint="pass it to writeStream.foreachBatch(…)"
            )
        key = f"spark stream {query} batch {batch}"
        branch.load(split(frame), chosen, spark=session, actor=actor, idempotency_key=key)

    return commit


@dataclass(frozen=True, slots=True)
class Place:
    """A branch of a graph, as another process opens it, whose environment names object stores."""

    uri: str
    branch: str

    def open(self, *, read_only: bool) -> Graph:
        """Open the graph."""
        options = GraphOptions(embedder=None, storage=StorageOptions())
        return connect(self.uri, read_only=read_only, options=options)


def is_stream(given: Mapping[str, str]) -> bool:
    """Whether the options of a format are those of a stream."""
    names = {name.lower() for name in given}
    return bool(names & {"stream", "changes"})


def _options(
    given: Mapping[str, str], known: Sequence[str], needed: Sequence[str]
) -> dict[str, str]:
    found = {name.lower(): value for name, value in given.items()}
    for name in found:
        if name not in known:
            raise BadRequestError(f"unknown option '{name}'", hint=f"there are {', '.join(known)}")
    for name in needed:
        if not found.get(name):
            raise BadRequestError(f"the option '{name}' is missing")
    return found


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The rows of one task, as an Arrow stream."""

    rows: bytes


class StreamSink(DataSourceStreamArrowWriter):
    """Takes the batches of a stream: each is one load on the driver, under the number it has."""

    def __init__(self, given: Mapping[str, str]) -> None:
        options = _options(given, _SINK, ("path", "type", "stream"))
        self._place = Place(options["path"], options.get("branch", "main"))
        self._type, self._stream = options["type"], options["stream"]
        self._mode, self._actor = stream_mode(options.get("mode", "append")), options.get("actor")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Return the rows of a task."""
        sink, writer = pa.BufferOutputStream(), None
        for batch in iterator:
            writer = writer or pa.ipc.new_stream(sink, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()
        return Written(sink.getvalue().to_pybytes())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Load a batch, once however often it is asked."""
        tables = [
            pa.ipc.open_stream(one.rows).read_all()
            for one in messages
            if isinstance(one, Written) and one.rows
        ]
        if not tables:
            return
        rows = _in_order(pa.concat_tables(tables))
        with self._place.open(read_only=False) as graph:
            graph.load(
                {self._type: rows},
                self._mode,
                branch=self._place.branch,
                actor=self._actor,
                idempotency_key=f"spark stream {self._stream} batch {batchId}",
            )


def _in_order(rows: pa.Table) -> pa.Table:
    """Return rows in an order of their own: a batch that is run again may be cut otherwise."""
    keys = pa.table([sort_key(_plain(column)) for column in rows.columns], rows.column_names)
    numbered = keys.append_column("~row", pa.array(range(len(rows))))
    by = [(name, "ascending") for name in rows.column_names]
    return rows.take(numbered.sort_by(by)["~row"])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a type that keys are made of."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64())
    if pa.types.is_decimal(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    return column


@dataclass
class Step(InputPartition):
    """What happened between two places of a feed."""

    since: str
    until: str


class ChangeStream(DataSourceStreamReader):
    """Tells what every commit did to the rows of one type, from the feed of a branch."""

    def __init__(self, given: Mapping[str, str]) -> None:
        options = _options(given, _SOURCE, ("path", "type"))
        self._place = Place(options["path"], options.get("branch", "main"))
        self._since = options.get("cursor", "")
        with self._place.open(read_only=True) as graph:
            self._kind = graph.branch(self._place.branch).catalog.type_named(options["type"])
            if self._since == "now":
                self._since = _newest(graph, self._place.branch)
        self._columns = _columns_of(self._kind)

    @property
    def schema(self) -> StructType:
        """The columns of a change: what happened, in which commit, and the row."""
        found: StructType = from_arrow_schema(spark_schema(self._arrow_schema()))
        return found

    def _arrow_schema(self) -> pa.Schema:
        return pa.schema([*_FACTS, *(one.with_nullable(True) for one in self._columns)])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the stream begins."""
        return {"cursor": self._since}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's
        """Return the place after the newest commit.

        Raises:
            FeedResetError: the stream cannot go on from where it is.
        """
        with self._place.open(read_only=True) as graph:
            # Refused now, before a batch is planned over a gap.
            graph.changes(self._place.branch, since=start["cursor"] or None)
            return {"cursor": _newest(graph, self._place.branch)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task for all that happened between two places."""
        since, until = start["cursor"], end["cursor"]
        return [] if since == until else [Step(since, until)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes, commit by commit.

        Raises:
            FeedResetError: states that were to be compared are gone.
        """
        assert isinstance(partition, Step)
        with self._place.open(read_only=True) as graph:
            groups = graph.changes(
                self._place.branch,
                since=partition.since or None,
                types=[self._kind.table_key],
                images="both",
                max_rows=_GROUP_ROWS,
            )
            for group in groups:
                if group.changes:
                    yield spark_rows(self._batch(group.commit.graph_commit_id, group.changes))
                if group.cursor == partition.until:
                    return

    def _batch(self, commit: str, changes: Sequence[EntityChange]) -> pa.RecordBatch:
        facts = [
            pa.array([one.op for one in changes], pa.string()),
            pa.repeat(pa.scalar(commit), len(changes)),
            pa.array([list(one.changed) for one in changes], _FACTS.field("_changed").type),
        ]
        images = [_image(one) for one in changes]
        columns = [self._column(one.name, images) for one in self._columns]
        schema = self._arrow_schema()
        arrays = [made.cast(one.type) for made, one in zip([*facts, *columns], schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, name: str, images: Sequence[Mapping[str, Any]]) -> pa.Array:
        values = [one.get(name) for one in images]
        prop = self._kind.properties.get(name)
        if prop is None or name in (ID, SRC, DST):
            return pa.array(values, pa.string())
        return from_json(pa.array(values, json_type(prop.type)), prop.type)


_GROUP_ROWS = 10_000


def _image(change: EntityChange) -> Mapping[str, Any]:
    """Return the row a change is about: as it is then, or as it was if it is gone."""
    row = dict((change.before if change.op == "delete" else change.after) or {})
    ends = change.endpoints
    if ends is not None:
        row |= {SRC: ends.src, DST: ends.dst}
    return {**row, ID: change.id}


def _columns_of(kind: NodeType | EdgeType) -> list[pa.Field]:
    """Return the columns of a type that travel: a Blob is read from the graph itself."""
    return [one for one in arrow_schema(kind) if one.name not in kind.blobs]


def _newest(graph: Graph, branch: str) -> str:
    """Return the place after the newest commit that the feed tells of."""
    told: Iterable[Any] = graph.commits.list(branch, limit=_NEWEST)
    for commit in told:
        if not commit.maintenance:
            return graph.cursor(branch, at=commit.graph_commit_id)
    for commit in graph.commits.list(branch):
        if not commit.maintenance:
            return graph.cursor(branch, at=commit.graph_commit_id)
    return ""


_NEWEST = 64
