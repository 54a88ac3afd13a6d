"""Damaged catalogs and odd small files end in errors that say what and where, never in answers."""

import logging

import lance
import orjson
import pyarrow as pa
import pytest

from omnigraph.errors import ConflictError, FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.manifest.rows import (
    HEAD,
    SCHEMA,
    STAMP_KEY,
    HeadRowsError,
    head_row,
    rows_of,
)
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.storage.conftest import QUIET
from tests.support.operations import interrupted
from tests.support.storage_model import A, contents, rows, write


@pytest.fixture
def graph(store):
    for number in range(3):
        write(store, {A: {f"a{number}": number}})
    return store


def append(root, extra):
    lance.write_dataset(extra, str(root / layout.MANIFEST), mode="append", schema=SCHEMA)


@pytest.mark.parametrize("older", [False, True])
def test_a_second_head_row_is_refused_by_open_read_and_write(graph, root, older):
    head = graph._heads.current("main")
    append(root, rows_of([head_row(head)]))
    if older:  # the rightful head row is the last one again
        append(root, rows_of([{**head_row(head), "object_id": "other", "object_type": "x"}]))
    with pytest.raises(HeadRowsError, match="2 head rows"):
        graph.snapshot()
    with pytest.raises(HeadRowsError):
        write(graph, {A: {"b": 1}})
    for read_only in (True, False):
        with pytest.raises(HeadRowsError, match="2 head rows"):
            open_store(str(root), read_only=read_only, options=QUIET)


def test_a_manifest_without_a_head_row_is_refused(graph, root):
    lance.dataset(str(root / layout.MANIFEST)).delete(f"object_id = '{HEAD}'")
    with pytest.raises(HeadRowsError, match="0 head rows"):
        open_store(str(root), options=QUIET)


def test_the_head_states_how_many_rows_there_are_through_folds_branches_and_time_travel(graph):
    graph.branches.create("side")
    write(graph, {A: {"s": 1}}, "side")
    graph.branches.create("then", commit_id=graph.commits()[1].id)
    for number in range(30):
        write(graph, {A: {f"m{number}": 1}})
    graph.maintain()
    for branch in ("main", "side", "then"):
        head = graph._heads.reread(branch)
        assert head.rows == head.handle.row_count, branch


@pytest.mark.parametrize(
    "garbage", ["{", "[]", '{"object": "graph_head"}', '{"object": "graph_head", "tables": 5}']
)
def test_a_head_row_that_cannot_be_read_is_called_damaged(graph, root, garbage):
    lance.dataset(str(root / layout.MANIFEST)).update(
        {"metadata": f"'{garbage}'"}, where=f"object_id = '{HEAD}'"
    )
    for read_only in (True, False):
        with pytest.raises(DamagedError, match="__manifest"):
            open_store(str(root), read_only=read_only, options=QUIET)


@pytest.mark.parametrize("garbage", ["{", "[]", '{"what": 1}'])
def test_a_commit_row_that_cannot_be_read_is_called_damaged(graph, root, garbage):
    lance.dataset(str(root / layout.MANIFEST)).update(
        {"metadata": f"'{garbage}'"}, where="object_type = 'graph_commit'"
    )
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        assert len(contents(reader.snapshot())[A]) == 3
        with pytest.raises(DamagedError, match="__manifest"):
            reader.commits()


@pytest.mark.parametrize("stamp", ["abc", "", "-1", "4.0"])
def test_a_format_that_is_no_number_is_called_damaged(graph, root, stamp):
    graph.close()
    lance.dataset(str(root / layout.MANIFEST)).update_schema_metadata({STAMP_KEY: stamp})
    with pytest.raises(DamagedError, match="not a number"):
        open_store(str(root), options=QUIET)


@pytest.mark.parametrize(
    "change",
    [
        {"tables": {A: 5}},
        {"tables": {A: [1, 2]}},
        {"tables": 7},
        {"expires_at_us": "soon"},
        {"expires_at_us": None},
        {"loading": [1]},
    ],
)
def test_a_pin_of_another_shape_is_named_and_stops_cleanup(graph, root, change):
    with graph.snapshot().pin() as pin:
        path = root / layout.pin(pin.record.id)
        path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | change))
        with pytest.raises(FormatError, match=pin.record.id):
            graph.cleanup(CleanupPolicy(keep_versions=1))
        with pytest.raises(FormatError, match="remove the file"):
            graph.pins()


