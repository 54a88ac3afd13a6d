"""Every public call on one `Graph` from many threads at once."""

from __future__ import annotations

import io
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.graph import Graph, GraphOptions
from omnigraph.storage.options import StorageOptions
from omnigraph.storage.upkeep.cleanup import CleanupPolicy

SCHEMA = """
node P { k: String @key
  v: I64 @index
  text: String? @index }
edge E: P -> P { w: I64? }
"""
INSERT = "query i($k: String, $v: I64) { insert P { k: $k, v: $v, text: $k } }"
LINK = "query l($a: String, $b: String) { insert E { from: $a, to: $b } }"
ALL = "query q() { match { $p: P } return { $p.k, $p.v } }"
HOPS = "query h() { match { $p: P  $p e $o } return { $p.k, $o.k as other } }"
THREADS = 16
ROUNDS = 10
_PATIENCE_S = 300


@pytest.fixture
def fine_grained() -> Iterator[None]:
    """Threads take turns far more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def _insert(graph: Graph, key: str) -> set[str]:
    graph.mutate(INSERT, params={"k": key, "v": len(key)})
    return {key}


def _link(graph: Graph, key: str) -> set[str]:
    graph.mutate(LINK, params={"a": "seed0", "b": "seed1"}, idempotency_key=key)
    return set()


def _query(graph: Graph, key: str) -> set[str]:
    assert len(graph.query(ALL)) >= 2
    graph.query(HOPS)
    return set()


def _stream(graph: Graph, key: str) -> set[str]:
    assert sum(len(batch) for batch in graph.stream(ALL, batch_rows=7)) >= 2
    return set()


def _load(graph: Graph, key: str) -> set[str]:
    lines = f'{{"type": "P", "data": {{"k": "{key}", "v": 1}}}}\n'.encode()
    graph.load(lines, "merge")
    return {key}


def _branch(graph: Graph, key: str) -> set[str]:
    name = f"b-{key}"
    graph.branches.create(name)
    graph.mutate(INSERT, params={"k": key, "v": 1}, branch=name)
    assert len(graph.query(ALL, branch=name)) >= 3
    graph.branches.delete(name)
    return set()


def _optimize(graph: Graph, key: str) -> set[str]:
    graph.optimize()
    return set()


def _index(graph: Graph, key: str) -> set[str]:
    graph.ensure_indices()
    return set()


def _export(graph: Graph, key: str) -> set[str]:
    out = io.BytesIO()
    graph.export(out)
    assert out.getvalue().count(b"\n") >= 2
    return set()


def _look_back(graph: Graph, key: str) -> set[str]:
    commit = graph.commits.list(all=True, reverse=True)[-1].graph_commit_id
    assert len(graph.at(commit).query(ALL)) >= 2
    assert graph.entity_at("node:P", "seed0", commit) is not None
    return set()


def _tidy(graph: Graph, key: str) -> set[str]:
    graph.store.cleanup(CleanupPolicy(keep_versions=8))
    assert all(finding.harmless for finding in graph.verify())
    return set()


CALLS: tuple[Callable[[Graph, str], set[str]], ...] = (
    _insert,
    _query,
    _stream,
    _load,
    _branch,
    _optimize,
    _index,
    _export,
    _look_back,
    _link,
    _tidy,
)


@pytest.mark.slow
def test_every_public_call_may_be_made_from_many_threads(tmp_path: Path, fine_grained):
    options = GraphOptions(
        embedder=None, storage=StorageOptions(durability="os", lock_timeout_s=_PATIENCE_S)
    )
    with omnigraph.init(tmp_path / "graph", SCHEMA, options=options) as graph:
        written = {"seed0", "seed1"}
        for key in sorted(written):
            _insert(graph, key)
        lost: Counter[str] = Counter()
        wrong: list[BaseException] = []

        def run(number: int) -> None:
            for turn in range(ROUNDS):
                call = CALLS[(number + turn) % len(CALLS)]
                try:
                    written.update(call(graph, f"t{number}-{turn}"))
                except ConflictError as error:
                    lost[f"{call.__name__} {type(error).__name__}"] += 1
                except BaseException as error:  # noqa: BLE001 - judged below
                    wrong.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE_S)
        if wrong:
            untyped = [error for error in wrong if not isinstance(error, OmniGraphError)]
            raise (untyped or wrong)[0]
        assert {row["p.k"] for row in graph.query(ALL)} == written, lost
        assert all(finding.harmless for finding in graph.verify())
    with omnigraph.connect(tmp_path / "graph", options=options) as graph:
        assert {row["p.k"] for row in graph.query(ALL)} == written
