"""What an algorithm found, as columns: a row per node, by type and id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.engine.algorithms.chosen import Chosen
from omnigraph.engine.algorithms.paths import Distances, Hop
from omnigraph.engine.algorithms.steps import Steps
from omnigraph.engine.image.arrays import Floats, Ints
from omnigraph.engine.image.pieces import sorted_rows
from omnigraph.engine.image.table import ID
from omnigraph.engine.read.context import Images

TYPE = "type"


def by_node(
    images: Images,
    chosen: Chosen,
    positions: Sequence[Ints],
    name: str,
    values: Floats | Ints | pa.Array,
) -> pa.Table:
    """Return type, id and value of nodes, given type by type by their positions."""
    sizes = [len(some) for some in positions]
    types = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)),
        pa.array([kind.name for kind in chosen.nodes]),
    ).cast(pa.string())
    ids = [
        images.node(kind.name).column(ID).take(some)
        for kind, some in zip(chosen.nodes, positions, strict=True)
    ]
    return pa.table({TYPE: types, ID: pa.concat_arrays(ids), name: pa.array(values)})


def reached(
    images: Images, chosen: Chosen, steps: Steps, known: Distances, *, weighted: bool
) -> pa.Table:
    """Return the distance of every node that was reached."""
    numbers = np.flatnonzero(known.hops >= 0)
    placed = steps.split(numbers)
    order = [
        sorted_rows([images.node(kind.name).id_order[some]], len(some))
        for kind, some in zip(chosen.nodes, placed, strict=True)
    ]
    starts = np.cumsum([0, *map(len, placed)])[:-1]
    rows = np.concatenate([at + start for at, start in zip(order, starts, strict=True)])
    values = (known.weights if weighted else known.hops)[numbers[rows]]
    ordered = [some[at] for some, at in zip(placed, order, strict=True)]
    return by_node(images, chosen, ordered, "distance", values)


def path_rows(path: Sequence[Hop], *, weighted: bool) -> pa.Table:
    """Return a path, a row per node from its start on."""
    distance = [hop.weight for hop in path] if weighted else [hop.hops for hop in path]
    return pa.table(
        {
            "step": pa.array([hop.hops for hop in path], pa.int64()),
            TYPE: pa.array([hop.node[0] for hop in path], pa.string()),
            ID: pa.array([hop.node[1] for hop in path], pa.string()),
            "edge_type": pa.array([hop.edge and hop.edge[0] for hop in path], pa.string()),
            "edge_id": pa.array([hop.edge and hop.edge[1] for hop in path], pa.string()),
            "distance": pa.array(distance, pa.float64() if weighted else pa.int64()),
        }
    )
