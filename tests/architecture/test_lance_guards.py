"""What the storage kernel relies on in Lance, and what it must avoid.

Each test states one behaviour of the substrate. When an upgrade of pylance turns one red, the
code that leans on it, named in the docstring, must be looked at before anything is released.
"""

import datetime as dt
import random
import re
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.file import LanceFileReader
from lance.fragment import RowIdSequence, write_fragments
from lance.optimize import Compaction

from omnigraph.storage.tables.alter import Alter, edited
from omnigraph.storage.tables.words import ONLY_CUT, keys_of

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False, metadata=KEY), pa.field("v", pa.int64())]
)
SOURCES = Path(__file__).parent.parent.parent / "src" / "omnigraph"


def rows(*ids, v=0):
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def ids(dataset):
    return sorted(dataset.to_table()["id"].to_pylist())


@pytest.fixture
def uri(tmp_path):
    where = str(tmp_path / "t")
    lance.write_dataset(rows("a", "b", "c"), where, enable_stable_row_ids=True)
    return where


def stage_append(dataset, *new, v=0):
    return write_fragments(rows(*new, v=v), dataset, mode="append", return_transaction=True)


def field_ids(dataset):
    return [field.id() for field in dataset.lance_schema.fields()]


def stage_update(dataset, keys, v, *, declare=True, new=()):
    """The hand-built update: delete by address, append, keep row ids."""
    listed = ", ".join(f"'{key}'" for key in keys)
    hits = dataset.scanner(
        columns=["id"],
        filter=f"id in ({listed})" if keys else "false",
        with_row_id=True,
        with_row_address=True,
    ).to_table()
    offsets = {}
    for address in hits["_rowaddr"].to_pylist():
        offsets.setdefault(address >> 32, []).append(address & 0xFFFF_FFFF)
    updated, gone = [], []
    for fragment, places in offsets.items():
        left = dataset.get_fragment(fragment).delete_rows(places)
        updated.append(left) if left is not None else gone.append(fragment)
    fresh = write_fragments(rows(*hits["id"].to_pylist(), *new, v=v), dataset, mode="append")
    if len(hits):
        fresh[0].row_id_meta = RowIdSequence(hits["_rowid"].to_pylist()).to_inline_metadata()
    operation = LanceOperation.Update(
        removed_fragment_ids=gone,
        updated_fragments=updated,
        new_fragments=fresh,
        fields_for_preserving_frag_bitmap=field_ids(dataset) if declare else [],
        update_mode="rewrite_rows",
    )
    return Transaction(dataset.version, operation)


def stage_delete(dataset):
    left = dataset.get_fragment(0).delete_rows([0])
    return Transaction(dataset.version, LanceOperation.Delete([left], [], "by address"))


def stage_index(dataset):
    built = dataset.create_index_uncommitted("id", "BTREE", name="ix", fragment_ids=[0])
    return Transaction(dataset.version, LanceOperation.CreateIndex([built], []))


def commit(dataset, transaction):
    return LanceDataset.commit(dataset, transaction, max_retries=0)


class TestNamesOnDisk:
    def test_a_version_file_is_named_by_its_distance_from_the_highest(self, uri):
        """`layout.version_file`: the existence test of the next version."""
        dataset = lance.dataset(uri)
        assert (Path(uri) / "_versions" / f"{2**64 - 1 - dataset.version:020d}.manifest").exists()

    def test_a_branch_keeps_its_files_below_tree_and_its_ref_url_encoded(self, uri):
        """`layout.lineage`, `layout.branch_ref`."""
        lance.dataset(uri).create_branch("team/é.x", 1)
        root = Path(uri)
        assert (root / "tree" / "team" / "é.x" / "_versions").is_dir()
        assert (root / "_refs" / "branches" / "team%2F%C3%A9.x.json").is_file()

    def test_the_deletion_file_of_a_staged_delete_can_be_named(self, uri):
        """`stage._new_files`: what must be synced."""
        dataset = lance.dataset(uri)
        left = dataset.get_fragment(0).delete_rows([0])
        assert (Path(uri) / left.deletion_file.path(left.id)).is_file()
        assert left.deletion_file.read_version == dataset.version

    def test_the_files_of_a_commit_are_its_manifest_and_an_optional_record(self, uri):
        """The barriers sync the manifest; the transaction is readable from it alone."""
        dataset = lance.dataset(uri)
        transaction = stage_append(dataset, "d")
        before = {path for path in Path(uri).rglob("*") if path.is_file()}
        done = commit(dataset, transaction)
        fresh = {path for path in Path(uri).rglob("*") if path.is_file()} - before
        assert {path.parent.name for path in fresh} == {"_versions", "_transactions"}
        for path in (Path(uri) / "_transactions").iterdir():
            path.unlink()
        again = lance.dataset(uri).read_transaction(done.version)
        assert again.uuid == transaction.uuid


