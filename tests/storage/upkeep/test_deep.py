"""Every file is known by its digest, and a single flipped bit in any of them is found."""

import errno
import inspect
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.base.ids import TableKey
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.storage.delta.table import table_delta
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.manifest.digests import stated_digests
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.foreign import write_foreign
from omnigraph.storage.tables.index import IndexSpec
from omnigraph.storage.upkeep import deep
from tests.support.operations import OPERATIONS, QUIET, interrupted
from tests.support.storage_model import A, B, contents, rows, write

FOREIGN = {"upgrade"}
"""Their files are of an older program, which took no digests."""


class Heard:
    """What a check told of its progress."""

    def __init__(self):
        self.tasks, self.sizes, self.bad = 0, [], 0

    def stage(self, name, tasks):
        self.tasks = tasks

    def done(self, rows, bad, size=0):
        self.bad += bad
        self.sizes.append(size)


def stated(store, branch="main"):
    return {one.name: one for one in stated_digests(store._heads.current(branch).handle)}


def flip(path: Path, at: int = -1, bit: int = 1):
    data = bytearray(path.read_bytes())
    data[at if at >= 0 else len(data) // 2] ^= bit
    path.write_bytes(data)


def broken(store, **how):
    return [one for one in store.check_files(**how) if not one.harmless]


@pytest.fixture
def graph(store):
    """A graph with data, deletions, an index, and a branch with files of its own."""
    write(store, {A: {f"a{number}": number for number in range(50)}, B: {"b": 1}})
    write(store, {A: {"a1": 100}})
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    assert store.build_index(A, IndexSpec("id", "BTREE", "a_by_id"))
    return store


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_writer_states_the_digests_of_its_files(name, root):
    operation = OPERATIONS[name]
    if operation.act is None:
        return  # an empty graph has no files to state
    operation.prepare(root, *([operation.options] if _takes_options(operation.prepare) else []))
    with open_store(root, options=operation.options) as store:
        operation.act(store)
        found = store.check_files()
        assert [one for one in found if one.kind != "unverified"] == []
        assert name in FOREIGN or found == []


def _takes_options(prepare):
    return len(inspect.signature(prepare).parameters) > 1


def test_bulk_loads_take_over_what_their_tasks_read(graph, monkeypatch):
    session = graph.begin()
    with session.load([A]) as load:
        parts = write_foreign(load.target(A), rows({f"n{number}": 1 for number in range(9)}))
        assert all(len(part.digests) == 1 for part in parts)
        read = []
        whole = graph.kernel.objects.digest
        monkeypatch.setattr(
            type(graph.kernel.objects), "digest", lambda _, name: read.append(name) or whole(name)
        )
        session.append_fragments(A, parts)
        session.commit()
        monkeypatch.undo()
    assert read == []  # the driver looks at none of them again
    assert graph.check_files() == []


def test_blobs_are_stated_with_their_data_file(store):
    key = TableKey("node:Blob")
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), lance.blob.blob_field("b")])
    session = store.begin()
    bytes_ = np.random.default_rng(7).bytes(300_000)
    session.create_table(TableSpec(key, schema), pa.table({"id": ["x"], "b": pa.array([bytes_])}))
    session.commit()
    beside = [name for name in stated(store) if not name.endswith(".lance")]
    assert beside
    assert store.check_files() == []
    flip(store.kernel.objects.path(beside[0]))
    assert [one.file for one in broken(store)] == beside[:1]


