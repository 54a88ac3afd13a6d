"""Every kind of write the kernel can do, scripted, for the crash matrix.

Each operation prepares a graph, is run in a child process, and may be interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import lance
import pyarrow as pa

from omnigraph.base import failpoints
from omnigraph.base.failpoints import FailpointTriggeredError
from omnigraph.base.ids import TableKey
from omnigraph.storage.delta.table import table_delta
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.manifest.rows import (
    STAMP_KEY,
    TABLE,
    TABLE_VERSION,
    open_manifest,
    read_rows,
)
from omnigraph.storage.options import DEFAULTS, Retention, StorageOptions
from omnigraph.storage.store import GraphStore, open_store
from omnigraph.storage.tables.alter import Alter
from omnigraph.storage.tables.compute import Computed, Rewrite
from omnigraph.storage.tables.index import IndexSpec
from omnigraph.storage.tables.predicate import is_in
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.children import Say
from tests.support.powercut import record_syncs
from tests.support.storage_model import (
    CONTRACT,
    SCHEMA,
    A,
    B,
    E,
    empty_graph,
    new_graph,
    once,
    rows,
    write,
)

NEW = TableKey("node:New")
RENAMED = TableKey("node:Renamed")

# A kill loses nothing that was written, so fsync would only cost time; power cuts are apart.
QUIET = replace(DEFAULTS, maintenance="manual", durability="os")
# Cleanup that spares nothing it is allowed to take.
GREEDY = replace(
    QUIET, retention=Retention(floor_s=0, newest_versions=1, manifest_versions=1, orphan_age_s=0)
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A graph to start from and one thing to do to it."""

    name: str
    prepare: Callable[..., None]
    """Called with a place, and with options where it can be done anywhere."""
    act: Callable[[GraphStore], None] | None
    """None stands for `init`, which starts from nothing."""
    options: StorageOptions = QUIET
    forgets: bool = False
    """Whether it may take old snapshots away."""
    steps: bool = False
    """Whether it is several writes, so that there are states between before and after."""


def run_operation(
    say: Say,
    name: str,
    root: str,
    sync_log: str | None = None,
    elsewhere: StorageOptions | None = None,
) -> None:
    """Child task: do it and say so; the failpoints decide how far it gets.

    With `sync_log` it runs durably, and what it forces to the disk is written down there.
    """
    operation = OPERATIONS[name]
    options = operation.options if elsewhere is None else on_s3(operation.options, elsewhere)
    if sync_log is not None:
        record_syncs(sync_log)
        options = replace(options, durability="full")
    if operation.act is None:
        empty_graph(root, options).close()
        say("done")
    else:
        store = open_store(root, options=options)
        say("opened")
        operation.act(store)
        say("done")
        store.close()
    say("closed")


def on_s3(options: StorageOptions, elsewhere: StorageOptions) -> StorageOptions:
    """Return an operation's options for an object store."""
    return replace(elsewhere, maintenance=options.maintenance, retention=options.retention)


def record_passes(say: Say, name: str, root: str, elsewhere: StorageOptions | None = None) -> None:
    """Child task: do it without interruption and say which passes of which failpoints are its own.

    Every operation opens the graph first; what that passes is walked by the recoveries.
    """
    failpoints.enable(";".join(f"{point}=sleep:0" for point in failpoints.REGISTRY))
    opened: dict[str, int] = {}

    def listen(word: object) -> None:
        if word == "opened" and OPERATIONS[name].act is not _only_open:
            opened.update(failpoints.passes())

    run_operation(listen, name, root, elsewhere=elsewhere)
    total = failpoints.passes()
    own = {point: range(opened.get(point, 0), total[point]) for point in total}
    say({point: list(passes) for point, passes in own.items() if passes})


@contextlib.contextmanager
def interrupted(spec: str) -> Iterator[None]:
    """Let the block run into a failpoint that raises, as if its process had died there."""
    failpoints.enable(spec)
    try:
        yield
    except FailpointTriggeredError:
        return
    finally:
        failpoints.disable_all()
    raise AssertionError(f"the block ended without reaching {spec}")


def _plain(root: Path | str, options: StorageOptions = QUIET) -> None:
    new_graph(root, options).close()


def _nothing(root: Path | str, options: StorageOptions = QUIET) -> None:
    if options is QUIET:
        Path(root).parent.mkdir(parents=True, exist_ok=True)