class TestCommits:
    def test_an_append_silently_lands_on_a_moved_dataset(self, uri):
        """`commit_staged` checks the version it got: no retries is not compare-and-swap."""
        mine, other = lance.dataset(uri), lance.dataset(uri)
        staged = stage_append(mine, "mine")
        commit(other, stage_append(other, "other"))
        assert commit(mine, staged).version == 3

    def test_committing_a_transaction_twice_applies_it_twice(self, uri):
        """Recovery looks for the uuid before it commits anything."""
        dataset = lance.dataset(uri)
        staged = stage_append(dataset, "d")
        commit(dataset, staged)
        assert ids(commit(lance.dataset(uri), staged)).count("d") == 2

    def test_uuid_and_properties_survive_into_history(self, uri):
        """The evidence of recovery and of drift healing."""
        dataset = lance.dataset(uri)
        staged = stage_append(dataset, "d")
        staged.transaction_properties = {"omnigraph:operation_id": "x"}
        done = commit(dataset, staged)
        told = lance.dataset(uri).read_transaction(done.version)
        assert (told.uuid, told.transaction_properties) == (
            staged.uuid,
            {"omnigraph:operation_id": "x"},
        )

    def test_an_append_can_be_put_on_a_newer_version_by_hand(self, uri):
        """`stage.rebased`."""
        old = lance.dataset(uri)
        staged = stage_append(old, "mine")
        newer = commit(lance.dataset(uri), stage_update(lance.dataset(uri), ["a"], 9))
        done = commit(newer, Transaction(newer.version, staged.operation))
        assert (done.version, ids(done)) == (newer.version + 1, ["a", "b", "c", "mine"])
        assert len(set(done.scanner(columns=[], with_row_id=True).to_table()["_rowid"])) == 4

    def test_a_strict_overwrite_can_land_below_the_newest_version(self, uri):
        """`commit_staged` also asks whether a newer version exists."""
        old = lance.dataset(uri)
        staged = write_fragments(rows("only"), old, mode="overwrite", return_transaction=True)
        for key in "xy":
            lance.write_dataset(rows(key), uri, mode="append")
        (Path(uri) / "_versions" / f"{2**64 - 1 - 2:020d}.manifest").unlink()
        done = commit(old, staged)
        assert done.version == 2
        assert lance.dataset(uri).version == 3

    @pytest.mark.parametrize(
        "stage",
        [
            pytest.param(lambda dataset: stage_append(dataset, "z"), id="append"),
            pytest.param(lambda dataset: stage_update(dataset, ["a"], 9), id="update"),
            pytest.param(lambda dataset: stage_delete(dataset), id="delete"),
            pytest.param(lambda dataset: stage_index(dataset), id="index"),
        ],
    )
    def test_every_other_write_lands_on_top_of_the_newest_version(self, uri, stage):
        """Why `commit_staged` asks for a newer version only after an overwrite."""
        old = lance.dataset(uri)
        staged = stage(old)
        for key in "xyz":
            lance.write_dataset(rows(key), uri, mode="append")
        for version in (2, 3):
            (Path(uri) / "_versions" / f"{2**64 - 1 - version:020d}.manifest").unlink()
        assert commit(old, staged).version == 5

    def test_restore_fences_appends_and_updates_staged_before(self, uri):
        """Taking over from a dead writer."""
        for stage in (
            lambda dataset: stage_append(dataset, "z"),
            lambda dataset: stage_update(dataset, ["a"], 9),
        ):
            zombie = lance.dataset(uri)
            staged = stage(zombie)
            lance.dataset(uri).restore()
            with pytest.raises(CommitConflictError) as caught:
                commit(zombie, staged)
            assert not caught.value.retryable

    def test_a_restore_built_by_hand_fences_and_carries_our_mark(self, uri):
        """Recovery signs its restores, so that a late one is known to be ours."""
        zombie = lance.dataset(uri)
        staged = stage_append(zombie, "z")
        lance.write_dataset(rows("undone"), uri, mode="append")
        transaction = Transaction(1, LanceOperation.Restore(1))
        transaction.transaction_properties = {"mark": "ours"}
        restored = LanceDataset.commit(lance.dataset(uri, version=1), transaction)
        assert (restored.version, ids(restored)) == (3, ["a", "b", "c"])
        told = restored.read_transaction(3)
        assert type(told.operation).__name__ == "Restore"
        assert told.transaction_properties == {"mark": "ours"}
        with pytest.raises(CommitConflictError):
            commit(zombie, staged)

    def test_restore_on_a_branch_fences_too(self, uri):
        lance.dataset(uri).create_branch("side", 1)
        zombie = lance.dataset(f"{uri}/tree/side")
        staged = stage_append(zombie, "z")
        lance.dataset(f"{uri}/tree/side").restore()
        with pytest.raises(CommitConflictError):
            commit(zombie, staged)

    def test_our_sources_never_use_a_commit_lock_or_list_all_versions(self):
        """A commit lock loses acknowledged commits; `versions()` grows with history."""
        for path in SOURCES.rglob("*.py"):
            text = re.sub(r'"""[\s\S]*?"""|#.*', "", path.read_text())
            assert "commit_lock" not in text, path
            assert ".versions()" not in text, path
            assert "delete_unverified" not in text, path


