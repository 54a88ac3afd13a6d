"""Rows, ranks and scores are the oracle's in every physical state a graph can be in.

Resident or not, with no, partial or full indexes, read fresh, brought up to date by what this
process wrote or by what changed in storage, compacted, on main and on a branch.
"""

import re
import tempfile
from itertools import product
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from omnigraph.api.upkeep import IndexStatus
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.ir.facts import facts_of
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.compiler.ir.reads import reads_of
from omnigraph.compiler.source import Source
from omnigraph.engine import maintain
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.maintain import ensure_indexes
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.engine.read.plan import statistics_of
from omnigraph.engine.read.selective import selective_images
from omnigraph.errors import CompileError
from tests.support.answers import Question, listed
from tests.support.graphs import GraphCase, a_graph, as_table
from tests.support.read_queries import a_query
from tests.support.stored_graphs import StoredGraph

INDEXES = ("none", "partial", "full")
STATES = ("fresh", "overlay", "delta", "compacted")
BRANCHES = ("main", "one")


@pytest.fixture(autouse=True)
def _index_few_vectors(monkeypatch):
    monkeypatch.setattr(maintain, "TRAINING_ROWS", 1)


def indexed(schema: str) -> str:
    """Return a schema that asks for an index on every column that can have one."""
    return re.sub(r"(?m)^(\s+\w+: (?!\[)[^@\n]*[^@\s])$", r"\1 @index", schema)


def build_indexes(graph: StoredGraph, branch: str) -> None:
    catalog = load_schema(Source(indexed(graph.case.schema))).catalog
    reports = ensure_indexes(graph.store, catalog, branch)
    for one in reports:
        rows = graph.rows[branch][one.table_key]
        if one.status is IndexStatus.PENDING and "the rows are those of main" not in one.reason:
            assert not any(row[one.column] is not None for row in rows), one
    again = ensure_indexes(graph.store, catalog, branch)
    assert {one.status for one in again} <= {IndexStatus.CURRENT, IndexStatus.PENDING}


def take_over(graph: StoredGraph, before, rows_before, branch: str) -> None:
    """Hand the last commit to the images, as the writing process does."""
    after = graph.store.snapshot(branch)
    for kind in (*graph.case.catalog.nodes.values(), *graph.case.catalog.edges.values()):
        key = kind.table_key
        old = {row["id"]: row for row in rows_before[key]}
        new = {row["id"]: row for row in graph.rows[branch][key]}
        upserts = [row for one, row in new.items() if row != old.get(one)]
        graph.cache.advance(
            before.table(key),
            after.table(key),
            as_table(kind, upserts) if upserts else None,
            pa.array(sorted(old.keys() - new.keys()), pa.string()),
            in_place=key.startswith("node:"),
        )


def write(graph: StoredGraph, rng: Random, branch: str, *, hand_over: bool) -> None:
    for _ in range(4):
        before = graph.store.snapshot(branch)
        rows = {key: [dict(row) for row in held] for key, held in graph.rows[branch].items()}
        rng.choice([graph.add, graph.replace, graph.replace, graph.remove])(rng, branch)
        if hand_over:
            take_over(graph, before, rows, branch)


def ask(graph: StoredGraph, questions: list[Question], branch: str, cache: ImageCache) -> None:
    """Compare every question on whole tables and on the few rows it touches."""
    snapshot, catalog = graph.store.snapshot(branch), graph.case.catalog
    facts = facts_of(catalog, statistics_of(snapshot))
    for question in questions:
        wanted = listed(question.asked(graph.rows[branch]))
        plan = optimize(question.plain_ir, facts)
        whole = SnapshotImages(snapshot, catalog, cache)
        assert question.answered(whole, plan) == wanted, graph.steps
        few = selective_images(plan, reads_of(plan), snapshot, catalog, question.bound)
        if few is not None:
            assert question.answered(few, plan) == wanted, graph.steps


def some_questions(rng: Random, case: GraphCase, count: int) -> list[Question]:
    """Return queries; half of them search."""
    found: list[Question] = []
    searching = 0
    while len(found) < count:
        asked = a_query(rng, case)
        searches = any(name in asked.text for name in ("nearest(", "bm25(", "search(", "fuzzy("))
        if not searches and len(found) - searching >= count // 2:
            continue
        try:
            found.append(Question(case.catalog, asked.text, asked.params))
        except CompileError:
            continue
        searching += searches
    return found


def check(seed: int, index: str, state: str, branch: str) -> None:
    rng = Random(seed)
    case = a_graph(rng)
    with tempfile.TemporaryDirectory() as place:
        graph = StoredGraph.create(Path(place) / "graph", case)
        with graph.store:
            questions = some_questions(rng, case, 8)
            if branch != "main":
                graph.store.branches.create(branch, source="main")
                graph.rows[branch] = {key: list(rows) for key, rows in case.rows.items()}
                write(graph, rng, branch, hand_over=False)  # now some tables are its own
            if index == "partial":
                build_indexes(graph, branch)
            if state != "fresh":
                ask(graph, questions, branch, graph.cache)
            write(graph, rng, branch, hand_over=state == "overlay")
            if state == "compacted":
                graph.store.optimize(branch)
            if index == "full":
                build_indexes(graph, branch)
            ask(graph, questions, branch, ImageCache(1 << 30) if state == "fresh" else graph.cache)


MATRIX = list(product(INDEXES, STATES, BRANCHES))


@pytest.mark.parametrize(("index", "state", "branch"), MATRIX)
def test_the_answer_is_the_oracles_in_every_physical_state(index, state, branch):
    check(hash((len(index), len(state), len(branch))) % 2**32, index, state, branch)


@pytest.mark.exhaustive
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("index", "state", "branch"), MATRIX)
def test_the_answer_is_the_oracles_in_every_physical_state_at_length(index, state, branch):
    for seed in range(40):
        check(seed, index, state, branch)
