"""Images over plain Arrow tables: the executor without storage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.query.typed import Direction
from omnigraph.engine.image.postings import Postings, build_postings
from omnigraph.engine.image.table import TableImage, fresh_image
from omnigraph.engine.image.vectors import Vectors, build_vectors
from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.engine.topology.csr import build_csr


class MemoryImages:
    """One snapshot held as `{table key: Arrow table}`."""

    def __init__(self, catalog: Catalog, tables: Mapping[str, pa.Table]) -> None:
        self._catalog = catalog
        self._adjacency: dict[tuple[str, Direction], Adjacency] = {}
        self._images = {
            key: fresh_image(table.num_rows, lambda names, table=table: table.select(list(names)))
            for key, table in tables.items()
        }

    def node(self, type_name: str) -> TableImage:
        return self._images[f"node:{type_name}"]

    def edge(self, edge: str) -> TableImage:
        return self._images[f"edge:{edge}"]

    def adjacency(self, edge: str, direction: Direction) -> Adjacency:
        if (edge, direction) not in self._adjacency:
            self._adjacency[edge, direction] = self._built(edge, direction)
        return self._adjacency[edge, direction]

    def _built(self, edge: str, direction: Direction) -> Adjacency:
        kind = self._catalog.edges[edge]
        image = self.edge(edge)
        ends = [
            self.node(kind.from_type).find_many(image.column("src").full),
            self.node(kind.to_type).find_many(image.column("dst").full),
        ]
        near, far = (kind.from_type, 1) if direction is Direction.OUT else (kind.to_type, 0)
        sources, targets = (ends[0], ends[1]) if far else (ends[1], ends[0])
        base = build_csr(np.asarray(sources), np.asarray(targets), self.node(near).positions)
        return Adjacency(base, None, image.live)

    def postings(self, type_name: str, prop: str) -> Postings:
        return build_postings(self.node(type_name).column(prop).full)

    def vectors(self, type_name: str, prop: str) -> Vectors:
        return build_vectors(self.node(type_name).column(prop).full)
