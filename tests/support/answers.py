"""Running one query through the engine and through the oracle, as rows that can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.compile import BoundQuery, CompiledQuery
from omnigraph.compiler.ir.facts import facts_of
from omnigraph.compiler.ir.lower import lower
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typecheck import typecheck
from omnigraph.compiler.query.typed import TypedRead
from omnigraph.compiler.source import Source
from omnigraph.engine.read.context import Images
from omnigraph.engine.read.prepare import prepare
from omnigraph.engine.read.run import run_read
from tests.support import oracle

Row = dict[str, Any]


class Question:
    """A checked query with its parameters bound."""

    def __init__(self, catalog: Catalog, text: str, params: Mapping[str, Any]) -> None:
        source = Source(text)
        checked = typecheck(catalog, source, parse_queries(source).queries[0])
        assert isinstance(checked, TypedRead)
        self.meaning = checked
        self.plain_ir = lower(checked)
        self.ir = optimize(self.plain_ir, facts_of(catalog))
        self.bound: BoundQuery = CompiledQuery("q", self.ir).bind(params, now_ms=1_700_000_000_000)

    def asked(self, graph: oracle.Graph) -> list[Row]:
        """Return what the oracle says."""
        bound = self.bound
        return oracle.evaluate(self.meaning, graph, bound.params, bound.limit, bound.offset)

    def answered(self, images: Images, ir: Any = None) -> list[Row]:
        """Return what the engine says."""
        return plain_rows(run_read(prepare(ir or self.ir), images, self.bound).to_table())


def plain_rows(table: pa.Table) -> list[Row]:
    """Return rows as dicts; dates as days, datetimes as milliseconds."""
    columns = {name: _plain(table.column(name).combine_chunks()) for name in table.column_names}
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _plain(column: pa.Array) -> Sequence[Any]:
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_date64(kind):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_list(kind) and pa.types.is_date32(kind.value_type):
        return column.cast(pa.list_(pa.int32())).to_pylist()
    return column.to_pylist()


def listed(rows: list[Row]) -> list[Row]:
    """Return rows with lists where the oracle keeps tuples of literals."""
    return [
        {name: list(one) if isinstance(one, tuple) else one for name, one in row.items()}
        for row in rows
    ]
