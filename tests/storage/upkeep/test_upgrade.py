"""Older graphs are brought to the current format, on every branch, and only by writers."""

import shutil

import lance
import orjson
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base import failpoints
from omnigraph.errors import FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.identity import GRAPH_UUID_KEY
from omnigraph.storage.manifest.projections import ACTORS_SCHEMA, COMMITS_SCHEMA
from omnigraph.storage.manifest.rows import SCHEMA as MANIFEST_SCHEMA
from omnigraph.storage.manifest.rows import STAMP, STAMP_KEY, open_manifest, stamp_of
from omnigraph.storage.store import open_store
from tests.storage.conftest import QUIET
from tests.support.fast import FAST
from tests.support.storage_model import SCHEMA, A, B, contents, rows, write

IDS = ["01ARZ3NDEKTSV4RRFFQ69G5FA0", "01ARZ3NDEKTSV4RRFFQ69G5FA1", "01ARZ3NDEKTSV4RRFFQ69G5FA2"]


def old_row(object_id, object_type, key, **fields):
    row = dict.fromkeys(MANIFEST_SCHEMA.names)
    return row | {"object_id": object_id, "object_type": object_type, "table_key": key} | fields


def version_row(key, version, count, branch=None):
    return old_row(
        f"{key}${version:020d}",
        "table_version",
        key,
        metadata=orjson.dumps({"manifest_path": "x", "naming_scheme": "V2"}).decode(),
        table_version=version,
        row_count=count,
        table_branch=branch,
    )


def old_graph(root, stamp, *, with_commits=True):
    """Write a graph as an older program would: tables, then a manifest without heads."""
    schema = MANIFEST_SCHEMA
    if stamp == 1:
        schema = pa.schema([field.remove_metadata() for field in MANIFEST_SCHEMA])
    if stamp > 1:
        schema = schema.with_metadata({STAMP_KEY: str(stamp)})
    for key in (A, B):
        uri = str(root / layout.table_location(key))
        lance.write_dataset(SCHEMA.empty_table(), uri, enable_stable_row_ids=True)
    lance.write_dataset(rows({"a": 1}), str(root / layout.table_location(A)), mode="append")
    first = [
        old_row(A, "table", A, location=layout.table_location(A)),
        old_row(B, "table", B, location=layout.table_location(B)),
        version_row(A, 1, 0),
        version_row(B, 1, 0),
    ]
    manifest = str(root / layout.MANIFEST)
    lance.write_dataset(
        pa.Table.from_pylist(first, schema=schema), manifest, enable_stable_row_ids=True
    )
    lance.write_dataset(
        pa.Table.from_pylist([version_row(A, 2, 1)], schema=schema), manifest, mode="append"
    )
    (root / "_schema.pg").write_bytes(b"old")
    if with_commits:
        commits = [
            {"graph_commit_id": IDS[0], "manifest_version": 1, "created_at": 1},
            {
                "graph_commit_id": IDS[1],
                "manifest_version": 2,
                "parent_commit_id": IDS[0],
                "created_at": 2,
            },
        ]
        table = pa.Table.from_pylist(
            [dict.fromkeys(COMMITS_SCHEMA.names) | row for row in commits], schema=COMMITS_SCHEMA
        )
        lance.write_dataset(table, str(root / layout.COMMITS), enable_stable_row_ids=True)
        actors = pa.Table.from_pylist(
            [{"graph_commit_id": IDS[1], "actor_id": "ann", "created_at": 2}], schema=ACTORS_SCHEMA
        )
        lance.write_dataset(actors, str(root / layout.COMMIT_ACTORS), enable_stable_row_ids=True)
    lance.dataset(manifest).create_branch("side", 2)
    lance.dataset(manifest).create_branch("__run__7", 2)


@pytest.mark.parametrize("stamp", [1, 2, 3])
def test_opening_for_writing_upgrades_every_branch(root, stamp):
    old_graph(root, stamp)
    with open_store(str(root), options=QUIET) as store:
        assert contents(store.snapshot()) == {A: {"a": 1}, B: {}}
        assert contents(store.snapshot("side")) == {A: {"a": 1}, B: {}}
        assert [info.name for info in store.branches.list()] == ["main", "side"]
        for branch in ("main", "side"):
            assert stamp_of(open_manifest(store.kernel, branch)) == STAMP
            stated = open_manifest(store.kernel, branch).metadata
            assert stated[GRAPH_UUID_KEY] == store.kernel.identity.uuid != ""
        assert [commit.id for commit in store.commits()] == IDS[:2]
        assert [commit.actor for commit in store.commits()] == [None, "ann"]
        assert contents(store.snapshot_at(commit_id=IDS[0]))[A] == {}
        write(store, {A: {"b": 1}})
        write(store, {A: {"s": 1}}, "side")
        assert contents(store.snapshot())[A] == {"a": 1, "b": 1}
        assert contents(store.snapshot("side"))[A] == {"a": 1, "s": 1}
        assert store.read_file("_schema.pg") == b"old"
        assert [finding for finding in store.verify() if not finding.harmless] == []


