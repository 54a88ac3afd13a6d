"""What an operator may use while a query runs: images of one snapshot, parameters, budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from omnigraph.base.budget import Budget
from omnigraph.compiler.query.typed import Direction, Rrf
from omnigraph.engine.image.arrays import Floats, Ints
from omnigraph.engine.image.postings import Postings
from omnigraph.engine.image.table import TableImage
from omnigraph.engine.image.vectors import Vectors
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.topology.adjacency import Adjacency


class Images(Protocol):
    """Resident state of one snapshot."""

    def node(self, type_name: str) -> TableImage:
        """Return the image of a node type."""
        ...

    def edge(self, edge: str) -> TableImage:
        """Return the image of an edge type."""
        ...

    def adjacency(self, edge: str, direction: Direction) -> Adjacency:
        """Return one direction (out or in) of an edge type."""
        ...

    def postings(self, type_name: str, prop: str) -> Postings:
        """Return the postings of a text property."""
        ...

    def vectors(self, type_name: str, prop: str) -> Vectors:
        """Return the vectors of a property."""
        ...


@dataclass(frozen=True, slots=True)
class Ranked:
    """Nodes with their score and a key that sorts the best first; equal keys are ties."""

    positions: Ints
    scores: Floats
    keys: Floats


@dataclass(frozen=True, slots=True)
class ReadContext:
    """One run of one query.

    `types` tells the table behind every variable: name, and if edge. `fused` are the fused scores
    of the whole match, known once it is complete.
    """

    images: Images
    params: Mapping[str, Any]
    types: Mapping[str, tuple[str, bool]]
    budget: Budget
    fused: dict[Rrf, Ranked] = field(default_factory=dict)
    trace: Trace | None = None

    def image(self, var: str) -> TableImage:
        """Return the image a variable's positions point into."""
        name, is_edge = self.types[var]
        return self.images.edge(name) if is_edge else self.images.node(name)
