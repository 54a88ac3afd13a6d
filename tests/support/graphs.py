"""Random schemas and small graphs: few nodes, many edges, nulls, duplicates, every scalar type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import Phase, settings
from hypothesis import strategies as st

from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.source import Source
from omnigraph.compiler.types import PropType, Scalar
from tests.support.plain import to_f32

Row = dict[str, Any]

STRINGS = ["", "a", "ab", "Ab", "b", "é", "e\u0301", "日本", "🦊", "a b", '"q"\\', "Z"]
WORDS = ["red", "fox", "foxes", "running", "run", "the", "Café", "x1", "Ünïcode", "and", "rod"]
INTEGERS = [0, 1, 2, 3, 7, 100]
FLOATS = [0.0, 0.5, -1.5, 2.0, 2.5, 0.1, 1e6, 16777216.0]
EDGES_OF = {
    Scalar.I32: [-1, 2**31 - 1, -(2**31)],
    Scalar.I64: [-1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    Scalar.U32: [2**32 - 1, 16777217],
    Scalar.U64: [2**53 + 1, 2**63, 2**64 - 1],
}
DAYS = [-1, 0, 1, 20_000, 20_001]
MILLIS = [-1, 0, 1, 1_700_000_000_000, 1_700_000_000_001]
COLOURS = ("blue", "green", "red")
DIM = 3

PROPERTIES = {
    "s": "String",
    "text": "String",
    "i": "I32",
    "j": "I64",
    "u": "U32",
    "w": "U64",
    "f": "F32",
    "g": "F64",
    "b": "Bool",
    "d": "Date",
    "m": "DateTime",
    "hue": f"enum({', '.join(COLOURS)})",
    "ls": "[String]",
    "lj": "[I64]",
    "lf": "[F32]",
    "ld": "[Date]",
    "v": f"Vector({DIM})",
}
KEYS = ["", "key: String @key", "key: I64 @key", "key: Date @key"]

seeds = st.integers(0, 2**64)
"""Hypothesis draws seeds, not choices: its own draws repeat themselves and stay nearly empty."""

without_shrinking = settings(phases=[Phase.explicit, Phase.generate])
"""A smaller seed is not a smaller case."""


@dataclass(frozen=True)
class GraphCase:
    """A schema and the rows of its tables."""

    schema: str
    catalog: Catalog = field(repr=False)
    rows: Mapping[str, list[Row]]

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows as the tables storage would hold."""
        kinds = [*self.catalog.nodes.values(), *self.catalog.edges.values()]
        return {kind.table_key: as_table(kind, self.rows[kind.table_key]) for kind in kinds}


def as_table(kind: NodeType | EdgeType, rows: list[Row]) -> pa.Table:
    """Return rows as an Arrow table of the type's own schema."""
    schema = arrow_schema(kind)
    arrays = []
    for name, wanted in zip(schema.names, schema.types, strict=True):
        values = [row[name] for row in rows]
        # Milliseconds are integers here; Arrow would take them for days.
        plain = pa.int64() if pa.types.is_date64(wanted) else wanted
        arrays.append(pa.array(values, plain).cast(wanted))
    return pa.table(arrays, schema=schema)


def a_text(rng: Random, most: int = 5) -> str:
    """Return words, stop words among them."""
    return " ".join(rng.choices(WORDS, k=rng.randint(0, most)))


def a_vector(rng: Random) -> list[float]:
    """Return a vector; zero ones and equal directions are common."""
    return rng.choices([0.0, 1.0, -1.0, 2.0, 0.5], k=DIM)


