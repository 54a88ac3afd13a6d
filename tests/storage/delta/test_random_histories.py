"""Whatever happened between two versions, their delta is what comparing all rows tells."""

import itertools
import random
import struct

import pyarrow as pa
import pytest

from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.storage.delta.table import table_delta
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Changes, TableSpec
from omnigraph.storage.manifest.publish import physical_intent, publish_moved
from omnigraph.storage.store import init_store
from omnigraph.storage.tables.commit import restore
from omnigraph.storage.tables.index import IndexSpec
from tests.storage.conftest import QUIET
from tests.support.storage_model import A

COLUMNS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.string()),
        pa.field("f", pa.float64()),
        pa.field("t", pa.list_(pa.string())),
    ]
)
STEPS = 30
PAIRS_OF = 9
BY_ID = IndexSpec("id", "BTREE", "id_btree")


def some_rows(ids, dice):
    return pa.table(
        {
            "id": ids,
            "n": [dice.choice([None, "", "x", "y"]) for _ in ids],
            "f": [dice.choice([None, 0.0, -0.0, float("nan"), 1.0]) for _ in ids],
            "t": [dice.choice([None, [], [None], ["x"]]) for _ in ids],
        },
        schema=COLUMNS,
    )


def exactly(rows):
    """Return rows by id, floats as their bits."""
    found = {}
    for row in rows.to_pylist():
        bits = None if row["f"] is None else struct.pack("<d", row["f"])
        found[row["id"]] = (row["n"], bits, None if row["t"] is None else tuple(row["t"]))
    return found


def full_comparison(before, after):
    old, new = exactly(before), exactly(after)
    return {
        "inserted": {key: row for key, row in new.items() if key not in old},
        "before": {key: old[key] for key, row in new.items() if old.get(key, row) != row},
        "after": {key: row for key, row in new.items() if old.get(key, row) != row},
        "deleted": {key: row for key, row in old.items() if key not in new},
    }


class History:
    """A graph of one table, and what dice do to it."""

    def __init__(self, root, seed):
        self.dice = random.Random(seed)
        self.store = init_store(root, [TableSpec(A, COLUMNS)], {}, QUIET)
        self.branches = ["main"]
        self.made = 0
        self.serial = itertools.count()
        self.write("main", some_rows([f"i{n}" for n in range(200)], self.dice))
        self.seen = [self.store.snapshot()]

    def write(self, branch, upserts=None, deletes=None, overwrite=None):
        session = self.store.begin(branch)
        if upserts is not None:
            session.upsert(A, upserts)
        if deletes:
            session.delete(A, deletes)
        if overwrite is not None:
            session.overwrite(A, overwrite)
        session.commit()

    def step(self):
        branch = self.dice.choice(self.branches)
        ids = self.store.snapshot(branch).open(A).scan(["id"])["id"].to_pylist()
        what = self.dice.choice(
            [
                *(self.upsert, self.upsert, self.upsert, self.delete, self.delete, self.rewrite),
                *(self.overwrite, self.compact, self.optimize, self.index, self.fork, self.fork),
                *(self.drop, self.again, self.restore),
            ]
        )
        try:
            what(branch, ids)
        except (ConflictError, NotFoundError):
            return  # a branch that others rest on, or an index that is there
        self.seen.append(self.store.snapshot(branch if branch in self.branches else "main"))

    def upsert(self, branch, ids):
        count = min(len(ids), self.dice.choice([1, 5, 30]))
        fresh = [f"n{next(self.serial)}" for _ in range(self.dice.choice([0, 1, 20]))]
        self.write(branch, some_rows(self.dice.sample(ids, count) + fresh, self.dice))

    def rewrite(self, branch, ids):
        """Write rows as they are."""
        same = self.dice.sample(ids, min(5, len(ids)))
        self.write(branch, self.store.snapshot(branch).open(A).by_ids(same))

    def delete(self, branch, ids):
        self.write(branch, deletes=self.dice.sample(ids, min(len(ids), self.dice.choice([1, 10]))))

    def overwrite(self, branch, ids):
        left = self.dice.sample(ids, len(ids) // 2) or ["z"]
        self.write(branch, overwrite=some_rows(left, self.dice))

    def compact(self, branch, ids):
        self.store.maintain(branch)

    def optimize(self, branch, ids):
        self.store.optimize(branch)

    def index(self, branch, ids):
        self.store.build_index(A, BY_ID, branch)

    def fork(self, branch, ids):
        if len(self.branches) < 6:
            self.made += 1
            self.store.branches.create(f"b/{self.made}", branch)
            self.branches.append(f"b/{self.made}")

    def drop(self, branch, ids):
        if len(self.branches) > 2 and branch != "main":
            self.store.branches.delete(branch)
            self.branches.remove(branch)

    def again(self, branch, ids):
        """Delete a branch and use its name for another one."""
        if branch != "main":
            self.store.branches.delete(branch)
            self.store.branches.create(branch)

    def restore(self, branch, ids):
        """Bring an older version of the table back, as Lance does it, past every record."""
        store, kernel = self.store, self.store.kernel
        head = store._heads.current(layout.parse_branch(branch, operation="restore"))
        now = head.tables[A]
        older = [
            one.table(A)
            for one in self.seen
            if one.table(A).place[:2] == now.place[:2] and one.table(A).version < now.version
        ]
        if not older or layout.fork_owner(now.branch) != branch:
            return
        old = self.dice.choice(older)
        mark = {"omnigraph:operation_id": "x"}
        moved = restore(kernel.tables, now.location, now.branch, old.version, mark)
        table = now._replace(version=moved.version, row_count=old.row_count)
        intent = physical_intent(kernel, head, "Optimize", (), (table,))
        changes = Changes(versions=(table,))
        store._heads.remember(publish_moved(kernel, head, intent.commit, changes))

    def check(self):
        places = {one.table(A).place: one for one in self.seen}
        some = list(places.values())
        self.dice.shuffle(some)
        for before, after in itertools.permutations(some[:PAIRS_OF], 2):
            self.check_pair(before, after)

    def check_pair(self, before, after):
        memory = self.dice.choice([64 << 20, 3_000])
        delta = table_delta(self.store.kernel, before.table(A), after.table(A), memory=memory)
        found = {"inserted": {}, "before": {}, "after": {}, "deleted": {}}
        last = ""
        for piece in delta.batches():
            for name, rows in found.items():
                part = exactly(getattr(piece, name))
                assert not rows.keys() & part.keys()
                rows |= part
            ids = [key for name in found for key in exactly(getattr(piece, name))]
            assert min(ids) > last, "pieces are not in order"
            last = max(ids)
        expected = full_comparison(before.open(A).scan(), after.open(A).scan())
        assert found == expected, (before.table(A).place, after.table(A).place)
        changed = {key for rows in expected.values() for key in rows}
        touched = delta.touched()
        assert changed <= set(touched.ids.to_pylist())
        assert set(touched.deleted.to_pylist()) == expected["deleted"].keys()


@pytest.mark.property
@pytest.mark.parametrize("seed", range(3))
def test_a_delta_is_what_comparing_all_rows_tells(tmp_path, seed):
    run(tmp_path, seed, STEPS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_delta_is_what_comparing_all_rows_tells_in_many_histories(tmp_path, seed):
    run(tmp_path, seed, 2 * STEPS)


def run(root, seed, steps):
    history = History(root / "graph", seed)
    for _ in range(steps):
        history.step()
    history.check()
    history.store.close()
