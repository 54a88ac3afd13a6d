"""Healing: evidence decides, and whatever is decided happens once."""

import orjson
import pytest

from omnigraph.base import failpoints
from omnigraph.base.failpoints import FailpointTriggeredError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Changes
from omnigraph.storage.files.sidecar import Sidecar, SidecarError, SidecarTable, list_sidecars
from omnigraph.storage.files.sidecar import encode as encode_sidecar
from omnigraph.storage.manifest.rows import read_commits
from omnigraph.storage.recovery.drift import DriftError
from omnigraph.storage.recovery.evidence import RecoveryError
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.stage import Append, stage
from tests.support.operations import interrupted
from tests.support.storage_model import (
    A,
    B,
    E,
    check_whole,
    contents,
    once,
    rows,
    write,
)

BEFORE = {A: {"a": 1}, B: {}, E: {}}
AFTER = {A: {"a": 1, "x": 1}, B: {"y": 1}, E: {}}


def leave(store, point, *, key=None):
    """Interrupt a write to two tables at a failpoint."""
    session = store.begin(actor="ann")
    session.append(A, rows({"x": 1}))
    session.append(B, rows({"y": 1}))
    with interrupted(f"{point}=raise"):
        session.commit(preconditions=once(key, "h"), result={"rows": 2})


def recoveries(store, branch="main"):
    return [
        (commit.recovery["recovery_kind"], commit.recovery["recovery_for_actor"])
        for commit in store.commits(branch)
        if commit.recovery is not None
    ]


def unpublish(root, store, key):
    """Make it look as if one table had not moved."""
    table = store.snapshot().table(key)
    (root / layout.version_file(table.location, table.branch, table.version + 1)).unlink()
    store.kernel.tables.close()


@pytest.fixture
def graph(store):
    write(store, {A: {"a": 1}})
    return store


@pytest.mark.parametrize(
    ("point", "outcome", "audits"),
    [
        ("publish.after_staging", BEFORE, []),
        ("publish.after_sidecar", BEFORE, [("RolledBack", "ann")]),
        ("publish.between_tables", BEFORE, [("RolledBack", "ann")]),
        ("publish.after_tables", AFTER, [("RolledForward", "ann")]),
        ("publish.after_table_sync", AFTER, [("RolledForward", "ann")]),
        ("publish.after_publish", AFTER, [("RolledForward", "ann")]),
        ("publish.after_files", AFTER, [("RolledForward", "ann")]),
        ("publish.after_sidecar_delete", AFTER, []),
    ],
)
def test_reopening_makes_a_half_done_write_whole_or_undone(
    graph, root, quiet, point, outcome, audits
):
    leave(graph, point)
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert contents(again.snapshot()) == outcome
        assert recoveries(again) == audits
        check_whole(again)


def test_a_rolled_forward_commit_is_exactly_the_one_intended(graph, root, quiet):
    leave(graph, "publish.after_tables", key="k")
    intended = list_sidecars(graph.kernel.objects)[0].commit
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert again.commit(intended.id) == intended
        healed, audit = again.commits()[-2:]
        assert (healed.id, healed.actor, audit.actor) == (intended.id, "ann", "omnigraph:recovery")
        assert audit.logical_id == intended.id
        session = again.begin()
        session.append(A, rows({"x": 1}))
        session.append(B, rows({"y": 1}))
        retried = session.commit(preconditions=once("k", "h"))
        assert (retried.id, retried.outcome, retried.commit.result) == (
            intended.id,
            "replayed",
            {"rows": 2},
        )
        assert contents(again.snapshot()) == AFTER


def test_the_next_write_heals_without_reopening(graph):
    leave(graph, "publish.after_tables")
    write(graph, {E: {"e": 1}})
    assert contents(graph.snapshot()) == AFTER | {E: {"e": 1}}
    assert recoveries(graph) == [("RolledForward", "ann")]


def test_entering_a_write_rolls_forward_but_leaves_roll_backs_to_the_window(graph):
    leave(graph, "publish.between_tables")
    session = graph.begin()
    assert len(list_sidecars(graph.kernel.objects)) == 1
    assert graph.counters.get("deferred_sidecars") == 1
    session.append(E, rows({"e": 1}))
    session.commit()
    assert contents(graph.snapshot()) == BEFORE | {E: {"e": 1}}
    assert recoveries(graph) == [("RolledBack", "ann")]