class TestTheHeadRow:
    """`manifest.stage_publish`: deleting one common row is the compare-and-swap."""

    def test_two_updates_of_one_row_exclude_each_other(self, uri):
        first, second = lance.dataset(uri), lance.dataset(uri)
        mine, other = stage_update(first, ["a"], 1), stage_update(second, ["a"], 2)
        commit(first, mine)
        with pytest.raises(CommitConflictError) as caught:
            commit(second, other)
        assert caught.value.retryable

    @pytest.mark.parametrize("fragments", [1, 3])
    def test_two_first_writers_on_a_fresh_branch_exclude_each_other(self, uri, fragments):
        for key in range(fragments - 1):
            lance.write_dataset(rows(f"more{key}"), uri, mode="append")
        lance.dataset(uri).create_branch("side", lance.dataset(uri).version)
        first, second = (lance.dataset(f"{uri}/tree/side") for _ in range(2))
        mine, other = stage_update(first, ["a"], 1), stage_update(second, ["a"], 2)
        commit(first, mine)
        with pytest.raises(CommitConflictError):
            commit(second, other)
        assert lance.dataset(uri).to_table(filter="id = 'a'")["v"].to_pylist() == [0]

    def test_writers_with_nothing_in_common_do_not_exclude_each_other(self, uri):
        """Why the head row has one constant key on every branch."""
        first, second = lance.dataset(uri), lance.dataset(uri)
        mine = stage_update(first, [], 1, new=("head:1",))
        other = stage_update(second, [], 2, new=("head:2",))
        commit(first, mine)
        assert {"head:1", "head:2"} <= set(ids(commit(second, other)))

    def test_fragments_are_kept_in_the_order_of_their_ids(self, uri):
        """The newest fragment is the last one, and a new one always comes after it."""
        for key in "xyz":
            lance.write_dataset(rows(key), uri, mode="append")
        dataset = lance.dataset(uri)
        Compaction.execute(dataset, {"target_rows_per_fragment": 100})
        done = commit(lance.dataset(uri), stage_append(lance.dataset(uri), "last"))
        numbers = [part.fragment_id for part in done.get_fragments()]
        assert numbers == sorted(numbers)
        assert done.get_fragments()[-1].take([0]).to_pylist() == [{"id": "last", "v": 0}]

    def test_replacing_whole_fragments_gives_fresh_row_ids_in_one_step(self, uri):
        """`stage_refold`: what keeps the manifest's own manifests small."""
        dataset = lance.dataset(uri)
        fresh = write_fragments(dataset.to_table(), dataset, mode="append")
        operation = LanceOperation.Update(
            removed_fragment_ids=[0], new_fragments=fresh, update_mode="rewrite_rows"
        )
        done = commit(dataset, Transaction(dataset.version, operation))
        assert (ids(done), len(done.get_fragments())) == (["a", "b", "c"], 1)
        assert done.scanner(columns=[], with_row_id=True).to_table()["_rowid"].to_pylist() == [
            3,
            4,
            5,
        ]