def _branched(root: Path | str, options: StorageOptions = QUIET) -> None:
    with new_graph(root, options) as store:
        store.branches.create("side")


def _forked(root: Path | str, options: StorageOptions = QUIET) -> None:
    with new_graph(root, options) as store:
        store.branches.create("side")
        write(store, {A: {"a1": 100, "side": 1}}, "side")


def _append(store: GraphStore) -> None:
    session = store.begin()
    session.append(A, rows({"n1": 1, "n2": 2}))
    session.commit()


def _upsert(store: GraphStore) -> None:
    write(store, {A: {"a1": -1, "n1": 1}})


def _delete(store: GraphStore) -> None:
    session = store.begin()
    session.delete(A, ["a1", "a4"])
    session.commit()


def _overwrite(store: GraphStore) -> None:
    session = store.begin()
    session.overwrite(A, rows({"o1": 1}))
    session.commit()


def _many(store: GraphStore) -> None:
    session = store.begin(actor="ann")
    session.append(E, rows({"e1": 1}))
    session.upsert(A, rows({"a2": -2, "n1": 1}))
    session.delete(B, ["b1"])
    session.commit(preconditions=once("many", "h"), result={"rows": 3})


def _schema_change(store: GraphStore) -> None:
    session = store.begin(writer_kind="SchemaApply")
    session.create_table(TableSpec(NEW, SCHEMA), rows({"x": 1}))
    session.rename_table(B, RENAMED)
    session.drop_table(E)
    session.upsert(A, rows({"a1": -1}))
    session.replace_file(CONTRACT, b"second")
    session.commit()


def _rename_only(store: GraphStore) -> None:
    session = store.begin(writer_kind="SchemaApply")
    session.rename_table(B, RENAMED)
    session.replace_file(CONTRACT, b"second")
    session.commit()


def _alter(store: GraphStore) -> None:
    """Columns of two tables change, one of which gets another name, too."""
    session = store.begin(writer_kind="SchemaApply")
    session.rename_table(B, RENAMED)
    session.alter(RENAMED, Alter({"v": "w"}, add=(pa.field("new", pa.string()),)))
    session.alter(E, Alter(add=(pa.field("new", pa.string()),)))
    session.replace_file(CONTRACT, b"second")
    session.commit()


def _compute(store: GraphStore) -> None:
    """Columns of two tables are computed: one more file beside each of their files."""
    session = store.begin(writer_kind="SchemaApply")
    session.rename_table(B, RENAMED)
    wide = Computed(pa.field("w", pa.float64()), ("v",), lambda rows: rows["v"].cast(pa.float64()))
    session.alter(RENAMED, Rewrite((wide,), Alter(drop=("v",))))
    session.alter(E, Rewrite((wide,)))
    session.replace_file(CONTRACT, b"second")
    session.commit()


def _alter_on_a_branch(store: GraphStore) -> None:
    session = store.begin("side", writer_kind="SchemaApply")
    session.alter(B, Alter({"v": "w"}))
    session.alter(E, Alter(add=(pa.field("new", pa.string()),)))
    session.replace_file(CONTRACT, b"second")
    session.commit()


def _fork(store: GraphStore) -> None:
    session = store.begin("side")
    session.upsert(A, rows({"a1": -1, "n1": 1}))
    session.delete(B, ["b1"])
    session.commit()


def _write_fork(store: GraphStore) -> None:
    write(store, {A: {"a1": -1, "n1": 1}, B: {"b1": -1}}, "side")


def _create_branch(store: GraphStore) -> None:
    store.branches.create("other", "side")


def _recreate_branch(store: GraphStore) -> None:
    # As in a graph from before branches were noted: the first deletion takes stock.
    store.kernel.objects.delete(layout.DEPENDENTS_NOTED)
    store.branches.delete("side")
    store.branches.create("side")
    write(store, {A: {"a1": -5}}, "side")


def _delete_branch(store: GraphStore) -> None:
    store.branches.delete("side")


def _merge(store: GraphStore) -> None:
    session = store.begin(writer_kind="BranchMerge")
    session.upsert(A, rows({"a1": 100, "side": 1}))
    session.commit(merged=store.merge_sides("side", session.base).source)


