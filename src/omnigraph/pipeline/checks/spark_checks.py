"""The second stage on Spark: the validator's rules across rows, as joins of key columns.

For loads whose keys are too many for one process. Tasks write the key columns, loaded and
committed, as Parquet. The joins run inside the JVM, with Spark's own shuffle; back come numbers of
rows, which are put into words from the spilled rows. Nothing is found in the usual case, and one
job that counts says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.api.violations import Rule, Violation
from omnigraph.api.words import Mode
from omnigraph.base.table_keys import node_key
from omnigraph.compiler.catalog.model import DST, ID, SRC, EdgeType
from omnigraph.engine.write.cardinality import wrong_count
from omnigraph.engine.write.validate import (
    already_there,
    left_alone,
    no_such_end,
    not_unique,
)
from omnigraph.engine.write.violations import Broken
from omnigraph.errors import InternalError
from omnigraph.pipeline.checks.keys import KeysTask, committed_keys, loaded_keys, write_keys
from omnigraph.pipeline.checks.together import Repeats, compared_tables
from omnigraph.pipeline.inputs.row_ids import Ints
from omnigraph.pipeline.inputs.rows import AT, Kind, group_column
from omnigraph.pipeline.run.spark import SparkRunner
from omnigraph.pipeline.stages.loaded import Gone, Loaded
from omnigraph.storage.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIRST, _OTHER, _NUMBER, _COUNT, _QUERY = "first", "other", "number", "count", "query"


@dataclass(frozen=True, slots=True)
class _Query:
    """One rule of one table: how to count what breaks it, how to list it, and what to say."""

    rule: Rule
    kind: Kind
    counted: DataFrame
    """One row with the number of violations."""
    listed: DataFrame
    """One row per violation."""
    tell: Callable[[dict[str, Any]], Violation]
    order: str = AT


class SparkChecks:
    """Finds what rows break together with Spark SQL."""

    def __init__(
        self,
        loaded: Loaded,
        mode: Mode,
        base: Snapshot,
        runner: SparkRunner,
        folder: Path,
    ) -> None:
        self._loaded = loaded
        self._mode = mode
        self._base = base
        self._runner = runner
        self._session = runner.session
        self._folder = folder
        self._rounds = 0
        self._gone: Gone = {}
        self._known: list[int] | None = None
        """What the rules across rows count while no row is left out."""
        self._committed: dict[str, DataFrame | None] = {}
        self._write_committed(sorted(compared_tables(loaded, mode)))
        self._own = self._write_loaded()

    def repeats(self) -> Iterator[Repeats]:
        """Yield the ids that are given more than once."""
        queries = [
            self._same(Rule.KEY, self._loaded.catalog.type_named(key), ID, _nothing)
            for key in self._loaded.keys
            if not self._loaded.generated(key)
        ]
        # Mostly there are none, and then the other rules are counted by the same job.
        others = list(self._queries())
        counts = _counted([*queries, *others])
        if not any(counts[: len(queries)]):
            self._known = counts[len(queries) :]
        for query, count in zip(queries, counts, strict=False):
            if count:
                rows = _listed(query)
                yield Repeats(query.kind.table_key, _ints(rows, AT), _ints(rows, _FIRST))

    def across(self, gone: Gone) -> Iterator[Broken]:
        """Yield every rule across rows that is broken once some rows are left out."""
        self._rounds += 1
        self._gone = gone
        queries = list(self._queries())
        known, self._known = self._known, None
        if known is None or any(map(len, gone.values())):
            known = _counted(queries)
        for query, count in zip(queries, known, strict=True):
            if count:
                rows = _listed(query)
                key = query.kind.table_key
                yield Broken(query.rule, key, _ints(rows, AT), partial(_tell, query, rows))

    # Rules

    def _queries(self) -> Iterator[_Query]:
        """Yield the rules in the validator's order."""
        catalog = self._loaded.catalog
        for node in catalog.nodes.values():
            if node.table_key in self._loaded.spills:
                yield from self._already_there(node)
                yield from self._uniqueness(node)
        for edge in catalog.edges.values():
            if edge.table_key in self._loaded.spills:
                yield from self._already_there(edge)
                yield from self._endpoints(edge)
                yield from self._uniqueness(edge)
                yield from self._cardinality(edge)
            yield from self._left_behind(edge)

    def _already_there(self, kind: Kind) -> Iterator[_Query]:
        if self._mode is not Mode.APPEND or self._loaded.generated(kind.table_key):
            return
        committed = self._staying(kind.table_key)
        if committed is None:
            return
        found = self._rows(kind.table_key).join(committed.select(ID), ID, "left_semi")
        yield _query(Rule.KEY, kind, found.select(AT), self._telling(kind, _already_there))

    def _uniqueness(self, kind: Kind) -> Iterator[_Query]:
        for number, group in enumerate(kind.unique):
            column = group_column(number)
            yield self._same(Rule.UNIQUE, kind, column, self._not_unique(kind, group))
            committed = self._staying(kind.table_key)
            if committed is None:
                continue
            rows = self._rows(kind.table_key)
            others = committed.select(column, committed[ID].alias(_OTHER)).where(
                f"{column} is not null"
            )
            found = rows.join(others, column).select(AT, _OTHER)
            if not self._loaded.generated(kind.table_key):  # a row of the same id counts no more
                same_id = rows.select(rows[ID].alias(_OTHER))
                found = found.join(same_id, _OTHER, "left_anti").select(AT, _OTHER)
            yield _query(Rule.UNIQUE, kind, found, self._not_unique(kind, group))

    def _endpoints(self, edge: EdgeType) -> Iterator[_Query]:
        for end, node in ((SRC, edge.from_type), (DST, edge.to_type)):
            known = self._node_ids(node)
            rows = self._rows(edge.table_key)
            found = rows.select(AT, end).join(known, rows[end] == known[ID], "left_anti")
            yield _query(Rule.ENDPOINT, edge, found.select(AT), self._no_such_end(edge, end, node))

    def _cardinality(self, edge: EdgeType) -> Iterator[_Query]:
        from pyspark.sql import functions as sql

        low, high = edge.cardinality.min, edge.cardinality.max
        if low == 0 and high is None:
            return
        rows = self._rows(edge.table_key)
        numbered = rows.select(SRC, rows[AT].alias(_FIRST), sql.lit(1).alias(_NUMBER))
        committed = self._staying(edge.table_key)
        if committed is not None:
            touched = rows.select(SRC)
            if not self._loaded.generated(edge.table_key):
                replaced = committed.join(rows.select(ID), ID, "left_semi")
                touched = touched.union(replaced.select(SRC))
                committed = committed.join(rows.select(ID), ID, "left_anti")
                # A source that keeps none of its edges still counts as one without any.
                nothing = replaced.select(
                    SRC, sql.lit(None).cast("bigint").alias(_FIRST), sql.lit(0).alias(_NUMBER)
                )
                numbered = numbered.union(nothing)
            kept = committed.join(touched.distinct(), SRC, "left_semi").select(
                SRC, sql.lit(None).cast("bigint").alias(_FIRST), sql.lit(1).alias(_NUMBER)
            )
            numbered = numbered.union(kept)
        counts = numbered.groupBy(SRC).agg(
            sql.sum(_NUMBER).alias(_NUMBER),
            sql.coalesce(sql.min(_FIRST), sql.lit(-1)).alias(AT),
        )
        outside = f"{_NUMBER} < {low}" + ("" if high is None else f" or {_NUMBER} > {high}")
        yield _query(
            Rule.CARDINALITY,
            edge,
            counts.where(outside).select(AT, SRC, _NUMBER),
            lambda row: wrong_count(edge, row[SRC], row[_NUMBER]),
            order=SRC,
        )

    def _left_behind(self, edge: EdgeType) -> Iterator[_Query]:
        """An edge that stays must find its end among the rows that replace the nodes."""
        from pyspark.sql import functions as sql

        ends = ((SRC, edge.from_type), (DST, edge.to_type))
        replaced = [(end, node) for end, node in ends if self._loaded_now(node_key(node))]
        if self._mode is not Mode.OVERWRITE or not replaced:
            return
        committed = self._staying(edge.table_key)
        if committed is None:
            return
        for end, node in replaced:
            known = self._rows(node_key(node)).select(ID).withColumnRenamed(ID, _OTHER)
            lost = committed.join(known, committed[end] == known[_OTHER], "left_anti")
            yield _query(
                Rule.ENDPOINT,
                edge,
                lost.select(sql.lit(-1).cast("bigint").alias(AT), ID, end),
                partial(_left_alone, edge.name, end),
                order=ID,
            )

    def _same(
        self, rule: Rule, kind: Kind, column: str, tell: Callable[[dict[str, Any]], Violation]
    ) -> _Query:
        """Return the rule that no two rows agree in a column."""
        from pyspark.sql import functions as sql

        rows = self._rows(kind.table_key).where(f"{column} is not null")
        firsts = (
            rows.groupBy(column)
            .agg(sql.min(AT).alias(_FIRST), sql.count("*").alias(_COUNT))
            .where(f"{_COUNT} > 1")
        )
        counted = firsts.agg(sql.coalesce(sql.sum(sql.col(_COUNT) - 1), sql.lit(0)).alias(_COUNT))
        listed = rows.join(firsts, column).where(f"{AT} <> {_FIRST}").select(AT, _FIRST)
        return _Query(rule, kind, counted, listed, tell)

    # Words

    def _telling(
        self, kind: Kind, describe: Callable[[Kind, dict[str, Any]], Violation]
    ) -> Callable[[dict[str, Any]], Violation]:
        return lambda row: describe(kind, self._loaded.find(kind.table_key, row[AT]))

    def _no_such_end(
        self, edge: EdgeType, end: str, node: str
    ) -> Callable[[dict[str, Any]], Violation]:
        def tell(row: dict[str, Any]) -> Violation:
            found = self._loaded.find(edge.table_key, row[AT])
            return no_such_end(edge.name, end, node, found[ID], found[end])

        return tell

    def _not_unique(
        self, kind: Kind, group: tuple[str, ...]
    ) -> Callable[[dict[str, Any]], Violation]:
        def tell(row: dict[str, Any]) -> Violation:
            found = self._loaded.find(kind.table_key, row[AT])
            other = row.get(_OTHER)
            if other is None:
                other = self._loaded.find(kind.table_key, row[_FIRST])[ID]
            return not_unique(kind.name, group, [found[name] for name in group], found[ID], other)

        return tell

    # Tables

    def _rows(self, key: str) -> DataFrame:
        rows = self._session.read.schema(
            _schema(self._loaded.catalog.type_named(key), at=True)
        ).parquet(*self._own[key])
        gone = self._gone.get(key)
        if gone is None or not len(gone):
            return rows
        path = self._folder / f"gone.{self._rounds}.{self._loaded.keys.index(key)}.parquet"
        if not path.exists():
            pq.write_table(pa.table({AT: gone}), path)
        return rows.join(
            self._session.read.schema(f"`{AT}` bigint").parquet(str(path)), AT, "left_anti"
        )

    def _staying(self, key: str) -> DataFrame | None:
        """Return the committed keys of a table unless the load replaces them all."""
        if self._mode is Mode.OVERWRITE and self._loaded_now(key):
            return None
        if key not in self._committed:  # a table that was to be replaced, by rows that are all bad
            self._write_committed([key])
        return self._committed[key]

    def _loaded_now(self, key: str) -> bool:
        return key in self._loaded.spills and self._loaded.count(key, self._gone) > 0

    def _node_ids(self, node: str) -> DataFrame:
        key = node_key(node)
        parts = [self._rows(key).select(ID)] if key in self._loaded.spills else []
        committed = self._staying(key)
        if committed is not None:
            parts.append(committed.select(ID))
        if not parts:
            return self._session.createDataFrame([], f"`{ID}` string")
        return parts[0] if len(parts) == 1 else parts[0].union(parts[1])

    def _write_committed(self, keys: Sequence[str]) -> None:
        """Let tasks write the keys of committed rows that the load can clash with."""
        tasks: list[KeysTask] = []
        for key in keys:
            self._committed[key] = None
            if self._base.table(key).row_count:
                kind = self._loaded.catalog.type_named(key)
                tasks += committed_keys(self._base, kind, self._folder, self._runner.parallelism)
        for key, found in self._written(tasks).items():
            schema = _schema(self._loaded.catalog.type_named(key), at=False)
            self._committed[key] = self._session.read.schema(schema).parquet(*found)

    def _write_loaded(self) -> dict[str, list[str]]:
        """Let tasks write the keys of the loaded rows; return the files, by table."""
        tasks: list[KeysTask] = []
        for key, spills in self._loaded.spills.items():
            tasks += loaded_keys(spills, self._loaded.catalog.type_named(key), self._folder)
        return self._written(tasks)

    def _written(self, tasks: list[KeysTask]) -> dict[str, list[str]]:
        paths: dict[str, list[str]] = {}
        for task, path in zip(tasks, self._runner.map(write_keys, tasks), strict=True):
            paths.setdefault(task.kind.table_key, []).append(str(path))
        return paths


