"""Algorithms over a whole graph beside networkx: `python -m bench algorithms`.

The same nodes and edges on both sides, resident before anything is timed; results are asserted
equal. networkx ranks by its own loop in Python here: its fast way needs SciPy.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import networkx as nx
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

import omnigraph
from bench import _data
from bench._rounds import compare
from omnigraph.graph import GraphOptions
from omnigraph.graph.algorithms import AlgorithmKeywords
from omnigraph.storage.options import StorageOptions

ON: AlgorithmKeywords = {"edges": ["Knows"]}


def main() -> None:
    """Measure at the size given by BENCH_PERSONS (5,000 unless said)."""
    persons = int(os.environ.get("BENCH_PERSONS", "5000"))  # noqa: TID251 - a bench setting
    data = _data.make(persons, docs=0)
    edges = data.tables["edge:Knows"]
    sys.stdout.write(f"{persons} persons, {edges.num_rows} acquaintances\n")
    other = nx.MultiDiGraph()
    other.add_nodes_from(data.tables["node:Person"]["id"].to_pylist())
    other.add_edges_from(zip(edges["src"].to_pylist(), edges["dst"].to_pylist(), strict=True))
    with tempfile.TemporaryDirectory() as place:
        options = GraphOptions(storage=StorageOptions(durability="os"))
        graph = omnigraph.init(str(Path(place) / "g.omni"), _data.SCHEMA, options=options)
        session = graph.store.begin()
        for key, rows in data.tables.items():
            session.append(key, rows)
        session.commit()
        run(graph, other, data.seeds)
        graph.close()


def run(graph: omnigraph.Graph, other: Any, seeds: list[str]) -> None:
    """Check every algorithm against networkx, then time both."""
    ours = graph.algorithms
    ranks = _values(ours.pagerank(**ON))
    theirs = _pagerank_python(other, tol=1e-12, max_iter=500)
    assert max(abs(ranks[node] - rank) for node, rank in theirs.items()) < 1e-7
    assert _values(ours.degrees(**ON)) == dict(other.degree())
    parts = nx.number_weakly_connected_components(other)
    assert len(set(_values(ours.connected_components(**ON)).values())) == parts
    start = seeds[0]
    lengths = nx.single_source_shortest_path_length(other, start)
    assert _values(ours.shortest_path(start, **ON)) == dict(lengths)

    once = [None]
    compare(
        "degrees",
        {"omnigraph": lambda _: ours.degrees(**ON), "networkx": lambda _: dict(other.degree())},
        once,
    )
    compare(
        "connected components",
        {
            "omnigraph": lambda _: ours.connected_components(**ON),
            "networkx": lambda _: list(nx.weakly_connected_components(other)),
        },
        once,
    )
    compare(
        "pagerank, to 1e-9",
        {
            "omnigraph": lambda _: ours.pagerank(**ON),
            "networkx": lambda _: _pagerank_python(other, tol=1e-9 / len(other), max_iter=500),
        },
        once,
    )
    reached = [node for node in seeds if node in lengths]
    compare(
        "shortest path to one",
        {
            "omnigraph": lambda end: ours.shortest_path(start, end, **ON),
            "networkx": lambda end: nx.shortest_path(other, start, end),
        },
        reached[:10],
    )
    compare(
        "distance to all",
        {
            "omnigraph": lambda node: ours.shortest_path(node, **ON),
            "networkx": lambda node: nx.single_source_shortest_path_length(other, node),
        },
        reached[:3],
    )


def _values(result: omnigraph.QueryResult) -> dict[str, Any]:
    columns = result.columns
    return dict(zip(result["id"].to_pylist(), result[columns[-1]].to_pylist(), strict=True))
