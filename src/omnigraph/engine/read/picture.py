"""From the rows of a match to the nodes and edges they bind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from omnigraph.api.pictures import PictureEdge, PictureNode
from omnigraph.base.ids import TableKey
from omnigraph.base.table_keys import is_node_key, type_of
from omnigraph.compiler.catalog.model import ID, Catalog, NodeType
from omnigraph.compiler.ir.ops import Direction
from omnigraph.compiler.types import Scalar
from omnigraph.engine.image.arrays import Ints, distinct, members
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.prepare import Step
from omnigraph.engine.read.rows import Rows

_EDGE_COLUMNS = 4
"""Numbers per edge that are held while those of the picture are picked."""
_NAMES = ("name", "title", "subject", "label")
"""The properties people call a node by, best first."""


def label_of(kind: NodeType) -> str:
    """Return the property that a node of a type is called by; its id if none tells more."""
    for name in (*_NAMES, *kind.key):
        found = kind.properties.get(name)
        if found is not None and found.type.scalar is Scalar.STRING and not found.type.is_list:
            return name
    return ID


def with_labels(
    columns: Mapping[TableKey, frozenset[str]], catalog: Catalog
) -> dict[TableKey, frozenset[str]]:
    """Return the columns a query looks at and the labels of its nodes."""
    return {
        key: names | {label_of(catalog.nodes[type_of(key)])} - {ID} if is_node_key(key) else names
        for key, names in columns.items()
    }


def first_rows(rows: Rows, nodes: Iterable[str], most: int, ctx: ReadContext) -> Rows:
    """Return as many rows from the top as have at most so many different nodes."""
    kinds = sorted({kind for kind, _ in ctx.types.values()})
    seen = [
        rows.at[var].astype(np.int64) * len(kinds) + kinds.index(ctx.types[var][0]) for var in nodes
    ]
    if not seen or rows.size == 0:
        return rows
    whole = np.stack(seen, axis=1)
    _, first = np.unique(whole.ravel(), return_index=True)
    if len(first) <= most:
        return rows
    beyond = int(np.sort(first)[most])
    return rows.slice(0, beyond // whole.shape[1])


def nodes_of(
    rows: Rows, variables: Iterable[str], catalog: Catalog, ctx: ReadContext
) -> list[PictureNode]:
    """Return the nodes that variables are bound to, each once, as they come."""
    found: dict[tuple[str, str], PictureNode] = {}
    for var in variables:
        name, _ = ctx.types[var]
        _, first = np.unique(rows.at[var], return_index=True)
        at = rows.at[var][np.sort(first)]
        image = ctx.images.node(name)
        ids = image.column(ID).take(at)
        label = label_of(catalog.nodes[name])
        labels = ids if label == ID else image.column(label).take(at)
        for id_, text in zip(ids.to_pylist(), labels.to_pylist(), strict=True):
            found.setdefault((name, id_), PictureNode(name, id_, text or id_))
    return list(found.values())


def edges_of(rows: Rows, step: Step, ctx: ReadContext) -> Iterator[PictureEdge]:
    """Yield the edges that a traversal of a match went over, parallel ones too.

    Of a way over several edges only its ends are known.
    """
    op = step.op
    starts, ends = rows.at[op.src], rows.at[step.end]
    width = max(1, ctx.images.node(op.dst_type).positions)
    pairs = _distinct(starts.astype(np.int64) * width + ends)
    hops = (op.min_hops, op.max_hops)
    if op.max_hops > 1:
        backward = op.direction is Direction.IN
        ids: list[str | None] = [None] * len(pairs)
        yield from _drawn(step, ids, pairs // width, pairs % width, backward, hops, ctx)
        return
    bound = None if op.edge_var is None else _distinct(rows.at[op.edge_var])
    both = (Direction.OUT, Direction.IN)
    image, sources, seen = ctx.images.edge(op.edge), _distinct(starts), set[str]()
    for way in both if op.direction is Direction.BOTH else (op.direction,):
        adjacency = ctx.images.adjacency(op.edge, way)
        ctx.budget.check("picture", adjacency.count(sources), _EDGE_COLUMNS)
        at, targets, edges = adjacency.edges_of(sources)
        kept = members(sources[at].astype(np.int64) * width + targets, pairs)
        if bound is not None:
            kept &= members(edges, bound)
        near, far = sources[at[kept]], targets[kept]
        names = _texts(image.column(ID).take(edges[kept]))
        for one in _drawn(step, names, near, far, way is Direction.IN, hops, ctx):
            if one.id not in seen:  # a loop is met from both ends
                seen.add(str(one.id))
                yield one


def _drawn(
    step: Step,
    ids: Sequence[str | None],
    near: Ints,
    far: Ints,
    backward: bool,
    hops: tuple[int, int],
    ctx: ReadContext,
) -> Iterator[PictureEdge]:
    """Yield edges between pairs of nodes; `backward` ones lead to where the step came from."""
    sides = []
    for var, at in ((step.op.src, near), (step.end, far)):
        kind, _ = ctx.types[var]
        sides.append((kind, _texts(ctx.images.node(kind).column(ID).take(at))))
    (start, sources), (end, targets) = reversed(sides) if backward else sides
    for id_, source, target in zip(ids, sources, targets, strict=True):
        yield PictureEdge(step.op.edge, id_, start, source, end, target, *hops)


def _texts(array: pa.Array) -> list[str]:
    return [str(one) for one in array.to_pylist()]


def _distinct(at: Ints) -> Ints:
    return distinct(at, int(at.max()) + 1) if len(at) else at.astype(np.int64)