def test_a_read_only_open_heals_nothing(graph, root, quiet):
    leave(graph, "publish.after_tables")
    graph.close()
    with open_store(str(root), read_only=True, options=quiet) as reader:
        assert contents(reader.snapshot()) == BEFORE
        assert len(list_sidecars(reader.kernel.objects)) == 1


def test_a_live_writer_is_left_alone(graph, root, quiet):
    leave(graph, "publish.after_tables")
    with (
        graph.kernel.locks.hold("branch:main", "a live writer"),
        open_store(str(root), options=quiet) as other,
    ):
        assert contents(other.snapshot()) == BEFORE
        assert len(list_sidecars(other.kernel.objects)) == 1


@pytest.mark.parametrize(
    "point",
    [
        "recovery.before_restore",
        "recovery.between_restores",
        "recovery.before_publish",
        "recovery.after_publish",
    ],
)
def test_a_crash_during_recovery_is_recovered_from(graph, root, quiet, point):
    leave(graph, "publish.between_tables")
    for _ in range(2):
        failpoints.enable(f"{point}=raise")
        with pytest.raises(FailpointTriggeredError):
            open_store(str(root), options=quiet)
        failpoints.disable_all()
        if point == "recovery.after_publish":
            break  # a second pass finds the outcome published and only tidies up
    with open_store(str(root), options=quiet) as again:
        assert contents(again.snapshot()) == BEFORE
        assert recoveries(again) == [("RolledBack", "ann")]
        check_whole(again)


def test_several_sidecars_are_healed_oldest_first(graph, root, quiet):
    graph.branches.create("side")
    leave(graph, "publish.after_tables")
    session = graph.begin("side")
    with interrupted("publish.after_tables=raise"):
        session.append(A, rows({"s": 1}))
        session.commit()
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert contents(again.snapshot()) == AFTER
        assert contents(again.snapshot("side"))[A] == {"a": 1, "s": 1}
        assert recoveries(again, "side") == [("RolledForward", None)]


def test_the_sidecar_of_a_deleted_branch_is_discarded_once(graph, root, quiet):
    graph.branches.create("side")
    session = graph.begin("side")
    with interrupted("publish.after_tables=raise"):
        session.append(A, rows({"s": 1}))
        session.commit()
    (root / layout.branch_ref(layout.MANIFEST, "side")).unlink()
    graph.close()
    for _ in range(2):
        with open_store(str(root), options=quiet) as again:
            assert recoveries(again) == [("OrphanedBranchDiscarded", None)]
            assert list_sidecars(again.kernel.objects) == []


def test_a_table_moved_by_someone_else_is_rolled_back(graph, root, quiet):
    """The uuid decides: the right version number alone is no evidence."""
    leave(graph, "publish.after_sidecar")
    for key in (A, B):
        staged = stage(graph.kernel.tables, graph.snapshot().handle(key), Append(rows({"z": 9})))
        commit_staged(graph.kernel.tables, staged)
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert contents(again.snapshot()) == BEFORE
        assert recoveries(again) == [("RolledBack", "ann")]
        check_whole(again)


def test_a_dead_writer_that_wakes_up_is_fenced(graph):
    """Recovery restores even tables that had not moved, so late transactions are refused."""
    session = graph.begin()
    late = stage(graph.kernel.tables, graph.snapshot().handle(A), Append(rows({"late": 1})))
    leave(graph, "publish.after_sidecar")
    graph.recover()
    from omnigraph.storage.tables.failures import CommitRaceError

    with pytest.raises(CommitRaceError):
        commit_staged(graph.kernel.tables, late)
    session.append(A, rows({"b": 1}))
    session.commit()
    assert contents(graph.snapshot())[A] == {"a": 1, "b": 1}


def test_a_version_missing_under_the_graph_aborts_and_keeps_the_sidecar(graph, root, quiet):
    leave(graph, "publish.after_tables")
    table = graph.snapshot().table(A)
    (root / layout.version_file(table.location, None, table.version)).unlink()
    graph.close()
    with pytest.raises(RecoveryError, match=f"no version {table.version}"):
        open_store(str(root), options=quiet)
    assert len(list((root / "__recovery").iterdir())) == 1


@pytest.mark.parametrize("torn", [A, B])
def test_a_torn_table_version_is_set_aside_and_the_write_undone(graph, root, quiet, torn):
    leave(graph, "publish.after_tables")
    table = graph.snapshot().table(torn)
    (root / layout.version_file(table.location, None, table.version + 1)).write_bytes(b"")
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert contents(again.snapshot()) == BEFORE
        assert again.counters.get("quarantined_versions") == 1
        check_whole(again)