class TestHandBuiltUpdates:
    """`stage._stage_change`."""

    def test_row_ids_and_creation_versions_are_kept(self, uri):
        before = lance.dataset(uri)
        done = commit(before, stage_update(before, ["b"], 9, new=("n",)))
        done.validate()
        told = {
            row["id"]: row
            for row in done.scanner(
                columns=[
                    "id",
                    "v",
                    "_rowid",
                    "_row_created_at_version",
                    "_row_last_updated_at_version",
                ]
            )
            .to_table()
            .to_pylist()
        }
        assert (told["b"]["_rowid"], told["b"]["v"]) == (1, 9)
        assert told["b"]["_row_created_at_version"] == 1
        assert told["b"]["_row_last_updated_at_version"] == done.version
        assert told["n"]["_row_created_at_version"] == done.version

    @pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
    @pytest.mark.parametrize("keys", [(), ("b",)], ids=["insert", "update"])
    def test_an_index_does_not_hide_rows_when_every_column_is_declared(self, uri, kind, keys):
        lance.dataset(uri).create_scalar_index("v", kind)
        dataset = lance.dataset(uri)
        done = commit(dataset, stage_update(dataset, keys, 9, new=("n",)))
        assert sorted(done.to_table(filter="v = 9")["id"].to_pylist()) == [*keys, "n"]
        assert sorted(done.to_table(filter="v = 0")["id"].to_pylist()) == [
            key for key in ("a", "b", "c") if key not in keys
        ]

    def test_an_undeclared_update_is_hidden_by_a_bitmap_index(self, uri):
        """The trap behind `stage._update`; when it is gone the declaration may go."""
        lance.dataset(uri).create_scalar_index("v", "BITMAP")
        dataset = lance.dataset(uri)
        done = commit(dataset, stage_update(dataset, ["b"], 9, declare=False))
        assert done.to_table(filter="v = 9")["id"].to_pylist() == []

    def test_text_search_finds_updated_rows(self, tmp_path):
        uri = str(tmp_path / "text")
        lance.write_dataset(
            pa.table({"id": ["a", "b"], "v": [1, 2], "t": ["old words", "other"]}),
            uri,
            enable_stable_row_ids=True,
        )
        lance.dataset(uri).create_scalar_index("t", "INVERTED")
        dataset = lance.dataset(uri)
        left = dataset.get_fragment(0).delete_rows([0])
        fresh = write_fragments(
            pa.table({"id": ["a"], "v": [1], "t": ["new words"]}), dataset, mode="append"
        )
        fresh[0].row_id_meta = RowIdSequence([0]).to_inline_metadata()
        operation = LanceOperation.Update(
            updated_fragments=[left],
            new_fragments=fresh,
            fields_for_preserving_frag_bitmap=field_ids(dataset),
            update_mode="rewrite_rows",
        )
        done = commit(dataset, Transaction(dataset.version, operation))
        found = done.to_table(full_text_query="new", columns=["id"])["id"].to_pylist()
        stale = done.to_table(full_text_query="old", columns=["id"])["id"].to_pylist()
        assert (found, stale) == (["a"], [])

    def test_a_staged_update_is_refused_after_compaction(self, uri):
        """Writers that lose to maintenance stage again."""
        lance.write_dataset(rows("d"), uri, mode="append")
        dataset = lance.dataset(uri)
        staged = stage_update(dataset, ["a"], 9)
        lance.dataset(uri).optimize.compact_files()
        with pytest.raises(CommitConflictError):
            commit(dataset, staged)


