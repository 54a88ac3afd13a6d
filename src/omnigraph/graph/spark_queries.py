"""Which engine runs a query, and queries that run on Spark.

Loaded only where somebody asks for an engine. Spark is never chosen for its own sake: it is asked
for, or a session is given and the query would not fit into the memory that tables may take here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.api.words import ENGINES, Engine
from omnigraph.base.arguments import word_argument
from omnigraph.base.extras import load_extra
from omnigraph.base.ids import TableKey
from omnigraph.base.table_keys import is_edge_key, type_of
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.read.reader import GraphReader
from omnigraph.errors import BadRequestError
from omnigraph.graph.state import GraphState
from omnigraph.storage.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from omnigraph.compiler.source import Source
    from omnigraph.pipeline.query.run import SparkQuery

_TEXT_BYTES, _NUMBER_BYTES, _EDGE_BYTES = 32, 8, 24


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, and who is to run it."""

    source: Source
    name: str | None
    params: Mapping[str, Any] | None
    engine: Engine
    session: object

    @classmethod
    def of(
        cls,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        engine: object,
        session: object,
    ) -> Asked:
        """Return what was asked, with the engine that a session or its absence means.

        Raises:
            BadRequestError: it is no engine, or one without what it needs.
        """
        default = "inline" if session is None else "auto"
        chosen = default if engine is None else word_argument(engine, ENGINES, "engine")
        if chosen == "spark" and session is None:
            raise BadRequestError(
                "engine='spark' needs a Spark to run on", hint="pass spark=, a SparkSession"
            )
        found: Engine = word_argument(chosen, ENGINES, "engine")
        return cls(source, name, params, found, session)


def on_spark(
    state: GraphState, reader: GraphReader, snapshot: Snapshot, asked: Asked
) -> tuple[str, SparkQuery] | None:
    """Return the name of a query and the query on Spark, or None if it is to run here.

    Raises:
        UnsupportedOnSparkError: Spark does not run one of its operators.
        RowRulesError: not every row is seen.
    """
    if asked.engine == "inline" or asked.session is None:
        return None
    catalog = state.catalog(snapshot)
    if asked.engine == "auto":
        size = _size(reader, snapshot, catalog, asked)
        if size <= state.options.image_bytes or reader.selects_few(
            snapshot, asked.source, asked.name, asked.params
        ):
            return None
    load_extra("pyspark", "spark", "a query on Spark")
    from omnigraph.pipeline.query.run import SparkQuery  # needs PySpark

    name, plan, bound = reader.planned(snapshot, asked.source, asked.name, asked.params)
    return name, SparkQuery(asked.session, plan, bound, snapshot, catalog)


def engine_line(state: GraphState, reader: GraphReader, snapshot: Snapshot, asked: Asked) -> str:
    """Return which engine would run a query, and why, in one line."""
    if asked.engine != "auto" or asked.session is None:
        if asked.engine == "auto":
            return "engine: inline, no session is given\n"
        return f"engine: {asked.engine}, asked for\n"
    size, most = _size(reader, snapshot, state.catalog(snapshot), asked), state.options.image_bytes
    told = f"it reads columns of about {size} bytes, and image_bytes is {most}"
    if size <= most:
        return f"engine: inline, {told}\n"
    return f"engine: spark, unless it selects few rows: {told}\n"


def _size(reader: GraphReader, snapshot: Snapshot, catalog: Catalog, asked: Asked) -> int:
    """Return about how many bytes the columns take in memory that a query reads."""
    reads = reader.reads(snapshot, asked.source, asked.name)
    return sum(
        snapshot.table(key).row_count * _row_bytes(catalog, key, names)
        for key, names in reads.columns.items()
    )


def _row_bytes(catalog: Catalog, key: TableKey, names: frozenset[str]) -> int:
    name = type_of(key)
    kind = catalog.edges[name] if is_edge_key(key) else catalog.nodes[name]
    widths = [
        _TEXT_BYTES if one not in kind.properties else _width(kind.properties[one].type)
        for one in names
    ]
    return sum(widths) + (_EDGE_BYTES if is_edge_key(key) else 0)


def _width(kind: PropType) -> int:
    if kind.scalar is Scalar.VECTOR:
        return 4 * (kind.dim or 0)
    is_wide = kind.is_list or kind.scalar in (Scalar.STRING, Scalar.BLOB)
    return _TEXT_BYTES if is_wide else _NUMBER_BYTES