def test_a_torn_publish_is_set_aside_and_done_again(graph, root, quiet):
    leave(graph, "publish.after_publish")
    newest = graph._heads.reread(layout.MAIN).manifest_version
    (root / layout.version_file(layout.MANIFEST, None, newest)).write_bytes(b"")
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert contents(again.snapshot()) == AFTER
        check_whole(again)


def test_drift_without_a_sidecar_is_refused_unless_it_is_our_own(graph):
    head = graph.snapshot()
    foreign = stage(graph.kernel.tables, head.handle(A), Append(rows({"foreign": 1})))
    commit_staged(graph.kernel.tables, foreign)
    with pytest.raises(DriftError, match="omnigraph repair"):
        write(graph, {A: {"b": 1}})
    write(graph, {B: {"b": 1}})
    ours = stage(graph.kernel.tables, graph.snapshot().handle(B), Append(rows({"ghost": 1})))
    ours.sign({"omnigraph:operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
    commit_staged(graph.kernel.tables, ours)
    write(graph, {B: {"c": 1}})
    assert contents(graph.snapshot())[B] == {"b": 1, "c": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "cannot be read", id="empty"),
        pytest.param(b"{", "cannot be read", id="truncated"),
        pytest.param(orjson.dumps({"schema_version": 5}), "version 5", id="newer"),
        pytest.param(orjson.dumps({"schema_version": 3}), "garbles", id="fields missing"),
    ],
)
def test_a_sidecar_that_cannot_be_understood_blocks_writes_and_stays(
    graph, root, quiet, content, words
):
    path = root / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(SidecarError, match=words):
        write(graph, {A: {"b": 1}})
    graph.close()
    with pytest.raises(SidecarError, match=path.name):
        open_store(str(root), options=quiet)
    with open_store(str(root), read_only=True, options=quiet) as reader:
        assert contents(reader.snapshot()) == BEFORE
    assert path.read_bytes() == content


class TestSidecarsOfOlderPrograms:
    """Versions 1 and 2 carry no commit and no uuid; the version numbers must do."""

    def place(self, store, root, *, version, writer_kind, moved, post=None, confirmed=None):
        """Move tables by hand and leave an old sidecar that names A and B."""
        head = store.snapshot()
        for key, steps in moved.items():
            for step in range(steps):
                handle = store.kernel.tables.open_latest(head.table(key).location, None)
                staged = stage(store.kernel.tables, handle, Append(rows({f"m{step}": 1})))
                commit_staged(store.kernel.tables, staged)
        tables = tuple(
            SidecarTable(
                key,
                head.table(key).location,
                None,
                head.table(key).version,
                head.table(key).version + (post or 1),
                None,
                confirmed and head.table(key).version + confirmed,
            )
            for key in (A, B)
        )
        sidecar = Sidecar(
            "01ARZ3NDEKTSV4RRFFQ69G5FAV", "main", writer_kind, "bob", 0, tables, None, Changes()
        )
        content = orjson.loads(encode_sidecar(sidecar))
        content |= {"schema_version": version, "started_at": "2025-01-01T00:00:00Z"}
        for table in content["tables"]:
            table["table_path"] = f"{root}/{table['table_path']}"
        del content["changes"], content["commit"], content["epoch"]
        path = root / layout.sidecar(sidecar.operation_id)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(orjson.dumps(content))

    @pytest.mark.parametrize(
        ("writer_kind", "moved", "confirmed", "outcome"),
        [
            pytest.param("Mutation", {A: 1, B: 1}, None, "RolledForward", id="strict, all +1"),
            pytest.param("Mutation", {A: 1}, None, "RolledBack", id="strict, one moved"),
            pytest.param("Load", {A: 2, B: 1}, None, "RolledBack", id="strict, one +2"),
            pytest.param("SchemaApply", {A: 2, B: 1}, None, "RolledForward", id="loose, +2"),
            pytest.param("SchemaApply", {A: 2}, None, "RolledBack", id="loose, one unmoved"),
            pytest.param("BranchMerge", {A: 2, B: 2}, 2, "RolledForward", id="confirmed"),
            pytest.param("BranchMerge", {A: 1, B: 2}, 2, "RolledBack", id="confirmed, differs"),
            pytest.param("Mutation", {}, None, "RolledBack", id="nothing moved"),
        ],
    )
    def test_the_decision_table(self, graph, root, quiet, writer_kind, moved, confirmed, outcome):
        self.place(
            graph, root, version=2, writer_kind=writer_kind, moved=moved, confirmed=confirmed
        )
        graph.close()
        with open_store(str(root), options=quiet) as again:
            assert recoveries(again) == [(outcome, "bob")]
            expected = (
                BEFORE
                if outcome == "RolledBack"
                else {
                    A: {"a": 1} | {f"m{i}": 1 for i in range(moved[A])},
                    B: {f"m{i}": 1 for i in range(moved[B])},
                    E: {},
                }
            )
            assert contents(again.snapshot()) == expected
            check_whole(again)

    def test_a_sidecar_whose_write_was_published_is_only_audited(self, graph, root, quiet):
        self.place(graph, root, version=1, writer_kind="Mutation", moved={})
        path = root / layout.sidecar("01ARZ3NDEKTSV4RRFFQ69G5FAV")
        kept = path.read_bytes()
        path.unlink()
        write(graph, {A: {"x": 1}, B: {"y": 1}})
        path.write_bytes(kept)
        graph.close()
        with open_store(str(root), options=quiet) as again:
            assert contents(again.snapshot()) == AFTER
            assert recoveries(again) == [("RolledForward", "bob")]


