"""Reading one node by its id: a row or none, so there is nothing to group, order or merge."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import Compare, NodeScan, Prop, ReadIr
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query.typed import KeyId, Literal, Param
from omnigraph.engine.image.ids import MISSING
from omnigraph.engine.read.answer import Answer
from omnigraph.engine.read.context import Images
from omnigraph.engine.read.evaluate import value_of


@dataclass(frozen=True, slots=True)
class Point:
    """A query for properties of the node with a given id."""

    type_name: str
    wanted: Literal | Param | KeyId
    names: tuple[str, ...]
    properties: tuple[str, ...]


def point_of(ir: ReadIr) -> Point | None:
    """Return the lookup a query is, or None when it is anything else."""
    if len(ir.ops) != 1 or ir.distinct or ir.is_aggregate or ir.ranking is not None:
        return None
    match ir.ops[0]:
        case NodeScan(
            type_name=type_name,
            filters=(
                Compare(Prop(name="id"), CompareOp.EQ, Literal() | Param() | KeyId() as wanted),
            ),
        ):
            props = [column.expr for column in ir.columns if isinstance(column.expr, Prop)]
            if len(props) < len(ir.columns):
                return None
            names = tuple(column.name for column in ir.columns)
            return Point(type_name, wanted, names, tuple(prop.name for prop in props))
        case _:
            return None


def look_up(point: Point, images: Images, bound: BoundQuery) -> Answer:
    """Return the node's properties, or no row."""
    image = images.node(point.type_name)
    wanted = value_of(point.wanted, bound.params)
    position = MISSING if wanted is None else image.find(wanted)
    columns = [image.column(name) for name in point.properties]
    if position == MISSING or bound.offset or bound.limit == 0:
        return Answer(point.names, tuple([column.base.slice(0, 0) for column in columns]))
    return Answer(point.names, tuple([column.one(position) for column in columns]))