def _counted(queries: list[_Query]) -> list[int]:
    """Return how often each rule is broken, in one job."""
    from pyspark.sql import functions as sql

    if not queries:
        return []
    counts = [
        query.counted.select(sql.lit(number).alias(_QUERY), _COUNT)
        for number, query in enumerate(queries)
    ]
    found = {row[_QUERY]: int(row[_COUNT]) for row in reduce(_union, counts).collect()}
    return [found[number] for number in range(len(queries))]


def _listed(query: _Query) -> pa.Table:
    """Return what breaks a rule, in the order in which it is told."""
    return query.listed.toArrow().sort_by(query.order)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)


def _query(
    rule: Rule,
    kind: Kind,
    listed: DataFrame,
    tell: Callable[[dict[str, Any]], Violation],
    order: str = AT,
) -> _Query:
    from pyspark.sql import functions as sql

    return _Query(rule, kind, listed.agg(sql.count("*").alias(_COUNT)), listed, tell, order)


def _schema(kind: Kind, *, at: bool) -> str:
    ends = [SRC, DST] if isinstance(kind, EdgeType) else []
    texts = [ID, *ends, *(group_column(number) for number in range(len(kind.unique)))]
    columns = [f"`{AT}` bigint"] if at else []
    return ", ".join([*columns, *(f"`{name}` string" for name in texts)])


def _tell(query: _Query, rows: pa.Table, number: int) -> Violation:
    return query.tell(rows.slice(number, 1).to_pylist()[0])


def _left_alone(edge: str, end: str, row: dict[str, Any]) -> Violation:
    return left_alone(edge, end, row[ID], row[end], "replaced away")


def _already_there(kind: Kind, row: dict[str, Any]) -> Violation:
    return already_there(kind.name, row[ID])


def _nothing(row: dict[str, Any]) -> Violation:
    raise InternalError(f"repeated ids are told where rows are read, not here: {row}")


def _ints(rows: pa.Table, name: str) -> Ints:
    return np.asarray(rows[name])