class TestBranches:
    def test_version_numbers_continue_from_the_fork(self, uri):
        """So `(location, branch, version)` needs the branch, and fork names are used once."""
        lance.dataset(uri).create_branch("side", 1)
        side = lance.dataset(f"{uri}/tree/side")
        assert (side.version, commit(side, stage_append(side, "s")).version) == (1, 2)
        assert commit(lance.dataset(uri), stage_append(lance.dataset(uri), "m")).version == 2

    def test_a_shared_session_does_not_confuse_a_branch_made_again(self, uri):
        """`Heads` trusts a fresh open of a re-created manifest branch."""
        session = lance.Session()
        for value in (1, 2):
            lance.dataset(uri, session=session).create_branch("side", 1)
            side = lance.dataset(f"{uri}/tree/side", session=session)
            commit(side, stage_append(side, "s", v=value))
            seen = lance.dataset(f"{uri}/tree/side", session=session, version=2)
            assert seen.to_table(filter="id = 's'")["v"].to_pylist() == [value]
            lance.dataset(uri, session=session).branches.delete("side")

    def test_a_tree_without_a_ref_blocks_the_name(self, uri):
        """`name_is_free`, `delete_branch`: pylance cannot clean this up."""
        lance.dataset(uri).create_branch("side", 1)
        (Path(uri) / "_refs" / "branches" / "side.json").unlink()
        with pytest.raises(OSError, match=r"build_manifest|already exists"):
            lance.dataset(uri).create_branch("side", 1)
        with pytest.raises((OSError, ValueError)):
            lance.dataset(uri).branches.delete("side")

    def test_a_branch_can_be_made_on_a_branch_opened_by_its_own_address(self, uri):
        """`create_fork` on handles opened below `tree/`."""
        lance.dataset(uri).create_branch("one", 1)
        one = lance.dataset(f"{uri}/tree/one")
        one = commit(one, stage_append(one, "x"))
        one.create_branch("two", ("one", one.version))
        assert ids(lance.dataset(f"{uri}/tree/two")) == ["a", "b", "c", "x"]

    def test_a_branch_stores_the_absolute_address_it_was_made_from(self, uri):
        """`relocation`: why moved graphs with branches are refused."""
        lance.dataset(uri).create_branch("side", 1)
        bases = lance.dataset(f"{uri}/tree/side").base_paths()
        assert [base.path.lstrip("/") for base in bases.values()] == [uri.lstrip("/")]


class TestCleanup:
    def test_exactly_the_named_versions_go_and_staged_files_stay(self, uri):
        """`remove_versions`."""
        for key in "xyz":
            lance.write_dataset(rows(key), uri, mode="append")
        dataset = lance.dataset(uri)
        staged = stage_append(dataset, "staged")
        dataset.cleanup_old_versions(versions=[1, 2], error_if_tagged_old_versions=False)
        left = sorted(part["version"] for part in lance.dataset(uri).version_refs())
        assert left == [3, 4]
        assert "staged" in ids(commit(lance.dataset(uri), staged))

    def test_branches_survive_the_cleanup_and_compaction_of_main(self, uri):
        lance.dataset(uri).create_branch("side", 1)
        side = lance.dataset(f"{uri}/tree/side")
        for key in "st":
            side = commit(side, stage_append(side, key))
        for key in "xyz":
            lance.write_dataset(rows(key), uri, mode="append")
        lance.dataset(uri).optimize.compact_files()
        newest = lance.dataset(uri)
        newest.cleanup_old_versions(
            versions=list(range(2, newest.version)), error_if_tagged_old_versions=False
        )
        assert ids(lance.dataset(f"{uri}/tree/side")) == ["a", "b", "c", "s", "t"]
        for version in (1, 2, 3):
            lance.dataset(f"{uri}/tree/side", version=version).to_table()

    def test_a_cleaned_version_fails_with_words_we_recognise(self, uri):
        """`failures`: snapshot expired."""
        lance.write_dataset(rows("x"), uri, mode="append")
        lance.dataset(uri).cleanup_old_versions(dt.timedelta(0))
        with pytest.raises(ValueError, match="not found"):
            lance.dataset(uri, version=1)

    def test_a_torn_manifest_fails_with_words_we_recognise(self, uri):
        """`failures`: damaged; older versions still open."""
        lance.write_dataset(rows("x"), uri, mode="append")
        newest = Path(uri) / "_versions" / f"{2**64 - 1 - 2:020d}.manifest"
        newest.write_bytes(b"")
        with pytest.raises(ValueError, match="Invalid range"):
            lance.dataset(uri)
        assert ids(lance.dataset(uri, version=1)) == ["a", "b", "c"]
        newest.rename(f"{newest}.torn")
        assert ids(lance.dataset(uri)) == ["a", "b", "c"]

    def test_compaction_keeps_rows_and_moves_its_own_handle_by_two(self, uri):
        """`commit_compaction` works on handles of its own; recovery knows the two steps."""
        lance.write_dataset(rows("x"), uri, mode="append")
        dataset = lance.dataset(uri)
        results = [
            task.execute(dataset)
            for task in Compaction.plan(dataset, {"target_rows_per_fragment": 100}).tasks
        ]
        Compaction.commit(dataset, results)
        assert dataset.version == 4
        kinds = [type(dataset.read_transaction(v).operation).__name__ for v in (3, 4)]
        assert kinds == ["BaseOperation", "Rewrite"]

    def test_restore_shows_as_restore(self, uri):
        """`has_rewrites_since`: row deltas cannot be trusted across it."""
        lance.write_dataset(rows("x"), uri, mode="append")
        lance.dataset(uri, version=1).restore()
        newest = lance.dataset(uri)
        operation = newest.read_transaction(newest.version).operation
        assert type(operation).__name__ == "Restore"


