"""What edges weigh: a numeric property as doubles by position, or 1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import NUMBER_BYTES, keep
from omnigraph.compiler.catalog.model import ID, EdgeType
from omnigraph.engine.algorithms.chosen import Chosen
from omnigraph.engine.image.arrays import Floats, Ints
from omnigraph.engine.read.context import Images
from omnigraph.errors import BadRequestError, NotFoundError


class WeightError(BadRequestError):
    """An edge weighs nothing an algorithm could use: null, negative, or no finite number."""


def check_weight(chosen: Chosen, weight: str | None) -> None:
    """Return only if every chosen edge type has a number of this name.

    Raises:
        NotFoundError: an edge type has no such property.
        BadRequestError: the property is no number.
    """
    if weight is None:
        return
    if not isinstance(weight, str):
        raise BadRequestError(f"a weight is the name of a property, not {type(weight).__name__}")
    for edge in chosen.edges:
        prop = edge.properties.get(weight)
        if prop is None:
            raise NotFoundError(
                f"{edge.name} has no property '{weight}'",
                hint="name in `edges` the types that have it",
            )
        if not prop.type.is_numeric:
            raise BadRequestError(
                f"{edge.name}.{weight} is {prop.type}, not a number", hint="a weight is a number"
            )


def weights_of(images: Images, edge: EdgeType, weight: str | None, edges: Ints) -> Floats:
    """Return what edges weigh, given by their positions.

    Raises:
        WeightError: one is null, negative, or no finite number; names the edge.
    """
    if weight is None:
        return np.ones(len(edges))
    image = images.edge(edge.name)
    keep("weights", len(edges) * NUMBER_BYTES)
    found = image.column(weight).take(edges).cast(pa.float64(), safe=False)
    numbers: Floats = found.to_numpy(zero_copy_only=False)  # null becomes NaN
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        row = int(bad[0])
        name, value = image.column(ID).take(edges[row : row + 1])[0].as_py(), found[row].as_py()
        raise WeightError(
            f"{edge.name} '{name}' has {weight} {'null' if value is None else value}",
            hint="a weight is a finite number from 0 on, on every edge",
        )
    return numbers
