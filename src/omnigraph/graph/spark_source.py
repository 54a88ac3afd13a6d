"""Graphs as Spark reads them: `spark.read.format("omnigraph")`, one type at one commit.

Loaded only where PySpark is, by `pyspark_omnigraph`, which Spark finds by its name. What is read is
settled once, on the driver; workers are told which fragments of which dataset to read and know
nothing of the graph. Filters are not pushed down: in PySpark 4.3 a pushed filter stays with the
DataFrame it was asked of, and later answers of it are wrong. Name `columns` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from omnigraph.base.uri import is_on_s3
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.config.environment import Environment, process_environment, s3_options
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph.graph import connect
from omnigraph.graph.options import GraphOptions
from omnigraph.pipeline.run.spark_types import spark_rows, spark_schema
from omnigraph.pipeline.stages.fragments import TablePiece, table_pieces
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.options import S3Options, StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = "omnigraph"
_PIECES = 256
_OPTIONS = ("path", "type", "branch", "commit", "version", "columns")
_S3_PREFIX = "aws_"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are to be read: a type of a graph at a moment, some columns or all."""

    uri: str
    type_name: str
    branch: str
    at: str | int | None
    """A commit, or a version of the branch; None is now."""
    columns: tuple[str, ...]
    s3: Mapping[str, str]
    """Variables that say how to reach an object store, where the environment says otherwise."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Wanted:
        """Return what the options of a read ask for.

        Raises:
            BadRequestError: something is missing, unknown or contradicts itself.
        """
        options = {name.lower(): value for name, value in given.items()}
        s3 = {name.upper(): options.pop(name) for name in [*options] if name.startswith(_S3_PREFIX)}
        for name in options:
            if name not in _OPTIONS:
                raise BadRequestError(
                    f"unknown option '{name}'", hint=f"there are {', '.join(_OPTIONS[1:])}, AWS_…"
                )
        uri, type_name = options.get("path"), options.get("type")
        if not uri or not type_name:
            missing = "the option 'type'" if uri else "the address of a graph"
            raise BadRequestError(
                f"{missing} is missing", hint='.option("type", "Person").load("people.omni")'
            )
        branch, columns = options.get("branch", "main"), _columns(options.get("columns"))
        return cls(uri, type_name, branch, _moment(options), columns, s3)

    def find(self) -> TypeFrame:
        """Open the graph and return where the rows are.

        Raises:
            NotFoundError: there is no such graph, branch, commit, version, type or column.
            BadRequestError: a node and an edge type have this name.
        """
        with connect(self.uri, read_only=True, options=self._graph_options()) as graph:
            snapshot = graph._state.snapshot(self.branch, self.at)
            kind = graph._state.catalog(snapshot).type_named(self.type_name)
            stored = spark_schema(snapshot.open(kind.table_key).schema)
            pieces = tuple(table_pieces(snapshot, kind.table_key, _PIECES))
        every: StructType = from_arrow_schema(stored)
        found = TypeFrame(kind.name, every, pieces)
        return TypeFrame(kind.name, found.chosen(self.columns), pieces) if self.columns else found

    def _graph_options(self) -> GraphOptions:
        s3 = S3Options()
        if is_on_s3(self.uri):
            s3 = s3_options(Environment(self.s3, process_environment().process))
        return GraphOptions(storage=StorageOptions(s3=s3), embedder=None)


def _columns(text: str | None) -> tuple[str, ...]:
    """Return the columns that an option names; an option without any is none at all."""
    names = () if text is None else tuple(one.strip() for one in text.split(",") if one.strip())
    for at, name in enumerate(names):
        if name in names[:at]:
            raise BadRequestError(f"column '{name}' is named twice")
    return names


def _moment(options: Mapping[str, str]) -> str | int | None:
    commit, version = options.get("commit"), options.get("version")
    if version is None:
        return commit
    if commit is not None:
        raise BadRequestError("a read is of a commit or of a version, not of both")
    if not version.isdecimal():
        raise BadRequestError(f"version '{version}' is not a whole number")
    return int(version)


@dataclass(frozen=True, slots=True)
class TypeFrame:
    """The rows of one type at one commit: their columns, and where they are."""

    type_name: str
    schema: StructType
    pieces: tuple[TablePiece, ...]

    def chosen(self, names: Sequence[str]) -> StructType:
        """Return some of the columns.

        Raises:
            NotFoundError: there is no such column.
        """
        for name in names:
            if name not in self.schema.names:
                raise NotFoundError(
                    f"{self.type_name} has no column '{name}'",
                    hint=f"it has {', '.join(self.schema.names)}",
                )
        return type(self.schema)([self.schema[name] for name in names])

    def reader(self, wanted: StructType) -> DataSourceReader:
        """Return who reads the columns of a schema, which a caller may have brought.

        Raises:
            NotFoundError: there is no such column.
            BadRequestError: a column is of another type; nothing is cast.
        """
        for ours, theirs in zip(self.chosen(wanted.names), wanted, strict=True):
            if ours.dataType != theirs.dataType:
                shown, asked = ours.dataType.simpleString(), theirs.dataType.simpleString()
                raise BadRequestError(
                    f"{self.type_name}.{ours.name} is {shown}, not {asked}",
                    hint="cast it after reading",
                )
        return _Reader(self.pieces, tuple(wanted.names))


@dataclass
class Piece(InputPartition):
    """Some fragments of the table, for one task."""

    piece: TablePiece


class _Reader(DataSourceReader):
    def __init__(self, pieces: tuple[TablePiece, ...], columns: tuple[str, ...]) -> None:
        self._pieces = pieces
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [Piece(piece) for piece in self._pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Piece):  # Spark reads an empty table by one empty partition
            return
        for batch in partition.piece.batches(self._columns, blobs=False):
            yield spark_rows(batch.select(self._columns))


def refuse_write(schema: StructType, *, overwrite: bool) -> NoReturn:
    """Tell how a DataFrame is written instead.

    Raises:
        BadRequestError: always.
    """
    mode = "overwrite" if overwrite else "append"
    raise BadRequestError(
        f"a DataFrame of {len(schema)} columns cannot be written by its format",
        hint=f'graph.write_spark(frame, type="…", mode="{mode}") makes one commit of it',
    )


def frames(
    session: SparkSession, uri: str, snapshot: Snapshot, catalog: Catalog, s3: S3Options
) -> dict[str, DataFrame]:
    """Return one DataFrame per type, all at one snapshot; `s3` says how to reach the graph.

    Types are named as in the schema; a node and an edge type that share a name, by their tables.
    """
    options = {"branch": str(snapshot.branch), "commit": str(snapshot.commit_id)}
    options |= _as_variables(s3)
    kinds: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    names = map(catalog.short_name, kinds)
    return {
        name: session.read.format(FORMAT).options(type=name, **options).load(uri) for name in names
    }


def _as_variables(s3: S3Options) -> dict[str, str]:
    """Return how a graph reaches its object store in the words of the environment."""
    named = {
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key_id,
        "AWS_SECRET_ACCESS_KEY": s3.secret_access_key,
        "AWS_SESSION_TOKEN": s3.session_token,
        "AWS_REGION": s3.region,
        "AWS_ALLOW_HTTP": "true" if s3.allow_http else None,
        "AWS_S3_FORCE_PATH_STYLE": "false" if s3.virtual_hosted_style else None,
    }
    return {name: value for name, value in named.items() if value is not None}
