"""What the storage kernel relies on in Lance's indexes and shared objects, and what it must avoid.

See `test_lance_guards` for the rest.
"""

import copy
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction

from tests.architecture.test_lance_guards import rows


def test_a_copy_of_a_dataset_is_an_object_of_its_own(tmp_path):
    """`Handle.apart`: some calls borrow the object, and others on it fail meanwhile."""
    dataset = lance.write_dataset(pa.table({"id": ["a"]}), tmp_path / "t")
    apart = copy.copy(dataset)
    assert apart._ds is not dataset._ds
    assert (apart.uri, apart.version) == (dataset.uri, dataset.version)


class TestInheritedIndexes:
    """What `tables.inherited` avoids: compacting rows that an index of the parent covers."""

    @pytest.fixture
    def branch(self, tmp_path):
        uri = str(tmp_path / "table.lance")
        lance.write_dataset(rows("a", "b", "c"), uri, enable_stable_row_ids=True)
        dataset = lance.write_dataset(rows("d"), uri, mode="append")
        dataset.create_scalar_index("id", "BTREE", name="i")
        dataset.create_branch("b")
        for name in "efg":
            lance.write_dataset(rows(name), f"{uri}/tree/b", mode="append")
        return lance.dataset(f"{uri}/tree/b")

    def compacted(self, branch, choose):
        tasks = Compaction.plan(branch, {"num_threads": 1}).tasks
        assert [[part.id for part in task.fragments] for task in tasks] == [[0, 1], [2, 3, 4]]
        Compaction.commit(branch, [task.execute(branch) for task in choose(tasks)])
        return lance.dataset(branch.uri)

    def test_a_segment_says_whose_it_is_and_what_it_covers(self, branch):
        (part,) = branch.describe_indices()[0].segments
        assert part.base_id in branch.base_paths()
        assert list(part.fragment_ids) == [0, 1]
        assert not (Path(branch.uri) / "_indices").exists()

    def test_rows_it_does_not_cover_are_compacted_and_found(self, branch):
        after = self.compacted(branch, lambda tasks: tasks[1:])
        assert len(after.get_fragments()) == 3
        for name in "abcdefg":
            assert after.to_table(filter=f"id = '{name}'").num_rows == 1

    def test_compacting_what_it_covers_loses_it(self, branch):
        after = self.compacted(branch, lambda tasks: tasks)
        (part,) = after.describe_indices()[0].segments
        assert part.base_id is not None
        assert (Path(branch.uri) / "_indices" / part.uuid).exists()
        with pytest.raises(OSError, match="_indices"):
            after.prewarm_index("i")
        with pytest.raises(ValueError, match="_indices"):
            after.to_table(filter="id = 'a'")
        assert after.scanner(filter="id = 'a'", use_scalar_index=False).count_rows() == 1


@pytest.mark.parametrize("way", ["segment", "lance"])
def test_a_text_index_given_one_more_segment_finds_texts_that_changed(tmp_path, way):
    """Why `storage/tables/index` builds an index whole instead of adding what is new."""
    texts = pa.table({"id": ["a", "b"], "w": ["old words", "other words"]})
    dataset = lance.write_dataset(texts, tmp_path / "t", enable_stable_row_ids=True)

    def index(fragments):
        made = dataset.create_index_uncommitted(
            "w", "INVERTED", name="by_w", fragment_ids=fragments, replace=True
        )
        dataset.merge_index_metadata(made.uuid, "INVERTED")
        operation = LanceOperation.CreateIndex([made], [])
        return LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)

    dataset = index([0])
    dataset.update({"w": "'new words'"}, where="id = 'a'")
    if way == "segment":
        dataset = index([dataset.get_fragments()[-1].fragment_id])
    else:
        dataset.optimize.optimize_indices()
    stale = dataset.scanner(full_text_query="old").to_table()["id"].to_pylist()
    assert stale == (["a"] if way == "segment" else [])