def a_value(rng: Random, kind: PropType) -> Any:
    """Return a value of a property; few different ones, so that they meet again."""
    if kind.is_list:
        return [a_value(rng, kind.item()) for _ in range(rng.randint(0, 3))]
    match kind.scalar:
        case Scalar.STRING if kind.enum_values:
            return rng.choice(kind.enum_values)
        case Scalar.STRING:
            return rng.choice(STRINGS) if rng.random() < 0.6 else a_text(rng)
        case Scalar.BOOL:
            return rng.random() < 0.5
        case Scalar.F32:
            return to_f32(rng.choice(FLOATS))
        case Scalar.F64:
            return rng.choice([*FLOATS, 1e300, -1e300])
        case Scalar.DATE:
            return rng.choice(DAYS)
        case Scalar.DATETIME:
            return rng.choice(MILLIS)
        case Scalar.VECTOR:
            return a_vector(rng)
        case _:
            return rng.choice([*INTEGERS, *EDGES_OF[kind.scalar]])


def a_schema(rng: Random) -> str:
    """Return a schema with a self-type edge, a cross-type edge, and perhaps more of both."""
    nodes = ["Apple", "Berry", *rng.choice([[], ["Cherry"]])]
    blocks = [_block(f"node {name}", [rng.choice(KEYS), *property_lines(rng, 6)]) for name in nodes]
    edges = [("Likes", "Apple", "Apple"), ("Holds", "Apple", "Berry")]
    if rng.random() < 0.5:
        edges.append(("Grows", rng.choice(nodes), rng.choice(nodes)))
    for name, source, target in edges:
        blocks.append(_block(f"edge {name}: {source} -> {target}", property_lines(rng, 2)))
    return "\n".join(blocks)


def property_lines(rng: Random, most: int) -> list[str]:
    """Return declarations of some properties, most of them nullable; text is common."""
    names = rng.sample(list(PROPERTIES), rng.randint(0, most))
    if most > 2 and "text" not in names and rng.random() < 0.6:
        names.append("text")
    return [f"{name}: {PROPERTIES[name]}{rng.choice(['', '?', '?'])}" for name in names]


def _block(head: str, lines: list[str]) -> str:
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines if line), "}"])


def a_graph(rng: Random, *, dangling: bool = True) -> GraphCase:
    """Return a schema with a graph; a dangling edge names a node that does not exist."""
    schema = a_schema(rng)
    catalog = load_schema(Source(schema)).catalog
    rows: dict[str, list[Row]] = {}
    for kind in catalog.nodes.values():
        rows[kind.table_key] = node_rows(rng, kind, 0 if rng.random() < 0.1 else rng.randint(3, 6))
    for edge in catalog.edges.values():
        sources = [row["id"] for row in rows[f"node:{edge.from_type}"]]
        targets = [row["id"] for row in rows[f"node:{edge.to_type}"]]
        lost = ["nowhere"] if dangling and rng.random() < 0.3 else []
        count = 0 if rng.random() < 0.1 else rng.randint(5, 14)
        rows[edge.table_key] = edge_rows(rng, edge, sources + lost, targets + lost, count)
    return GraphCase(schema, catalog, rows)


def node_rows(rng: Random, kind: NodeType, most: int) -> list[Row]:
    """Return nodes in random order; a key gives the id, otherwise it is any text."""
    found: dict[str, Row] = {}
    for _ in range(most):
        if kind.key:
            key = a_value(rng, kind.properties["key"].type)
            row = {"id": str(key), "key": key}
        else:
            row = {"id": rng.choice([*STRINGS, "n1", "n2", "n10"])}
        found[row["id"]] = row | values_of(rng, kind)
    return list(found.values())


def edge_rows(
    rng: Random, kind: EdgeType, sources: list[str], targets: list[str], count: int
) -> list[Row]:
    """Return edges, parallel ones and loops included, with ids in no particular order."""
    if not sources or not targets:
        return []
    return [
        {
            "id": f"e{number}",
            "src": rng.choice(sources),
            "dst": rng.choice(targets),
            **values_of(rng, kind),
        }
        for number in rng.sample(range(20), count)
    ]


def values_of(rng: Random, kind: NodeType | EdgeType) -> Row:
    """Return a value for every property but the key; one in four is null where that is allowed."""
    return {
        name: None if prop.type.nullable and rng.random() < 0.25 else a_value(rng, prop.type)
        for name, prop in kind.properties.items()
        if name != "key"
    }
