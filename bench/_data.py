"""Deterministic data for the read and write benchmarks: a social graph with documents."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA = """node Person {
  key: String @key
  name: String
  age: I32?
  city: String
}

node Doc {
  key: String @key
  text: String @index
  vector: Vector(128)? @index
}

edge Knows: Person -> Person {
  since: I32
}

edge Wrote: Person -> Doc
"""
DIM = 128


@dataclass(frozen=True)
class Data:
    """Arrow tables by table key, and seeds of medium degree to start from."""

    tables: dict[str, pa.Table]
    seeds: list[str]
    words: list[str]


def make(persons: int, degree: int = 10, docs: int | None = None) -> Data:
    """Return persons with a power-law of acquaintances, and documents with Zipf words."""
    rng = np.random.default_rng(7)
    docs = persons * 2 if docs is None else docs
    ids = [f"p{number}" for number in range(persons)]
    edges = persons * degree
    popular = rng.permutation(persons)  # who knows many is known by many
    src, dst = popular[_drawn(rng, persons, edges)], popular[_drawn(rng, persons, edges)]
    words = [f"w{number}x" for number in range(20_000)]
    tables: dict[str, pa.Table] = {
        "node:Person": pa.table(
            {
                "id": ids,
                "key": ids,
                "name": [f"name {number % 1_000}" for number in range(persons)],
                "age": pa.array(rng.integers(0, 90, persons), pa.int32()),
                "city": [f"city{number % 50}" for number in range(persons)],
            }
        ),
        "edge:Knows": pa.table(
            {
                "id": [f"k{number}" for number in range(edges)],
                "src": pa.array(ids).take(pa.array(src)),
                "dst": pa.array(ids).take(pa.array(dst)),
                "since": pa.array(rng.integers(1990, 2026, edges), pa.int32()),
            }
        ),
    }
    if docs:
        tables |= _documents(rng, ids, docs, words)
    degrees = np.bincount(src, minlength=persons)
    medium = np.flatnonzero((degrees >= 5) & (degrees <= 40))
    seeds = [ids[at] for at in rng.choice(medium, size=min(40, len(medium)), replace=False)]
    return Data(tables, seeds, words)


def _drawn(rng: Any, persons: int, edges: int) -> Any:
    """Return ranks by a power law: the first of 100,000 is drawn about 500 times in a million."""
    weights = (np.arange(persons) + persons / 2_000) ** -0.65
    shares = np.cumsum(weights)
    return np.searchsorted(shares, rng.random(edges) * shares[-1])


def _documents(rng: Any, ids: list[str], docs: int, words: list[str]) -> dict[str, pa.Table]:
    centres = rng.standard_normal((512, DIM)).astype(np.float32)
    vectors = centres[rng.integers(0, 512, docs)] + 0.3 * rng.standard_normal((docs, DIM))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    lengths = rng.integers(20, 60, docs)
    picks = (rng.zipf(1.3, int(lengths.sum())) - 1) % len(words)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    drawn = np.asarray(words, dtype=object)[picks]
    texts = [" ".join(drawn[a:b]) for a, b in itertools.pairwise(offsets)]
    doc_ids = [f"d{number}" for number in range(docs)]
    return {
        "node:Doc": pa.table(
            {
                "id": doc_ids,
                "key": doc_ids,
                "text": texts,
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
            }
        ),
        "edge:Wrote": pa.table(
            {
                "id": [f"w{number}" for number in range(docs)],
                "src": pa.array(ids).take(pa.array(rng.integers(0, len(ids), docs))),
                "dst": doc_ids,
            }
        ),
    }
