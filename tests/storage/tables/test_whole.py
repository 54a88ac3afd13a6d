"""Staged files are looked at before their commit: whole, or refused by name."""

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.tables.whole import sync_whole_files


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Every kind of file that Lance stages."""
    place = tmp_path_factory.mktemp("t")
    data = lance.write_dataset(pa.table({"n": range(80_000)}), str(place))
    data.delete("n = 5")
    data.delete("n % 3 = 0")
    data.create_scalar_index("n", "BTREE")
    files = [path for path in place.rglob("*") if path.suffix in (".lance", ".arrow", ".bin")]
    assert {path.suffix for path in files} == {".lance", ".arrow", ".bin"}
    return place, {f"nodes/t/{path.relative_to(place)}": path.read_bytes() for path in files}


@pytest.mark.parametrize("suffix", [".lance", ".arrow", ".bin"])
def test_a_file_that_lacks_its_end_is_refused_by_name(store, written, suffix):
    objects = store.kernel.objects
    for name, content in written[1].items():
        if name.endswith(suffix):
            objects.put(name, content)
            sync_whole_files(objects, [name])
            for missing in (1, 2, len(content) // 2, len(content)):
                objects.put(name, content[: len(content) - missing])
                with pytest.raises(StorageError, match="cut short") as refused:
                    sync_whole_files(objects, [name])
                assert name in str(refused.value)


def test_a_file_that_is_not_there_is_refused_by_name(store):
    with pytest.raises(StorageError, match="gone"):
        sync_whole_files(store.kernel.objects, ["data/gone.lance"])