class TestReading:
    def test_delta_answers_for_the_version_of_its_handle(self, uri):
        """`Reader.delta`."""
        end = commit(lance.dataset(uri), stage_append(lance.dataset(uri), "d"))
        commit(end, stage_append(end, "later"))
        at_end = lance.dataset(uri, version=2).delta(begin_version=1, end_version=2)
        assert at_end.get_inserted_rows().read_all()["id"].to_pylist() == ["d"]

    def test_double_quotes_are_a_string_and_backticks_a_name(self, uri):
        """`predicate`."""
        dataset = lance.dataset(uri)
        assert dataset.count_rows(filter="`id` = 'a'") == 1
        assert dataset.count_rows(filter="id = 'it''s'") == 0
        assert dataset.count_rows(filter="\"id\" = 'a'") == 0

    def test_stable_row_ids_are_only_set_at_creation(self, tmp_path):
        """`Tables.create`: the flag cannot be added later."""
        where = str(tmp_path / "plain")
        lance.write_dataset(rows("a"), where)
        lance.write_dataset(rows("b"), where, mode="overwrite", enable_stable_row_ids=True)
        assert not lance.dataset(where).has_stable_row_ids

    def test_an_index_is_staged_and_committed_under_our_uuid(self, uri):
        """`stage_index`."""
        dataset = lance.dataset(uri)
        built = dataset.create_index_uncommitted("id", "BTREE", name="ix", fragment_ids=[0])
        assert lance.dataset(uri).version == dataset.version
        staged = Transaction(dataset.version, LanceOperation.CreateIndex([built], []))
        done = commit(dataset, staged)
        assert done.read_transaction(done.version).uuid == staged.uuid
        assert [index.name for index in done.describe_indices()] == ["ix"]


class TestPaths:
    def test_a_question_mark_in_a_path_sends_branches_elsewhere(self, tmp_path):
        """Avoided by `base.uri`: such places are refused."""
        dataset = lance.write_dataset(rows("a"), str(tmp_path / "a?b" / "t"))
        dataset.create_branch("side", 1)
        assert not (tmp_path / "a?b" / "t" / "tree").exists()
        assert (tmp_path / "a").exists()

    def test_a_ref_below_letters_beyond_ascii_is_made_in_a_neighbour_folder(self, tmp_path):
        """Told in `docs/storage.md`; nothing but empty folders may stay there."""
        dataset = lance.write_dataset(rows("a"), str(tmp_path / "é" / "t"))
        dataset.create_branch("side", 1)
        assert (tmp_path / "é" / "t" / "_refs" / "branches" / "side.json").exists()
        assert [path for path in (tmp_path / "%C3%A9").rglob("*") if path.is_file()] == []

    def test_the_longest_ref_that_can_be_made(self, tmp_path):
        """`layout` leaves room for what Lance appends while it makes a ref."""
        dataset = lance.write_dataset(rows("a"), str(tmp_path / "t"))
        dataset.create_branch("x" * 210, 1)
        with pytest.raises(OSError, match="File name too long"):
            dataset.create_branch("y" * 240, 1)


def stage_columns(dataset, *add, **change):
    """A change of columns as `tables.alter` stages it, with another newest number if told so."""
    newest = change.pop("newest", dataset.max_field_id)
    schema = edited(dataset.lance_schema, newest, Alter(add=add, **change))
    return Transaction(dataset.version, LanceOperation.Project(schema))