def test_recovery_is_told_and_leaves_nothing_pending(graph, root, caplog):
    session = graph.begin()
    session.append(A, rows({"x": 1}))
    with interrupted("publish.after_tables=raise"):
        session.commit()
    graph.close()
    with caplog.at_level(logging.WARNING), open_store(str(root), options=QUIET) as again:
        assert "recovered" in caplog.text
        assert again.counters.get("pending_sidecars") == 0
        assert again.counters.get("oldest_sidecar_age_s") == 0
        assert contents(again.snapshot())[A]["x"] == 1


def test_a_manifest_row_of_nothing_is_not_taken_for_the_head(graph, root):
    empty = pa.Table.from_pylist(
        [dict.fromkeys(SCHEMA.names) | {"object_id": "x", "object_type": "y", "table_key": "z"}],
        schema=SCHEMA,
    )
    append(root, empty)
    assert len(contents(graph.snapshot())[A]) == 3


def test_a_lost_version_of_the_catalog_is_neither_read_past_nor_written_over(graph, root):
    newest = root / layout.version_file(layout.MANIFEST, None, graph.snapshot().manifest_version)
    kept = newest.read_bytes()
    newest.unlink()
    for read_only in (True, False):
        with pytest.raises(DamagedError, match="was committed and is gone") as caught:
            open_store(str(root), read_only=read_only, options=QUIET)
        assert newest.name in (caught.value.hint or "")
    newest.write_bytes(kept)
    with open_store(str(root), options=QUIET) as again:
        assert len(contents(again.snapshot())[A]) == 3


def test_commits_that_only_the_views_still_know_are_not_buried(graph, root):
    graph.close()
    with open_store(str(root), options=QUIET) as again:  # brings the views up to date
        newest = again.snapshot().manifest_version
    (root / layout.version_file(layout.MANIFEST, None, newest)).unlink()
    (root / layout.version_hint(layout.MANIFEST, None)).unlink()
    with pytest.raises(DamagedError, match="was published and is gone"):
        open_store(str(root), options=QUIET)
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        assert "lost_commits" in {finding.kind for finding in reader.verify()}


def test_a_fold_that_a_power_cut_took_is_no_loss(graph, root):
    for number in range(30):
        write(graph, {A: {f"m{number}": 1}})
    with interrupted("optimize.after_fold=raise"):
        graph.maintain()
    versions = graph.kernel.tables.version_numbers(layout.MANIFEST, None)
    (root / layout.version_file(layout.MANIFEST, None, versions[-1])).unlink()
    for _ in range(2):
        with open_store(str(root), options=QUIET) as again:
            assert len(contents(again.snapshot())[A]) == 33


def test_a_lost_ref_of_a_branch_is_found_and_its_files_are_left_alone(graph, root):
    graph.branches.create("side")
    write(graph, {A: {"s": 1}}, "side")
    ref = root / layout.branch_ref(layout.MANIFEST, "side")
    kept = ref.read_bytes()
    ref.unlink()
    assert "lost_ref" in {finding.kind for finding in graph.verify() if not finding.harmless}
    with pytest.raises(DamagedError, match="its ref is gone"):
        graph.branches.create("side")
    with pytest.raises(DamagedError, match="would take its tables"):
        graph.cleanup(CleanupPolicy(keep_versions=0, older_than_s=0))
    ref.write_bytes(kept)
    assert contents(graph.snapshot("side"))[A]["s"] == 1
    assert [finding for finding in graph.verify() if not finding.harmless] == []


def test_a_deletion_cut_off_is_finished_by_the_next_open_and_no_lost_branch(graph, root):
    graph.branches.create("side")
    write(graph, {A: {"s": 1}}, "side")
    with interrupted("branch_delete.after_ref=raise"):
        graph.branches.delete("side")
    assert [finding for finding in graph.verify() if not finding.harmless] == []
    graph.close()
    with open_store(str(root), options=QUIET) as again:
        assert [info.name for info in again.branches.list()] == ["main"]
        assert not (root / layout.lineage(layout.MANIFEST, "side") / "_versions").exists()
        again.branches.create("side")


def test_a_branch_that_one_with_a_lost_ref_rests_on_is_not_deleted(graph, root):
    graph.branches.create("side")
    write(graph, {A: {"s": 1}}, "side")
    graph.branches.create("upon", "side")
    write(graph, {A: {"u": 1}}, "upon")
    (root / layout.branch_ref(layout.MANIFEST, "upon")).unlink()
    with pytest.raises(ConflictError, match="whose ref is lost"):
        graph.branches.delete("side")