def _merge_by_pointer(store: GraphStore) -> None:
    """A branch that never wrote a table reads it from where main has it by now."""
    write(store, {B: {"b1": 200}})
    session = store.begin("side", writer_kind="BranchMerge")
    sides = store.merge_sides("main", session.base)
    session.point(B, sides.theirs.table(B))
    session.commit(merged=sides.source)


def _merge_by_link(store: GraphStore) -> None:
    """Files of a branch get a second name on main."""
    session = store.begin(writer_kind="BranchMerge")
    sides = store.merge_sides("side", session.base)
    delta = table_delta(store.kernel, session.base.table(A), sides.theirs.table(A))
    whole = delta.own_fragments()
    with session.load([A]) as load:
        digests = sides.theirs.digests([A])
        session.append_fragments(A, [load.take_over(A, part, digests) for part in whole])
        session.delete(A, delta.touched().after, strict=False)
        session.commit(merged=sides.source)


def _tag(store: GraphStore) -> None:
    store.tag("v1", store.snapshot(), "ada", None)


def _tagged(root: Path | str, options: StorageOptions = QUIET) -> None:
    with new_graph(root, options) as store:
        _tag(store)


def _begin_run(store: GraphStore) -> None:
    store.begin_run("main", "h", "ada")


def _running(root: Path | str, options: StorageOptions = QUIET) -> None:
    _plain(root, options)
    with open_store(root, options=options) as store:
        _begin_run(store)


def _abort_run(store: GraphStore) -> None:
    store.abort_run(store.runs()[0].run_id)


def _untag(store: GraphStore) -> None:
    store.delete_tag("v1")


def _left_merging(root: Path) -> None:
    """Prepare a graph on which a merge was interrupted and its source deleted meanwhile."""
    _forked(root)
    with open_store(str(root), options=QUIET) as store, interrupted("publish.after_tables=raise"):
        _merge(store)
    (root / layout.branch_ref(layout.MANIFEST, "side")).unlink()
    shutil.rmtree(root / layout.lineage(layout.MANIFEST, "side"))


def _left_after(spec: str) -> Callable[[Path], None]:
    """Prepare a graph on which `many` was interrupted, so that opening it must recover."""

    def prepare(root: Path) -> None:
        with new_graph(root, QUIET) as store, interrupted(spec):
            _many(store)

    return prepare


def _left_mixed(root: Path) -> None:
    """Prepare a graph on which some tables of `many` have moved and one has not."""
    with new_graph(root, QUIET) as store:
        with interrupted("publish.after_tables=raise"):
            _many(store)
        behind = store.snapshot().table(A)
        (root / layout.version_file(behind.location, None, behind.version + 1)).unlink()


def _left_torn(root: Path) -> None:
    """Prepare a graph whose last write tore a table's manifest."""
    with new_graph(root, QUIET) as store:
        with interrupted("publish.after_tables=raise"):
            _many(store)
        torn = store.snapshot().table(A)
        (root / layout.version_file(torn.location, None, torn.version + 1)).write_bytes(b"")


def _left_on_fork(root: Path) -> None:
    with new_graph(root, QUIET) as store:
        store.branches.create("side")
        with interrupted("publish.after_tables=raise"):
            _fork(store)


def _left_on_deleted_branch(root: Path) -> None:
    _left_on_fork(root)
    intent = root / layout.branch_intent("side")
    intent.parent.mkdir(parents=True, exist_ok=True)
    intent.write_bytes(b"")  # its deletion was cut off
    (root / layout.branch_ref(layout.MANIFEST, "side")).unlink()


def _fragmented(root: Path | str, options: StorageOptions = QUIET) -> None:
    """Prepare a graph whose table lies in many small fragments."""
    with new_graph(root, options) as store:
        for number in range(4):
            write(store, {A: {f"f{number}": number}})


def _compact(store: GraphStore) -> None:
    store.optimize()


def _long_line(root: Path) -> None:
    """Prepare a graph with enough commits for its manifest to be folded."""
    with new_graph(root, QUIET) as store:
        for number in range(34):
            write(store, {A: {"a1": number}})


def _maintain(store: GraphStore) -> None:
    store.maintain()


