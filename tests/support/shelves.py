"""Graphs whose derived files are kept on disk, at sizes a test can afford."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.background import BACKGROUND
from omnigraph.engine.image import cache, shelf
from omnigraph.engine.read import reader
from omnigraph.graph import Graph, GraphOptions
from tests.support.fast import FAST

SCHEMA = "node P { k: String @key  n: I64?  t: String? }\nedge E: P -> P"
COUNT = "query q() { match { $a: P $a e $b } return { count($b) as n } }"
TWO = """query q($k: String) {
  match { $a: P { k: $k } $a e $b $b e $c } return { $c.k as k, $c.n as n }
}"""
LOOKUP = "query q($k: String) { match { $a: P { k: $k } } return { $a.n as n, $a.t as t } }"
GROUPS = "query q() { match { $a: P } return { $a.t as t, count($a) as n } order { t } }"
ROWS = 3_000


def small(patch: pytest.MonkeyPatch) -> None:
    """Let small tables be kept, and be built behind the queries."""
    patch.setattr(shelf, "LEAST_ROWS", 100)
    patch.setattr(reader, "ASIDE_FROM", 100)


def make(place: Path | str, options: GraphOptions = FAST) -> None:
    """Load a ring of nodes."""
    with omnigraph.init(place, SCHEMA, options=options) as graph:
        names = [f"p{at}" for at in range(ROWS)]
        columns = {"k": names, "n": list(range(ROWS)), "t": [f"t{at % 7}" for at in range(ROWS)]}
        ends = {"from": names * 2, "to": (names[1:] + names[:1]) * 2}  # every edge twice
        graph.load({"P": pa.table(columns), "E": pa.table(ends)}, engine="inline")


@contextmanager
def opened(place: Path | str, folder: Path | None, **other: object) -> Iterator[Graph]:
    """Open a graph whose derived files are in a folder."""
    options = replace(FAST, cache=folder, **other)
    with omnigraph.connect(str(place), options=options) as graph:
        yield graph
        settle()


def settle() -> None:
    """Wait for what is built and written behind the queries."""
    assert BACKGROUND.wait(60)


@contextmanager
def ways() -> Iterator[list[str]]:
    """Tell how images came to be."""
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache.WAYS, "add", lambda _, way: told.append(way))
        yield told