def test_a_fold_of_the_manifest_that_was_interrupted_needs_no_audit(graph, root, quiet):
    for i in range(35):
        write(graph, {A: {f"k{i}": i}})
    with interrupted("optimize.after_fold=raise"):
        graph.maintain()
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert recoveries(again) == []
        assert list_sidecars(again.kernel.objects) == []
        assert len(contents(again.snapshot())[A]) == 36


@pytest.mark.parametrize("point", ["after_rewrite", "after_sidecar", "after_compact"])
def test_an_interrupted_compaction_changes_no_row(graph, root, quiet, point):
    for i in range(4):
        write(graph, {A: {f"k{i}": i}})
    before = contents(graph.snapshot())
    with interrupted(f"optimize.{point}=raise"):
        graph.optimize()
    graph.close()
    with open_store(str(root), options=quiet) as again:
        assert contents(again.snapshot()) == before
        check_whole(again)


class TestMergesWhoseSourceIsGone:
    """An interrupted merge is finished with what it was to bring, whatever became of its source."""

    def leave(self, store):
        """Interrupt a merge and delete its source; return the commits it was to bring."""
        store.branches.create("side")
        brought = [write(store, {A: {"s": number}}, "side") for number in range(2)]
        session = store.begin(writer_kind="BranchMerge")
        session.upsert(A, rows({"s": 1}))
        with interrupted("publish.after_tables=raise"):
            session.commit(merged=store.merge_sides("side", session.base).source)
        objects = store.kernel.objects  # by hand: every other way would finish the merge first
        objects.delete(layout.branch_ref(layout.MANIFEST, "side"))
        objects.delete_prefix(layout.lineage(layout.MANIFEST, "side"))
        return brought

    def test_it_brings_the_commits_it_was_to_bring(self, store):
        brought = self.leave(store)
        (healed,) = store.recover()
        assert healed.outcome == "RolledForward"
        assert contents(store.snapshot())[A] == {"s": 1}
        told = [commit.id for commit in read_commits(_main(store), every=True)]
        line = [commit.id for commit in store.commits()]
        assert set(told) - set(line) == set(brought)
        assert store.commits()[-2].merged_parent == brought[-1]
        assert not store.kernel.objects.list(layout.STAGING_DIR)

    def test_one_of_an_older_program_that_kept_them_elsewhere_is_refused(self, store):
        self.leave(store)
        (info,) = store.kernel.objects.list(layout.RECOVERY_DIR)
        content = orjson.loads(store.kernel.objects.get(info.name)) | {"schema_version": 3}
        del content["merged_commits"]
        store.kernel.objects.put(info.name, orjson.dumps(content))
        with pytest.raises(SidecarError, match="older program"):
            write(store, {A: {"on": 1}})

    def test_a_merge_that_is_rolled_back_leaves_nothing(self, store):
        store.branches.create("side")
        write(store, {A: {"s": 1}}, "side")
        session = store.begin(writer_kind="BranchMerge")
        session.upsert(A, rows({"s": 1}))
        with interrupted("publish.after_sidecar=raise"):
            session.commit(merged=store.merge_sides("side", session.base).source)
        assert [healed.outcome for healed in store.recover()] == ["RolledBack"]
        for place in (layout.RECOVERY_DIR, layout.STAGING_DIR):
            assert not store.kernel.objects.list(place)


def _main(store):
    return store._heads.current(layout.MAIN).handle