def test_a_flipped_bit_in_any_file_is_found(graph, root):
    for name in [*stated(graph), *stated(graph, "side")]:
        before = (root / name).read_bytes()
        for at, bit in ((0, 1), (len(before) // 2, 64), (len(before) - 1, 128)):
            flip(root / name, at, bit)
            assert [one.file for one in broken(graph)] == [name]
            (root / name).write_bytes(before)
    assert graph.check_files() == []


def test_a_finding_says_which_rows_and_commits_it_is_about(graph, root):
    first, second = graph.commits()[1:3]
    home = f"{graph.snapshot().table(A).location}"
    data, more = sorted(
        (one for one in stated(graph).values() if one.name.startswith(f"{home}/data/")),
        key=lambda one: one.sequence,
    )
    flip(root / data.name)
    (found,) = broken(graph)
    assert (found.kind, found.file, found.rows) == ("damaged_file", data.name, 49)
    assert "node:A" in found.subject
    lines = {commit.id for branch in ("main", "side") for commit in graph.commits(branch)}
    assert set(found.commits) == lines - {graph.commits()[0].id}
    assert found.commits[0] == first.id
    flip(root / data.name)
    flip(root / more.name)
    (found,) = broken(graph)
    assert (found.rows, found.commits[0]) == (1, second.id)


def test_damage_in_the_past_is_found_for_as_long_as_it_can_be_read(graph, root):
    past = graph.commits()[-1]
    session = graph.begin()
    session.overwrite(A, rows({"fresh": 1}))
    after = session.commit()
    data = next(
        name for name, one in stated(graph).items() if one.sequence == 1 and "/data/" in name
    )
    flip(root / data)
    (found,) = broken(graph)
    assert past.id in found.commits
    assert after.id not in found.commits


def test_deletions_that_are_damaged_are_told_with_the_rows_they_hide(graph, root):
    (name,) = [name for name in stated(graph) if "/_deletions/" in name]
    flip(root / name)
    (found,) = broken(graph)
    assert (found.rows, "hides 1 rows" in found.detail) == (1, True)


def test_a_file_that_is_gone_is_told_only_while_it_is_needed(graph, root):
    session = graph.begin()
    session.overwrite(B, rows({"new": 2}))
    session.commit()
    old, new = sorted(
        (one for one in stated(graph).values() if one.key == B), key=lambda one: one.sequence
    )
    (root / old.name).unlink()  # `side` still reads it, as main did when it was made
    assert [(one.kind, one.file) for one in broken(graph)] == [("missing_file", old.name)]
    graph.branches.delete("side")
    assert broken(graph) == []
    (root / new.name).unlink()
    assert [(one.kind, one.file) for one in broken(graph)] == [("missing_file", new.name)]


def test_a_renamed_table_keeps_its_digests(graph, root):
    session = graph.begin()
    session.rename_table(B, "node:Renamed")
    session.commit()
    assert graph.check_files() == []
    name = next(one.name for one in stated(graph).values() if one.key == B)
    flip(root / name)
    assert [one.file for one in broken(graph)] == [name]


def test_a_merge_by_link_does_not_declare_damage_right(graph, root):
    write(graph, {A: {f"l{number}": number for number in range(9)}}, "side")
    source = [one.name for one in stated(graph, "side").values() if "/tree/side/data/" in one.name]
    flip(root / max(source, key=lambda name: stated(graph, "side")[name].sequence))
    session = graph.begin(writer_kind="BranchMerge")
    sides = graph.merge_sides("side", session.base)
    delta = table_delta(graph.kernel, session.base.table(A), sides.theirs.table(A))
    with session.load([A]) as load:
        digests = sides.theirs.digests([A])
        parts = [load.take_over(A, part, digests) for part in delta.own_fragments()]
        session.append_fragments(A, parts)
        session.commit(merged=sides.source)
    graph.branches.delete("side")
    assert [one.kind for one in broken(graph)] == ["damaged_file"]


def test_files_of_other_tools_are_unverified(graph, root):
    location = graph.snapshot().table(B).location
    lance.write_dataset(rows({"more": 1}), str(root / location), mode="append")
    graph.repair("main", confirm=True, force=True)
    (found,) = graph.check_files()
    assert (found.kind, found.harmless, found.subject) == ("unverified", True, B)
    assert "1 files" in found.detail


def test_optimize_gives_digests_to_files_that_had_none(graph, root):
    location = graph.snapshot().table(B).location
    for number in range(3):
        lance.write_dataset(rows({f"m{number}": 1}), str(root / location), mode="append")
    graph.repair("main", confirm=True, force=True)
    assert [one.kind for one in graph.check_files()] == ["unverified"]
    graph.optimize()
    assert graph.check_files() == []


@pytest.mark.parametrize("point", ["publish.after_tables", "publish.after_publish"])
def test_a_write_that_is_rolled_forward_states_its_digests(graph, root, quiet, point):
    session = graph.begin()
    session.append(B, rows({"late": 1}))
    with interrupted(f"{point}=raise"):
        session.commit()
    graph.close()
    with open_store(root, options=quiet) as again:
        assert contents(again.snapshot())[B]["late"] == 1
        assert again.check_files() == []


def test_a_check_goes_on_where_it_was_stopped(graph, root, tmp_path, monkeypatch):
    journal, heard = tmp_path / "journal.jsonl", Heard()
    monkeypatch.setattr(deep, "_AT_ONCE", 1)

    class Stopping(Heard):
        def done(self, rows, bad, size=0):
            super().done(rows, bad, size)
            if len(self.sizes) == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.check_files(journal=str(journal), progress=Stopping())
    with journal.open("ab") as file:
        file.write(b'{"file": "cut sho')  # killed in the middle of a line
    assert graph.check_files(journal=str(journal), progress=heard) == []
    every = {**stated(graph), **stated(graph, "side")}
    assert 0 < heard.tasks < len(every)
    assert len(heard.sizes) == heard.tasks
    again = Heard()
    assert graph.check_files(journal=str(journal), progress=again) == []
    assert again.tasks == 0


def test_a_damaged_file_is_told_again_by_the_next_check(graph, root, tmp_path):
    name, journal = next(iter(stated(graph))), str(tmp_path / "journal")
    flip(root / name)
    for _ in range(2):
        assert [one.file for one in broken(graph, journal=journal)] == [name]


def test_a_journal_that_cannot_be_written_is_refused(graph, tmp_path):
    with pytest.raises(BadRequestError, match="journal"):
        graph.check_files(journal=str(tmp_path / "none" / "journal"))


def test_a_journal_on_a_full_disk_is_a_typed_error(graph, tmp_path, monkeypatch):
    class Full:
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    opened = deep._Journal.__init__

    def on_a_full_disk(journal, path):
        opened(journal, path)
        journal._file.close()
        journal._file = Full()

    monkeypatch.setattr(deep._Journal, "__init__", on_a_full_disk)
    with pytest.raises(StorageError, match="No space left"):
        graph.check_files(journal=str(tmp_path / "journal"))


def test_a_check_changes_nothing_and_needs_no_right_to_write(graph, root, quiet):
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    with open_store(root, read_only=True, options=quiet) as reader:
        assert reader.check_files() == []
    after = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    assert after == before


def test_a_cleanup_beside_a_check_is_no_finding(graph, monkeypatch):
    write(graph, {A: {"a2": 7}})
    whole = type(graph.kernel.objects).digest

    def late(objects, name):
        if gone:
            graph.branches.delete("side")
            objects.delete(*gone)
            gone.clear()
        return whole(objects, name)

    monkeypatch.setattr(deep, "_AT_ONCE", 1)
    gone = [name for name in stated(graph, "side") if "/tree/side/" in name]
    monkeypatch.setattr(type(graph.kernel.objects), "digest", late)
    assert broken(graph) == []


class TestFirstReads:
    """The check that is asked for by a setting, before rows are read."""

    def test_a_damaged_file_is_refused_before_its_first_read(self, graph, root, quiet):
        name = next(one.name for one in stated(graph).values() if one.key == B)
        graph.close()
        flip(root / name)
        checking = replace(quiet, check_files="first_read")
        with open_store(root, options=checking) as store:
            with pytest.raises(DamagedError, match="is not what was written"):
                store.snapshot().open(B)
            assert contents_of(store, A)["a1"] == 100

    def test_every_file_is_read_once(self, graph, root, quiet, monkeypatch):
        graph.close()
        read = []
        with open_store(root, options=replace(quiet, check_files="first_read")) as store:
            whole = type(store.kernel.objects).digest
            monkeypatch.setattr(
                type(store.kernel.objects),
                "digest",
                lambda objects, name: read.append(name) or whole(objects, name),
            )
            contents(store.snapshot())
            first = len(read)
            contents(store.snapshot())
            contents(store.snapshot("side"))
        assert first > 0
        assert len(read) == len(set(read))

    def test_nobody_pays_who_did_not_ask(self, graph, root, quiet):
        name = next(one.name for one in stated(graph).values() if one.key == B)
        graph.close()
        (root / name).write_bytes((root / name).read_bytes())
        with open_store(root, options=quiet) as store:
            assert not store.kernel.first_reads.is_due(store.snapshot().table(B).place)


def contents_of(store, key):
    read = store.snapshot().open(key).scan()
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


def test_an_index_that_is_damaged_is_taken_out_by_repair(graph, root):
    name = next(name for name in stated(graph) if f"/{layout.INDICES_DIR}/" in name)
    flip(root / name, 40)
    (found,) = broken(graph)
    assert "`repair` takes it out" in found.detail
    (told,) = [one for one in graph.repair("main") if one.lost_indexes]
    assert (told.lost_indexes, told.action) == (("a_by_id",), "preview")
    graph.repair("main", confirm=True)
    found = graph.check_files()
    assert [one for one in found if not one.harmless] == []


def test_quiet_options_are_those_of_the_matrix():
    assert QUIET.check_files == "never"