@pytest.mark.parametrize("stamp", [1, 2, 3])
def test_a_reader_reads_an_old_graph_and_leaves_it_alone(root, stamp):
    old_graph(root, stamp)
    before = _fingerprint(root)
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        assert contents(reader.snapshot()) == {A: {"a": 1}, B: {}}
        assert contents(reader.snapshot("side")) == {A: {"a": 1}, B: {}}
        assert [commit.id for commit in reader.commits()] == IDS[:2]
        assert [commit.id for commit in reader.commits("side")] == IDS[:2]
        assert reader.commit(IDS[1]).actor == "ann"
        assert contents(reader.snapshot_at(commit_id=IDS[0])) == {A: {}, B: {}}
        assert contents(reader.snapshot_at(version=1)) == {A: {}, B: {}}
        assert reader.read_file("_schema.pg") == b"old"
        assert [finding for finding in reader.verify() if not finding.harmless] == []
    assert _fingerprint(root) == before


def test_a_reader_gives_a_graph_without_recorded_commits_one_for_all_its_past(root):
    old_graph(root, 2, with_commits=False)
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        [commit] = reader.commits()
        assert reader.snapshot().commit_id == commit.id
        assert contents(reader.snapshot_at(commit_id=commit.id))[A] == {"a": 1}
        assert [finding for finding in reader.verify() if not finding.harmless] == []


def test_a_graph_of_an_old_format_answers_queries_before_it_is_upgraded(tmp_path):
    root = tmp_path / "g.omni"
    with omnigraph.init(root, "node P { k: String @key }", options=FAST) as graph:
        graph.mutate('query i() { insert P { k: "ada" } }')
        tables = graph.store.snapshot().tables
    shutil.rmtree(root / layout.MANIFEST)
    shutil.rmtree(root / layout.COMMITS)
    first = [old_row(key, "table", key, location=part.location) for key, part in tables.items()]
    first += [version_row(key, part.version, part.row_count) for key, part in tables.items()]
    schema = MANIFEST_SCHEMA.with_metadata({STAMP_KEY: "3"})
    lance.write_dataset(
        pa.Table.from_pylist(first, schema=schema),
        str(root / layout.MANIFEST),
        enable_stable_row_ids=True,
    )
    ask = "query q() { match { $p: P } return { $p.k } }"
    with omnigraph.connect(root, read_only=True, options=FAST) as graph:
        assert graph.query(ask).to_tuples() == [("ada",)]
    with omnigraph.connect(root, options=FAST) as graph:
        assert graph.query(ask).to_tuples() == [("ada",)]


def test_a_graph_without_recorded_commits_gets_a_first_one(root):
    old_graph(root, 2, with_commits=False)
    with open_store(str(root), options=QUIET) as store:
        assert len(store.commits()) == 1
        write(store, {A: {"b": 1}})
        assert contents(store.snapshot())[A] == {"a": 1, "b": 1}


@pytest.mark.parametrize("point", ["upgrade.after_rows", "upgrade.between_branches"])
def test_an_interrupted_upgrade_is_finished_by_the_next_open(root, point):
    old_graph(root, 1)
    failpoints.enable(f"{point}=raise")
    with pytest.raises(failpoints.FailpointTriggeredError):
        open_store(str(root), options=QUIET)
    failpoints.disable_all()
    with open_store(str(root), options=QUIET) as store:
        assert contents(store.snapshot()) == {A: {"a": 1}, B: {}}
        write(store, {A: {"s": 1}}, "side")
        assert [commit.id for commit in store.commits()] == IDS[:2]
        assert [finding for finding in store.verify() if not finding.harmless] == []


def test_a_tombstoned_table_stays_out(root):
    old_graph(root, 3)
    buried = old_row(f"{B}$tombstone${2:020d}", "table_tombstone", B, table_version=2)
    lance.write_dataset(
        pa.Table.from_pylist([buried], schema=MANIFEST_SCHEMA),
        str(root / layout.MANIFEST),
        mode="append",
    )
    with open_store(str(root), options=QUIET) as store:
        assert list(store.snapshot().tables) == [A]


def test_a_newer_format_is_refused_by_readers_and_writers(root, store):
    store.close()
    lance.dataset(str(root / layout.MANIFEST)).update_schema_metadata({STAMP_KEY: str(STAMP + 1)})
    for read_only in (True, False):
        with pytest.raises(FormatError, match="upgrade omnigraph first"):
            open_store(str(root), read_only=read_only, options=QUIET)


def test_a_manifest_keyed_by_another_column_is_refused(root):
    old_graph(root, 1)
    lance.dataset(str(root / layout.MANIFEST)).update_field_metadata(
        {"table_key": {"lance-schema:unenforced-primary-key": "true"}}
    )
    with pytest.raises(FormatError, match="table_key"):
        open_store(str(root), options=QUIET)


def _fingerprint(root):
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
