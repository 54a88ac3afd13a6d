"""A branch that cannot be read: it can be deleted, and the rest is cleaned and used as ever."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.storage.files import layout
from omnigraph.storage.manifest.snapshot import BranchNotFoundError
from omnigraph.storage.options import Retention
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.operations import QUIET
from tests.support.storage_model import A, B, check_verified, contents, new_graph, write

OPTIONS = replace(
    QUIET, retention=Retention(floor_s=0, orphan_age_s=0, newest_versions=1, manifest_versions=1)
)
EVERYTHING = CleanupPolicy(keep_versions=1, older_than_s=0)


def cut_manifest(root):
    for file in (root / layout.lineage(layout.MANIFEST, "side") / layout.VERSIONS_DIR).iterdir():
        file.write_bytes(file.read_bytes()[:20])


def lose_manifest_rows(root):
    for file in (root / layout.lineage(layout.MANIFEST, "side") / layout.DATA_DIR).iterdir():
        file.write_bytes(b"")


def tear_ref(root):
    (root / layout.branch_ref(layout.MANIFEST, "side")).write_bytes(b"{")


def lose_all(root):
    tear_ref(root)
    cut_manifest(root)


def cut_table(root):
    for file in root.glob("nodes/*/tree/side/_versions/*.manifest"):
        file.write_bytes(file.read_bytes()[:20])


DAMAGES = [cut_manifest, lose_manifest_rows, tear_ref, lose_all]


@pytest.fixture
def graph(root):
    """A branch with a table of its own and one it shares; main has moved on since."""
    with new_graph(root, OPTIONS) as store:
        store.branches.create("side")
        write(store, {A: {"side": 1}}, "side")
        write(store, {A: {"side": 2}}, "side")
        for number in range(5):
            write(store, {A: {"moved": number}, B: {"moved": number}})
    return root


@pytest.mark.parametrize("damage", [*DAMAGES, cut_table])
def test_it_can_be_deleted_and_its_name_used_again(damage, graph):
    damage(graph)
    with open_store(graph, options=OPTIONS) as store:
        before = contents(store.snapshot())
        store.branches.delete("side")
        assert [info.name for info in store.branches.list()] == ["main"]
        with pytest.raises(BranchNotFoundError):
            store.branches.delete("side")
        assert contents(store.snapshot()) == before
        store.cleanup(EVERYTHING)
        check_verified(store)
        store.branches.create("side")
        write(store, {A: {"again": 1}}, "side")
        assert contents(store.snapshot("side"))[A] == before[A] | {"again": 1}
    with open_store(graph, options=OPTIONS) as store:
        check_verified(store)


@pytest.mark.parametrize("damage", [*DAMAGES, cut_table])
def test_cleanup_beside_it_goes_on_and_keeps_all_it_may_need(damage, graph, tmp_path):
    with open_store(graph, options=OPTIONS) as store:
        main, side = contents(store.snapshot()), contents(store.snapshot("side"))
    shutil.copytree(graph, tmp_path / "whole")
    damage(graph)
    with open_store(graph, options=OPTIONS) as store:
        versions = len(
            store.kernel.tables.version_numbers(store.snapshot().table(B).location, None)
        )
        removed = store.cleanup(EVERYTHING)
        store.cleanup(EVERYTHING)
        assert contents(store.snapshot()) == main
        if damage is not lose_all:
            assert sum(stats.versions_removed for stats in removed) >= versions - 3
        else:
            assert not any(stats.versions_removed for stats in removed), "nothing is known of it"
        write(store, {A: {"after": 1}})
        if damage not in (lose_manifest_rows, tear_ref):  # a head can be read without them
            with pytest.raises(OmniGraphError):
                contents(store.snapshot("side"))
    for damaged in (
        layout.lineage(layout.MANIFEST, "side"),
        layout.branch_ref(layout.MANIFEST, "side"),
        *(str(path.relative_to(graph)) for path in graph.glob("nodes/*/tree/side/_versions")),
    ):
        if (graph / damaged).is_dir():
            shutil.copytree(tmp_path / "whole" / damaged, graph / damaged, dirs_exist_ok=True)
        else:
            shutil.copy(tmp_path / "whole" / damaged, graph / damaged)
    with open_store(graph, options=OPTIONS) as store:
        assert contents(store.snapshot("side")) == side, "a restored branch misses something"
        check_verified(store)


@pytest.mark.parametrize("noted", [True, False], ids=["with notes", "from before notes"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_it_may_rest_on_is_not_deleted_before_it(damage, noted, root):
    with new_graph(root, OPTIONS) as store:
        store.branches.create("base")
        write(store, {A: {"base": 1}}, "base")
        store.branches.create("side", "base")
        write(store, {A: {"side": 1}}, "side")
        store.branches.create("other")
        if not noted:
            shutil.rmtree(root / layout.dependents("base"))
            (root / layout.DEPENDENTS_NOTED).unlink(missing_ok=True)
    damage(root)
    with open_store(root, options=OPTIONS) as store:
        with pytest.raises(ConflictError, match="'side'"):
            store.branches.delete("base")
        assert contents(store.snapshot("base"))[A]["base"] == 1
        store.branches.delete("side")
        store.branches.delete("base")
        store.branches.delete("other")
        check_verified(store)


@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize("damage", [cut_manifest, lose_all, cut_table])
def test_repair_reports_what_it_cannot_read_and_goes_on_with_the_rest(damage, confirm, graph):
    damage(graph)
    with open_store(graph, options=OPTIONS) as store:
        told = store.repair(confirm=confirm)
        refused = {(one.branch, one.classification) for one in told if one.action == "refused"}
        assert refused == {("side", "unverifiable")}
        assert {one.table_key for one in told if one.branch == "main"} == set(
            store.snapshot().tables
        )


@pytest.mark.parametrize("damage", [cut_manifest, lose_manifest_rows, lose_all])
def test_commits_of_other_branches_are_found_beside_it(damage, graph):
    with open_store(graph, options=OPTIONS) as store:
        store.branches.create("the-last")
        write(store, {A: {"last": 1}}, "the-last")
        last, its = store.snapshot("the-last").commit_id, store.snapshot("side").commit_id
        wanted = contents(store.snapshot("the-last"))
    damage(graph)
    with open_store(graph, options=OPTIONS) as store:
        assert contents(store.snapshot_at(commit_id=last)) == wanted
        assert store.commit(last).id == last
        for lookup in (store.commit, lambda commit_id: store.snapshot_at(commit_id=commit_id)):
            with pytest.raises(DamagedError, match=r"on 'side'.*restore it from a backup"):
                lookup(its)