def _with_garbage(root: Path | str, options: StorageOptions = GREEDY) -> None:
    """Prepare a graph with old versions, and with forks of a branch that is gone."""
    with new_graph(root, options) as store:
        store.branches.create("side")
        write(store, {A: {"a1": 100}, B: {"b1": 100}}, "side")
        store.branches.create("past", commit_id=store.commits()[1].id)
        store.branches.delete("side")
        for number in range(4):
            write(store, {A: {"a1": number}})
        session = store.begin()
        session.drop_table(E)
        session.commit()
        store.branches.delete("past")  # nobody reads the dropped table any more
        store.optimize()


def _cleanup(store: GraphStore) -> None:
    store.cleanup(CleanupPolicy(keep_versions=1))


def _branch_from_past(store: GraphStore) -> None:
    store.branches.create("past", commit_id=store.commits()[1].id)


def _index(store: GraphStore) -> None:
    store.build_index(A, IndexSpec("id", "BTREE", "a_by_id"))
    store.build_index(A, IndexSpec("id", "BTREE", "a_by_id"))
    store.drop_index(A, "a_by_id")


def _half_indexed(root: Path | str, options: StorageOptions = QUIET) -> None:
    """Prepare a graph with an index that does not cover the newest rows."""
    with new_graph(root, options) as store:
        store.build_index(A, IndexSpec("id", "BTREE", "a_by_id"))
        write(store, {A: {"late": 1}})


def _grow_index(store: GraphStore) -> None:
    store.build_index(A, IndexSpec("id", "BTREE", "a_by_id"), adds=True)


def _old_format(root: Path) -> None:
    """Prepare a graph as an older program left it: no head row, no commits in the manifest."""
    with new_graph(root, QUIET) as store:
        manifest = open_manifest(store.kernel, layout.MAIN)
        old = read_rows(manifest, is_in("object_type", (TABLE, TABLE_VERSION)))
    place = root / layout.MANIFEST
    shutil.rmtree(place)
    stamped = old.replace_schema_metadata({STAMP_KEY: b"3"})
    dataset = lance.write_dataset(stamped, str(place), enable_stable_row_ids=True)
    dataset.create_branch("side", dataset.version)


def _only_open(store: GraphStore) -> None:
    """Opening for writing has already done the work."""


OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("init", _nothing, None),
        Operation("append", _plain, _append),
        Operation("upsert", _plain, _upsert),
        Operation("delete", _plain, _delete),
        Operation("overwrite", _plain, _overwrite),
        Operation("many tables", _plain, _many),
        Operation("schema change", _plain, _schema_change),
        Operation("rename only", _plain, _rename_only),
        Operation("columns", _plain, _alter),
        Operation("columns computed", _plain, _compute),
        Operation("columns on a branch", _forked, _alter_on_a_branch),
        Operation("first write on a branch", _branched, _fork),
        Operation("later write on a branch", _forked, _write_fork),
        Operation("branch create", _forked, _create_branch),
        Operation("branch create again", _forked, _recreate_branch, steps=True),
        Operation("branch delete", _forked, _delete_branch),
        Operation("merge", _forked, _merge),
        Operation("merge by pointer", _branched, _merge_by_pointer, steps=True),
        Operation("merge by link", _forked, _merge_by_link),
        Operation("run begin", _plain, _begin_run),
        Operation("run abort", _running, _abort_run),
        Operation("tag create", _plain, _tag),
        Operation("tag delete", _tagged, _untag),
        Operation("compaction", _fragmented, _compact),
        Operation("upkeep", _long_line, _maintain, GREEDY),
        Operation("cleanup", _with_garbage, _cleanup, GREEDY, forgets=True),
        Operation("branch from a past commit", _plain, _branch_from_past),
        Operation("index", _plain, _index),
        Operation("index segment", _half_indexed, _grow_index),
        Operation("upgrade", _old_format, _only_open),
        Operation(
            "recovery: nothing moved", _left_after("publish.after_sidecar=raise"), _only_open
        ),
        Operation("recovery: all moved", _left_after("publish.after_tables=raise"), _only_open),
        Operation("recovery: some moved", _left_mixed, _only_open),
        Operation("recovery: torn table", _left_torn, _only_open),
        Operation("recovery: published", _left_after("publish.after_publish=raise"), _only_open),
        Operation("recovery: on a fork", _left_on_fork, _only_open),
        Operation("recovery: merge, its source gone", _left_merging, _only_open),
        Operation("recovery: branch gone", _left_on_deleted_branch, _only_open),
    )
}
