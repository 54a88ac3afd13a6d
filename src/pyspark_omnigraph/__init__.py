"""What makes `spark.read.format("omnigraph")` work: Spark finds modules of this name by itself.

It loads them whenever any session first asks for a format it does not know, so nothing but PySpark
is loaded here; the graph is, once somebody reads one. Every method may run in another process.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from omnigraph.graph.spark_streams import ChangeStream


def register(session: SparkSession) -> None:
    """Let streams that this thread starts in a session go to graphs, by `format("omnigraph")`.

    For sinks Spark looks for no format, and it asks the session that is active in the thread,
    which need not be the one whose frame it is; making a frame makes a session the active one.
    """
    session.dataSource.register(DefaultSource)
    session.createDataFrame([], "nothing int")


class DefaultSource(DataSource):
    """The data source of graphs: rows of one type, as they were when the read was asked for."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        from omnigraph.graph.spark_source import Wanted  # see the module
        from omnigraph.graph.spark_streams import is_stream

        super().__init__(options)
        # Found once, here: every use of a DataFrame reads the same commit, whatever is written.
        self._rows = None if is_stream(options) else Wanted.of(options).find()

    @classmethod
    def name(cls) -> str:
        """Return the word for `format`."""
        return "omnigraph"

    def schema(self) -> StructType:
        """Return the columns of the type, or those that were asked for."""
        return self._changes().schema if self._rows is None else self._rows.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return who reads the rows; `schema` may be the caller's own."""
        if self._rows is None:
            raise ValueError("these options are of a stream: use readStream or writeStream")
        return self._rows.reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's
        """Return who tells the changes of a type."""
        return self._changes()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802, ARG002 - Spark's
        """Return who takes the batches of a stream, each once."""
        from omnigraph.graph.spark_streams import StreamSink  # see the module

        return StreamSink(self.options)

    def _changes(self) -> ChangeStream:
        from omnigraph.graph.spark_streams import ChangeStream  # see the module

        return ChangeStream(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse: rows of one format call cannot be one commit under the rules of a load."""
        from omnigraph.graph.spark_source import refuse_write  # see the module

        refuse_write(schema, overwrite=overwrite)