def test_a_new_column_must_not_get_the_number_of_a_dropped_one(uri):
    """Why `tables.alter` counts from the newest number of any file."""
    dataset = LanceDataset.commit(uri, stage_columns(lance.dataset(uri), drop=("v",)))
    fresh = pa.field("fresh", pa.int64())
    assert dataset.max_field_id == 1, "still the number of the column that was dropped"
    right = LanceDataset.commit(uri, stage_columns(dataset, fresh)).to_table()["fresh"]
    assert right.to_pylist() == [None] * 3
    wrong = LanceDataset.commit(uri, Transaction(3, LanceOperation.Restore(2)))
    wrong = LanceDataset.commit(uri, stage_columns(wrong, fresh, newest=0)).to_table()["fresh"]
    assert wrong.to_pylist() == [0, 0, 0], "Lance checks it by now"


@pytest.mark.parametrize("change", [{"rename": {"v": "w"}}, {"drop": ("v",)}], ids=str)
def test_rows_staged_before_a_change_of_columns_are_refused_after_it(uri, change):
    """A writer that slept must not land rows of the old columns."""
    dataset = lance.dataset(uri)
    late = stage_append(dataset, "late")
    LanceDataset.commit(uri, stage_columns(dataset, pa.field("new", pa.int64()), **change))
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(uri, late, max_retries=0)


def test_a_restore_fences_a_change_of_columns(uri):
    """Recovery restores a table to keep a writer that wakes up from moving it."""
    dataset = lance.dataset(uri)
    late = stage_columns(dataset, pa.field("new", pa.int64()))
    LanceDataset.commit(uri, Transaction(1, LanceOperation.Restore(1)))
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(dataset, late, max_retries=0)


class TestTheWordsOfATextIndex:
    """`tables.words` reads what Lance keeps, and relies on where it cuts."""

    @staticmethod
    def words(tmp_path, texts):
        rows = pa.table({"id": [str(at) for at in range(len(texts))], "t": texts})
        dataset = lance.write_dataset(rows, str(tmp_path / "texts"), enable_stable_row_ids=True)
        built = dataset.create_index_uncommitted(
            "t", "INVERTED", name="t", fragment_ids=[0], replace=True, **ONLY_CUT
        )
        dataset.merge_index_metadata(built.uuid, "INVERTED")
        found = set()
        for path in (tmp_path / "texts/_indices" / str(built.uuid)).glob("*_tokens.lance"):
            for data in LanceFileReader(str(path)).read_all().to_table()["_token_fst_bytes"]:
                found |= {word.decode() for word in keys_of(data.as_py())}
        return found

    def test_every_word_is_read_whatever_letters_it_is_made_of(self, tmp_path):
        dice = random.Random(5)
        signs = [*map(chr, range(33, 127)), "é", "ß", "日", "\U0001d518", "\u0131"]
        texts = [
            " ".join("".join(dice.choices(signs, k=dice.randrange(1, 9))) for _ in range(5))
            for _ in range(4_000)
        ]
        cut = {word for text in texts for word in re.findall(r"[^\W_]+", text)}
        assert self.words(tmp_path, texts) == cut

    def test_it_cuts_nowhere_but_where_we_cut(self, tmp_path):
        letters = [chr(at) for at in range(0x110000) if re.match(r"[^\W_]", chr(at))]
        assert len(letters) > 130_000
        texts = [f"x{letter}y" for letter in letters]
        assert self.words(tmp_path, texts) >= set(texts)


def test_a_scan_of_chosen_fragments_yields_them_in_the_order_they_are_given(tmp_path):
    """Single rows are picked out of several fragments by how many rows came before."""
    uri = str(tmp_path / "t.lance")
    for start in range(0, 20, 5):
        lance.write_dataset(pa.table({"a": range(start, start + 5)}), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.delete("a in (6, 11)")
    parts = lance.dataset(uri).get_fragments()
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        chosen = [parts[at] for at in order]
        found = lance.dataset(uri).scanner(fragments=chosen, scan_in_order=True).to_table()
        rows = [row for at in order for row in range(5 * at, 5 * at + 5) if row not in (6, 11)]
        assert found["a"].to_pylist() == rows
        counts = [part.metadata.num_rows for part in chosen]
        assert counts == [part.count_rows() for part in chosen]
