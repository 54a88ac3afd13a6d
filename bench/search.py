"""Search through the public API beside raw Lance and LanceDB: `python -m bench search`.

Vectors, words, both fused, and a hop from what was found. Every side delivers Python rows. Ours is
exact; the recall of the indexes beside it is measured and printed, because a faster wrong answer is
no answer.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lancedb
import numpy as np
from lancedb.rerankers import RRFReranker

import omnigraph
from bench import _data
from bench._rounds import compare
from bench.read import load_ours

NEAREST = """query q($v: Vector(128)) {
  match { $d: Doc }
  return { $d.key as key }
  order { nearest($d.vector, $v) }
  limit 10
}"""
BM25 = """query q($t: String) {
  match { $d: Doc }
  return { $d.key as key }
  order { bm25($d.text, $t) }
  limit 10
}"""
HYBRID = """query q($v: Vector(128), $t: String) {
  match { $d: Doc }
  return { $d.key as key }
  order { rrf(nearest($d.vector, $v), bm25($d.text, $t)) desc }
  limit 10
}"""
AUTHORS = """query q($v: Vector(128)) {
  match { $d: Doc  $p wrote $d }
  return { $p.key as key, $p.name as name, $p.age as age }
  order { nearest($d.vector, $v) }
  limit 10
}"""
FRIENDS = """query q($v: Vector(128)) {
  match { $d: Doc  $p wrote $d  $p knows $f }
  return { $f.key as key, $f.name as name, $f.age as age }
  order { nearest($d.vector, $v) }
  limit 10
}"""

K = 10
WARM_UP = 60
"""Enough searches for blocks of vectors to be made."""

Ask = Callable[[Any], list[Any]]


def main() -> None:
    """Measure at the size given by BENCH_PERSONS (100,000 unless said, with twice the docs)."""
    persons = int(os.environ.get("BENCH_PERSONS", "100000"))  # noqa: TID251 - a bench setting
    data = _data.make(persons)
    sys.stdout.write(f"{data.tables['node:Doc'].num_rows} documents of {_data.DIM} dimensions\n")
    with tempfile.TemporaryDirectory() as place:
        run(data, Path(place))


def run(data: _data.Data, place: Path) -> None:
    """Load every contender and compare search by search."""
    graph = load_ours(data, place)
    raw = Raw(data, place)
    vectors = queries(data)
    texts = [f"{data.words[at]} {data.words[at + 7]}" for at in range(40, 80)]
    pairs = list(zip(vectors, texts, strict=True))

    nearest = asker(graph, NEAREST, "v")
    for vector in (vectors * 2)[:WARM_UP]:
        nearest(vector)
    exact = [set(one) for one in map(data_nearest(data), vectors)]
    if say_recall("omnigraph, exact", nearest, vectors, exact) < 1.0:
        raise SystemExit("nearest: ours is not what a full scan finds")
    settings = {}
    for probes, refine in ((8, 5), (20, 10), (40, 30)):
        name = f"lance IVF_PQ {probes}/{refine}"
        settings[name] = raw.nearest(probes, refine)
        say_recall(name, settings[name], vectors, exact)
    say_recall("lancedb 20/10", raw.lancedb_nearest(), vectors, exact)
    compare(
        "nearest 10",
        {"omnigraph": nearest, **settings, "lancedb": raw.lancedb_nearest()},
        vectors,
    )
    ranked = asker(graph, BM25, "t")
    say_overlap("BM25", ranked, raw.text, texts)
    compare(
        "BM25, best 10",
        {"omnigraph": ranked, "lance": raw.text, "lancedb": raw.lancedb_text},
        texts,
    )
    fused = asker(graph, HYBRID, "v", "t")
    compare("hybrid RRF", {"omnigraph": fused, "lancedb": raw.hybrid}, pairs)
    for title, text, theirs in (
        ("vector, author, 3 columns", AUTHORS, raw.authors),
        ("vector, 2 hops, 3 columns", FRIENDS, raw.friends),
    ):
        mine = asker(graph, text, "v")
        say_overlap(title, mine, theirs, vectors)
        compare(title, {"omnigraph": mine, "lance": theirs}, vectors)
    graph.close()


def queries(data: _data.Data) -> list[Any]:
    """Return vectors near documents, but none of them."""
    rng = np.random.default_rng(3)
    rows = data.tables["node:Doc"]["vector"].combine_chunks().slice(0, 4_000)
    matrix = rows.flatten().to_numpy().reshape(-1, _data.DIM)[::100]
    moved = matrix + 0.02 * rng.standard_normal(matrix.shape)
    return [one.tolist() for one in moved.astype(np.float32)]


def asker(graph: omnigraph.Graph, text: str, *names: str) -> Ask:
    """Return a call that runs one query and delivers Python rows."""

    def ask(value: Any) -> list[Any]:
        given = value if len(names) > 1 else (value,)
        params = dict(zip(names, given, strict=True))
        return [tuple(row.values()) for row in graph.query(text, params=params).to_dicts()]

    return ask


def data_nearest(data: _data.Data) -> Ask:
    """Return the plain search: every distance, sorted."""
    docs = data.tables["node:Doc"]
    matrix = docs["vector"].combine_chunks().flatten().to_numpy().reshape(-1, _data.DIM)
    keys = docs["key"].to_pylist()

    def ask(vector: Any) -> list[Any]:
        return [(keys[at],) for at in np.argsort(-(matrix @ np.asarray(vector, np.float32)))[:K]]

    return ask


def say_recall(name: str, ask: Ask, vectors: list[Any], exact: list[set[Any]]) -> float:
    """Print and return which share of the true neighbours is found."""
    found = [len(set(ask(one)) & true) for one, true in zip(vectors, exact, strict=True)]
    recall = sum(found) / (K * len(vectors))
    sys.stdout.write(f"  recall of {name:24} {recall:.4f}\n")
    return recall


def say_overlap(title: str, mine: Ask, theirs: Ask, inputs: list[Any]) -> None:
    """Print how much two answers agree: analyzers differ a little, and an index misses some."""
    shared = [len(set(mine(one)) & set(theirs(one))) / K for one in inputs]
    sys.stdout.write(f"  {title}: {sum(shared) / len(shared):.3f} of the best {K} are the same\n")


class Raw:
    """The same documents, persons and edges in Lance with its own indexes."""

    def __init__(self, data: _data.Data, place: Path) -> None:
        database = lancedb.connect(str(place / "db"))
        self.table = database.create_table("docs", data.tables["node:Doc"])
        self.table.create_index(
            metric="cosine", num_partitions=256, num_sub_vectors=32, vector_column_name="vector"
        )
        self.table.create_fts_index("text", with_position=False)
        self.docs = lance.dataset(str(place / "db" / "docs.lance"))
        tables = {name: data.tables[key] for name, key in _EDGES.items()}
        self.parts = {
            name: lance.write_dataset(rows, str(place / f"{name}.lance"))
            for name, rows in tables.items()
        }
        for name, column in (("person", "id"), ("wrote", "dst"), ("knows", "src")):
            self.parts[name].create_scalar_index(column, "BTREE")

    def nearest(self, probes: int, refine: int) -> Ask:
        """Return Lance's search over its index."""

        def ask(vector: Any) -> list[Any]:
            found = self._nearest(vector, ["key"], probes, refine)
            return [(one,) for one in found["key"].to_pylist()]

        return ask

    def _nearest(self, vector: Any, columns: list[str], probes: int = 20, refine: int = 10) -> Any:
        nearest = {
            "column": "vector",
            "q": np.asarray(vector, np.float32),
            "k": K,
            "metric": "cosine",
            "nprobes": probes,
            "refine_factor": refine,
        }
        return self.docs.to_table(columns=[*columns, "_distance"], nearest=nearest)

    def lancedb_nearest(self) -> Ask:
        """Return LanceDB's search."""

        def ask(vector: Any) -> list[Any]:
            search: Any = self.table.search(np.asarray(vector, np.float32))
            search = search.distance_type("cosine")
            rows = search.nprobes(20).refine_factor(10).limit(K).select(["key", "_distance"])
            return [(row["key"],) for row in rows.to_list()]

        return ask

    def text(self, text: Any) -> list[Any]:
        """Return Lance's full-text search."""
        found = self.docs.to_table(columns=["key", "_score"], full_text_query=text, limit=K)
        return [(one,) for one in found["key"].to_pylist()]

    def lancedb_text(self, text: Any) -> list[Any]:
        """Return LanceDB's full-text search."""
        search = self.table.search(text, query_type="fts").limit(K).select(["key", "_score"])
        return [(row["key"],) for row in search.to_list()]

    def hybrid(self, pair: Any) -> list[Any]:
        """Return LanceDB's fusion of both."""
        vector, text = pair
        search: Any = self.table.search(query_type="hybrid")
        search = search.vector(np.asarray(vector, np.float32))
        search = search.text(text).distance_type("cosine").nprobes(20).refine_factor(10)
        return [(row["key"],) for row in search.limit(K).rerank(_RERANKER).to_list()]

    def authors(self, vector: Any) -> list[Any]:
        """Return the authors of what is near: three calls."""
        docs = self._nearest(vector, ["id"])["id"].to_pylist()
        wrote = self._where("wrote", ["src", "dst"], "dst", docs)
        names = wrote["src"].to_pylist()
        rows = self._persons(names)
        author = dict(zip(wrote["dst"].to_pylist(), names, strict=True))
        return [rows[author[doc]] for doc in docs]

    def friends(self, vector: Any) -> list[Any]:
        """Return whom the authors of what is near know: four calls."""
        docs = self._nearest(vector, ["id"])["id"].to_pylist()
        wrote = self._where("wrote", ["src", "dst"], "dst", docs)
        knows = self._where("knows", ["src", "dst"], "src", wrote["src"].to_pylist())
        rows = self._persons(knows["dst"].to_pylist())
        author = dict(zip(wrote["dst"].to_pylist(), wrote["src"].to_pylist(), strict=True))
        known: dict[str, list[str]] = {}
        for src, dst in zip(knows["src"].to_pylist(), knows["dst"].to_pylist(), strict=True):
            known.setdefault(src, []).append(dst)
        ordered = [rows[one] for doc in docs for one in sorted(set(known.get(author[doc], [])))]
        return ordered[:K]

    def _persons(self, ids: list[str]) -> dict[str, tuple[Any, ...]]:
        found = self._where("person", ["key", "name", "age"], "id", sorted(set(ids)))
        columns = [found[name].to_pylist() for name in ("key", "name", "age")]
        return {row[0]: row for row in zip(*columns, strict=True)}

    def _where(self, table: str, columns: list[str], column: str, values: list[str]) -> Any:
        listed = ", ".join(f"'{value}'" for value in values)
        return self.parts[table].to_table(columns=columns, filter=f"{column} IN ({listed})")


_EDGES = {"person": "node:Person", "wrote": "edge:Wrote", "knows": "edge:Knows"}
_RERANKER = RRFReranker()


if __name__ == "__main__":
    main()
