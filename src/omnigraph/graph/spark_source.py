"""Graphs as Spark reads them: `spark.read.format("omnigraph")`, one type at one commit.

Loaded only where PySpark is, and run by its workers: every method may find itself in another
process and opens what it needs. Filters are not pushed down: in PySpark 4.3 a pushed filter stays
with the DataFrame it was asked of, and later answers of it are wrong. Name `columns` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.config.environment import process_environment, s3_options
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph.graph import Graph, connect
from omnigraph.graph.history import GraphAt
from omnigraph.graph.options import GraphOptions
from omnigraph.pipeline.fragments import TablePiece, table_pieces
from omnigraph.pipeline.spark_types import spark_rows, spark_schema
from omnigraph.storage.options import StorageOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = "omnigraph"
_PIECES = 256


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are read: a type of a graph at a commit, some columns or all."""

    uri: str
    branch: str
    type_name: str
    commit: str | None
    columns: tuple[str, ...]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Wanted:
        """Return what the options of a read ask for."""
        uri, type_name = options.get("path") or options.get("uri"), options.get("type")
        if uri is None or type_name is None:
            missing = "the address of a graph" if uri is None else "the option 'type'"
            raise BadRequestError(
                f"{missing} is missing", hint='.option("type", "Person").load("people.omni")'
            )
        columns = tuple(one.strip() for one in options.get("columns", "").split(",") if one.strip())
        branch = options.get("branch", "main")
        return cls(uri, branch, type_name, options.get("commit"), columns)

    def open(self) -> Graph:
        """Open the graph for reading."""
        storage = StorageOptions(
            s3=s3_options(process_environment())
            if self.uri.startswith("s3://")
            else StorageOptions().s3
        )
        return connect(
            self.uri, read_only=True, options=GraphOptions(storage=storage, embedder=None)
        )

    def at(self, graph: Graph) -> GraphAt:
        """Return the state of the graph to read."""
        if self.commit is None:
            return GraphAt(graph, graph.snapshot(self.branch))
        return graph.at(self.commit, branch=self.branch)

    def table_key(self, catalog: Catalog) -> str:
        """Return the table of the type."""
        kind = catalog.nodes.get(self.type_name) or catalog.find_edge(self.type_name)
        if kind is None:
            raise NotFoundError(f"the schema has no type '{self.type_name}'")
        return kind.table_key

    def schema(self) -> pa.Schema:
        """Return the columns to read, as Spark has them."""
        with self.open() as graph:
            then = self.at(graph)
            stored = then.snapshot.open(self.table_key(then.catalog)).schema
        found = spark_schema(stored)
        unknown = [name for name in self.columns if name not in found.names]
        if unknown:
            raise NotFoundError(f"{self.type_name} has no column '{unknown[0]}'")
        return found if not self.columns else spark_schema(_selected(stored, self.columns))


def _selected(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in columns])


@dataclass
class Piece(InputPartition):
    """Some fragments of the table, for one task."""

    piece: TablePiece


class OmniGraphSource(DataSource):
    """The data source of graphs."""

    @classmethod
    def name(cls) -> str:
        """Return the word for `format`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the type."""
        return from_arrow_schema(Wanted.of(self.options).schema())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is our own
        """Return who reads the rows."""
        return _Reader(Wanted.of(self.options))


class _Reader(DataSourceReader):
    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        with self._wanted.open() as graph:
            then = self._wanted.at(graph)
            key = self._wanted.table_key(then.catalog)
            return [Piece(piece) for piece in table_pieces(then.snapshot, key, _PIECES)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Piece):  # Spark reads an empty table by one empty partition
            return
        for batch in partition.piece.batches(self._wanted.columns or None, blobs=False):
            yield spark_rows(batch)


def register_source(session: SparkSession) -> None:
    """Let a session read graphs: `session.read.format("omnigraph")`."""
    session.dataSource.register(OmniGraphSource)


def frames(session: SparkSession, then: GraphAt) -> dict[str, DataFrame]:
    """Return one DataFrame per type, all at one snapshot."""
    register_source(session)
    snapshot, catalog = then.snapshot, then.catalog
    return {
        name: session.read.format(FORMAT)
        .options(type=name, branch=str(snapshot.branch), commit=str(snapshot.commit_id))
        .load(then.uri)
        for name in (*catalog.nodes, *catalog.edges)
    }
