"""A random graph in a real store beside a plain copy of its rows, changed in step."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.model import EdgeType, NodeType
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.options import StorageOptions
from omnigraph.storage.store import GraphStore, init_store
from tests.support.answers import Question, listed
from tests.support.graphs import GraphCase, as_table, edge_rows, node_rows, values_of

Row = dict[str, Any]
Rows = dict[str, list[Row]]


@dataclass
class StoredGraph:
    """A store, the rows every branch should have, and images kept from query to query."""

    case: GraphCase
    store: GraphStore
    rows: dict[str, Rows]
    cache: ImageCache = field(default_factory=lambda: ImageCache(1 << 30))
    past: list[tuple[Snapshot, Rows]] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    @classmethod
    def create(cls, place: Path, case: GraphCase) -> StoredGraph:
        """Store a graph: one commit for its nodes and edges."""
        kinds = [*case.catalog.nodes.values(), *case.catalog.edges.values()]
        tables = [TableSpec(TableKey(kind.table_key), arrow_schema(kind)) for kind in kinds]
        options = StorageOptions(durability="os", maintenance="manual")
        store = init_store(str(place), tables, {"_schema.pg": case.schema.encode()}, options)
        session = store.begin()
        for kind in kinds:
            if case.rows[kind.table_key]:
                session.append(kind.table_key, as_table(kind, case.rows[kind.table_key]))
        session.commit()
        return cls(case, store, {"main": copy.deepcopy(dict(case.rows))})

    # Changes

    def change(self, rng: Random) -> None:
        """Do one random thing to a random branch; remember some states to look back at."""
        branch = rng.choice(list(self.rows))
        if rng.random() < 0.3:
            self.past.append((self.store.snapshot(branch), copy.deepcopy(self.rows[branch])))
        actions = [self.add, self.add, self.replace, self.replace, self.remove, self.remove]
        actions += [self.return_, self.compact, self.fork, self.fork, self.drop, self.drop]
        rng.choice(actions)(rng, branch)

    def add(self, rng: Random, branch: str) -> None:
        """Append rows with new ids."""
        kind, held = self.table(rng, branch)
        known = {row["id"] for row in held}
        fresh = [row for row in self.made(rng, kind, branch) if row["id"] not in known]
        if fresh:
            self.write("append", kind, fresh, branch)
            held += fresh

    def replace(self, rng: Random, branch: str) -> None:
        """Upsert: some rows change, some are new."""
        kind, held = self.table(rng, branch)
        changed = [row | values_of(rng, kind) for row in rng.sample(held, min(2, len(held)))]
        fresh = {row["id"]: row for row in [*self.made(rng, kind, branch)[:1], *changed]}
        if fresh:
            self.write("upsert", kind, list(fresh.values()), branch)
            held[:] = [row for row in held if row["id"] not in fresh] + list(fresh.values())

    def remove(self, rng: Random, branch: str) -> None:
        """Delete rows; the edges of a node mostly go with it."""
        kind, held = self.table(rng, branch)
        gone = {row["id"] for row in rng.sample(held, min(rng.randint(1, 2), len(held)))}
        if not gone:
            return
        session = self.store.begin(branch)
        session.delete(kind.table_key, sorted(gone))
        held[:] = [row for row in held if row["id"] not in gone]
        if isinstance(kind, NodeType) and rng.random() < 0.8:
            for edge in self.case.catalog.edges.values():
                edges = self.rows[branch][edge.table_key]
                cut = [one["id"] for one in edges if _touches(edge, one, kind, gone)]
                if cut:
                    session.delete(edge.table_key, cut)
                    edges[:] = [one for one in edges if one["id"] not in cut]
        session.commit()
        self.steps.append(f"{branch}: delete {kind.table_key} {sorted(gone)}")

    def return_(self, rng: Random, branch: str) -> None:
        """Delete a row and bring its id back with other values, unseen in between."""
        kind, held = self.table(rng, branch)
        if held:
            row = rng.choice(held)
            session = self.store.begin(branch)
            session.delete(kind.table_key, [row["id"]])
            session.commit()
            fresh = row | values_of(rng, kind)
            self.write("append", kind, [fresh], branch)
            held[:] = [one for one in held if one is not row] + [fresh]

    def compact(self, rng: Random, branch: str) -> None:
        """Rewrite files without changing rows."""
        self.store.optimize(branch)
        self.steps.append(f"{branch}: optimize")

    def fork(self, rng: Random, branch: str) -> None:
        """Start a branch; a name may be used a second time."""
        name = rng.choice(["one", "two"])
        if name not in self.rows:
            self.store.branches.create(name, source=branch)
            self.parents[name] = branch
            self.rows[name] = copy.deepcopy(self.rows[branch])
            self.steps.append(f"{branch}: branch {name}")

    def drop(self, rng: Random, branch: str) -> None:
        """Delete a branch that no other one descends from."""
        if branch != "main" and branch not in self.parents.values():
            del self.parents[branch]
            self.store.branches.delete(branch)
            del self.rows[branch]
            self.past = [(seen, rows) for seen, rows in self.past if seen.branch != branch]
            self.steps.append(f"{branch}: deleted")

    def table(self, rng: Random, branch: str) -> tuple[NodeType | EdgeType, list[Row]]:
        kinds = [*self.case.catalog.nodes.values(), *self.case.catalog.edges.values()]
        kind = rng.choice(kinds)
        return kind, self.rows[branch][kind.table_key]

    def made(self, rng: Random, kind: NodeType | EdgeType, branch: str) -> list[Row]:
        """Return rows that might be written; ends of edges exist on the branch."""
        if isinstance(kind, NodeType):
            return node_rows(rng, kind, rng.randint(1, 3))
        ends = [
            [row["id"] for row in self.rows[branch][f"node:{end}"]]
            for end in (kind.from_type, kind.to_type)
        ]
        return edge_rows(rng, kind, *ends, rng.randint(1, 3))

    def write(self, how: str, kind: NodeType | EdgeType, rows: list[Row], branch: str) -> None:
        session = self.store.begin(branch)
        getattr(session, how)(kind.table_key, as_table(kind, rows))
        session.commit()
        self.steps.append(f"{branch}: {how} {kind.table_key} {[row['id'] for row in rows]}")

    # Questions

    def check(self, question: Question, branch: str) -> None:
        """Compare a branch: through kept images and through images read anew."""
        snapshot = self.store.snapshot(branch)
        self.compare(question, snapshot, self.rows[branch], self.cache)
        self.compare(question, snapshot, self.rows[branch], ImageCache(1 << 30))

    def check_past(self, question: Question) -> None:
        """Compare every remembered state: later writes must not show in it."""
        for snapshot, rows in self.past:
            self.compare(question, snapshot, rows, self.cache)

    def compare(
        self, question: Question, snapshot: Snapshot, rows: Rows, cache: ImageCache
    ) -> None:
        images = SnapshotImages(snapshot, self.case.catalog, cache)
        found, wanted = question.answered(images), listed(question.asked(rows))
        assert found == wanted, "\n".join(
            [f"{snapshot.branch} at {snapshot.sequence}", *self.steps]
        )


def _touches(edge: EdgeType, row: Row, kind: NodeType, gone: set[str]) -> bool:
    return (edge.from_type == kind.name and row["src"] in gone) or (
        edge.to_type == kind.name and row["dst"] in gone
    )
