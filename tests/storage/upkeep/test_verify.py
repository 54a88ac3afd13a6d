"""`verify` finds what is broken and says nothing of what is not."""

import lance
import pytest

from omnigraph.storage.files import layout
from omnigraph.storage.manifest.rows import HEAD, SCHEMA, head_row, rows_of
from omnigraph.storage.tables import compact
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.handle import Tables
from tests.support.operations import interrupted
from tests.support.storage_model import A, B, rows, write


def kinds(store):
    return {finding.kind for finding in store.verify() if not finding.harmless}


@pytest.fixture
def graph(store):
    write(store, {A: {"a": 1}, B: {"b": 1}})
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    write(store, {A: {"m": 1}})
    assert kinds(store) == set()
    return store


def data_files(root, store, key):
    return sorted((root / store.snapshot().table(key).location / "data").iterdir())


def test_a_missing_data_file_is_found(graph, root):
    for path in data_files(root, graph, B):
        path.unlink()
    graph.kernel.tables.close()
    assert "unreadable_table" in kinds(graph)


def test_a_missing_version_is_found(graph, root):
    table = graph.snapshot().table(A)
    (root / layout.version_file(table.location, None, table.version)).unlink()
    assert "unreadable_table" in kinds(graph)


def test_a_second_head_row_is_found(graph, root):
    head = graph._heads.current("main")
    lance.write_dataset(
        rows_of([head_row(head)]), str(root / layout.MANIFEST), mode="append", schema=SCHEMA
    )
    assert "head_rows" in kinds(graph)


def test_a_snapshot_that_history_does_not_explain_is_found(graph, root):
    manifest = lance.dataset(str(root / layout.MANIFEST))
    manifest.delete(f"object_type = 'table_version' and table_key = '{A}' and table_version = 3")
    assert HEAD in manifest.to_table()["object_id"].to_pylist()
    assert "snapshot_differs_from_history" in kinds(graph)


def test_a_gap_in_the_line_is_found(graph, root):
    lance.dataset(str(root / layout.MANIFEST)).delete(
        "object_type = 'graph_commit' and table_version = 1"
    )
    assert "broken_line" in kinds(graph)


def test_drift_is_found(graph, root):
    location = graph.snapshot().table(B).location
    lance.write_dataset(rows({"foreign": 1}), str(root / location), mode="append")
    assert kinds(graph) == {"drift"}


def test_an_edited_contract_file_is_found(graph, root):
    (root / "_schema.pg").write_bytes(b"edited")
    assert kinds(graph) == {"file_differs"}


def test_pending_work_is_told_but_harmless(graph):
    session = graph.begin()
    session.append(A, rows({"x": 1}))
    with interrupted("publish.after_sidecar=raise"):
        session.commit()
    told = {finding.kind for finding in graph.verify()}
    assert "pending_sidecar" in told
    assert kinds(graph) == set()
    (graph.kernel.objects.path(layout.RECOVERY_DIR) / "x.json").write_bytes(b"{")
    assert "unreadable_sidecar" in kinds(graph)


def test_pins_and_tags_that_cannot_be_read_are_told_for_they_stop_cleanup(graph):
    graph.tag("v1", graph.snapshot(), None, None)
    assert kinds(graph) == set()
    graph.kernel.objects.put(f"{layout.PINS_DIR}/x.json", b"{")
    assert kinds(graph) == {"unreadable_pin"}
    graph.kernel.objects.put(layout.tag("v1"), b"[]")
    assert kinds(graph) == {"unreadable_pin", "unreadable_tag"}


def test_forks_left_by_a_deleted_branch_are_told_but_harmless(graph):
    graph.branches.delete("side")
    assert "unreferenced_fork" in {finding.kind for finding in graph.verify()}
    assert kinds(graph) == set()


def test_a_table_that_branches_share_is_read_once_and_told_of_on_each(graph, root, monkeypatch):
    graph.branches.create("third")
    opened = []
    cold = graph.kernel.tables.open_cold
    monkeypatch.setattr(
        graph.kernel.tables, "open_cold", lambda *place: (opened.append(place), cold(*place))[1]
    )
    assert kinds(graph) == set()
    assert len(opened) == len(set(opened)) < len(graph.snapshot().tables) * 3
    for path in data_files(root, graph, B):
        path.unlink()
    told = [found.subject for found in graph.verify() if found.kind == "unreadable_table"]
    assert told == [f"{B} on '{branch}'" for branch in ("main", "side", "third")]


def test_a_torn_ref_of_a_branch_is_found(graph, root):
    (root / layout.branch_ref(layout.MANIFEST, "side")).write_bytes(b"")
    assert kinds(graph) == {"torn_ref"}


def test_drift_is_told_beside_a_sidecar_that_cannot_be_read(graph, root):
    location = graph.snapshot().table(B).location
    lance.write_dataset(rows({"foreign": 1}), str(root / location), mode="append")
    graph.kernel.objects.put(f"{layout.RECOVERY_DIR}/x.json", b"{")
    assert kinds(graph) == {"drift", "unreadable_sidecar"}


def test_the_catalog_of_many_branches_is_read_piece_by_piece_and_each_piece_once(
    graph, monkeypatch
):
    read = []
    whole = compact.read_fragments

    def counted(handle, fragments):
        read.append((handle.branch, *fragments))
        return whole(handle, fragments)

    monkeypatch.setattr(compact, "read_fragments", counted)
    assert kinds(graph) == set()
    once = len(read)
    for number in range(20):
        graph.branches.create(f"b{number}")
    read.clear()
    assert kinds(graph) == set()
    assert len(read) == once


def _once_read(monkeypatch, branch, action):
    """Run something as soon as the head of a branch is looked for, before its files are read."""
    newest, done = Tables.open_newest, []

    def opened(tables, location, lineage):
        if (location, lineage) == (layout.MANIFEST, branch) and not done:
            done.append(branch)
            action()
        return newest(tables, location, lineage)

    monkeypatch.setattr(Tables, "open_newest", opened)
    return done


def test_a_branch_deleted_while_it_is_read_is_no_finding(graph, monkeypatch):
    done = _once_read(monkeypatch, "side", lambda: graph.branches.delete("side"))
    assert kinds(graph) == set()
    assert done


def test_a_branch_made_again_while_it_is_read_is_read_again(graph, monkeypatch):
    def again():
        graph.branches.delete("side")
        graph.branches.create("side")
        write(graph, {A: {"new": 1}}, "side")

    done = _once_read(monkeypatch, "side", again)
    assert kinds(graph) == set()
    assert done


def test_a_branch_deleted_while_its_tables_are_read_is_no_finding(graph, monkeypatch):
    cold = graph.kernel.tables.open_cold
    done = []

    def opened(location, branch, version):
        if branch is not None and not done:
            done.append(branch)
            graph.branches.delete("side")
            raise SnapshotExpiredError("its files are gone")
        return cold(location, branch, version)

    monkeypatch.setattr(graph.kernel.tables, "open_cold", opened)
    assert kinds(graph) == set()
    assert done


def test_a_branch_that_stays_and_cannot_be_read_is_a_finding(graph, root):
    for path in (root / layout.lineage(layout.MANIFEST, "side") / layout.VERSIONS_DIR).iterdir():
        path.write_bytes(b"")
    graph.kernel.tables.close()
    assert kinds(graph) == {"unreadable_branch"}
