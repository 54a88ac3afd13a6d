"""Files that are mapped: whole, checked, private, or not there."""

import resource
import stat

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.image import folders, mapped
from omnigraph.engine.image.folders import CacheFolderError, private_folder
from omnigraph.engine.image.mapped import (
    faults_of,
    is_there,
    names_in,
    read_arrays,
    read_column,
    write_arrays,
    write_column,
)

ARRAYS = {"a": np.arange(1_000, dtype=np.int64), "b": np.arange(7, dtype=np.int32)}
COLUMN = pa.array([None, *(f"value {at}" for at in range(1_000))])


@pytest.fixture
def folder(tmp_path):
    write_arrays(tmp_path, "arrays", ARRAYS, {"seed": "s"})
    write_column(tmp_path, "column", COLUMN, {"column": "name"})
    return tmp_path


@pytest.fixture
def another_boot(monkeypatch):
    monkeypatch.setattr(mapped, "_boot", lambda: "another")


def data_of(folder, name):
    [path] = folder.glob(f"{name}.*.data")
    return path


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_what_was_written_is_mapped_as_it_was(folder):
    arrays, said = read_arrays(folder, "arrays")
    assert {name: array.tolist() for name, array in arrays.items()} == {
        name: array.tolist() for name, array in ARRAYS.items()
    }
    assert said["seed"] == "s"
    assert not arrays["a"].flags.writeable
    column, said = read_column(folder, "column")
    assert column.equals(COLUMN)
    assert said["column"] == "name"
    assert names_in(folder) == ["arrays", "column"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.list_(pa.float32(), 2),
        pa.struct([pa.field("size", pa.int64())]),
        pa.date32(),
        pa.bool_(),
        pa.timestamp("ms"),
    ],
)
def test_a_column_of_any_type_comes_back(tmp_path, kind):
    values = {"list": [[1, 2], None], "size": [{"size": 1}, None]}
    known = values["list"] if pa.types.is_nested(kind) else [None, None]
    known = values["size"] if pa.types.is_struct(kind) else known
    column = pa.array(known, kind)[:1] if kind == pa.bool_() else pa.array(known, kind)
    write_column(tmp_path, "c", column, {})
    assert read_column(tmp_path, "c")[0].equals(column)


def test_what_was_never_written_is_a_miss(tmp_path):
    assert read_arrays(tmp_path, "arrays") is None
    assert read_column(tmp_path / "nowhere", "column") is None


@pytest.mark.parametrize("name", ["arrays", "column"])
@pytest.mark.parametrize("harm", ["truncated", "empty", "gone", "link", "note", "other format"])
def test_a_file_that_is_not_what_its_note_says_is_a_miss_and_is_removed(folder, name, harm):
    data, note = data_of(folder, name), folder / f"{name}.json"
    match harm:
        case "truncated":
            data.write_bytes(data.read_bytes()[:-8])
        case "empty":
            data.write_bytes(b"")
        case "gone":
            data.unlink()
        case "link":
            data.rename(folder / "elsewhere")
            data.symlink_to(folder / "elsewhere")
        case "note":
            note.write_bytes(note.read_bytes()[:20])
        case "other format":
            note.write_text(note.read_text().replace('"format": 1', '"format": 9'))
    read = read_arrays if name == "arrays" else read_column
    assert read(folder, name) is None
    if harm != "gone":
        assert not is_there(folder, name)
    other = read_column if name == "arrays" else read_arrays
    assert other(folder, "column" if name == "arrays" else "arrays") is not None


@pytest.mark.parametrize("name", ["arrays", "column"])
def test_a_flipped_bit_is_found_once_per_boot(folder, name, another_boot):
    flip(data_of(folder, name), 200)
    read = read_arrays if name == "arrays" else read_column
    assert read(folder, name) is None
    assert not is_there(folder, name)


def test_a_file_is_read_from_end_to_end_once_per_boot(folder, another_boot, monkeypatch):
    sums, total = [], mapped._sum_of
    monkeypatch.setattr(mapped, "_sum_of", lambda buffer: sums.append(1) or total(buffer))
    for _ in range(3):
        assert read_arrays(folder, "arrays") is not None
    assert len(sums) == 1


def test_a_check_finds_a_flipped_bit_at_any_time(folder):
    assert faults_of(folder, "arrays") is None
    flip(data_of(folder, "arrays"), 200)
    assert faults_of(folder, "arrays") == "its checksum is another one"


def test_a_hostile_note_makes_nothing_readable(folder):
    note = folder / "arrays.json"
    text = note.read_text()
    for was, now in (
        ('"int64", [1000]', '"int64", [1000000000]'),
        ('"int64", [1000]', '"int64", [-1, -1000]'),
        ('"int64"', '"object"'),
        ('[0, "int64"', '[-64, "int64"'),
        ('"said": {', '"said": {"x": 1}, "said_": {'),
    ):
        note.write_text(text.replace(was, now, 1))
        assert read_arrays(folder, "arrays") is None
        write_arrays(folder, "arrays", ARRAYS, {"seed": "s"})
        text = note.read_text()
    outside = folder.parent / "secret"
    outside.write_bytes(b"x" * 8_064)
    data = data_of(folder, "arrays").name
    note.write_text(text.replace(data, f"../{outside.name}"))
    assert read_arrays(folder, "arrays") is None
    assert outside.exists()


def test_a_torn_write_leaves_no_note_and_no_data(tmp_path, monkeypatch):
    def broken(_):
        raise OSError(5, "the disk is broken")

    monkeypatch.setattr(mapped.os, "fsync", broken)
    with pytest.raises(OSError, match="broken"):
        write_arrays(tmp_path, "arrays", ARRAYS, {})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write_arrays(tmp_path, "arrays", {"a": np.zeros(100_000, np.int64)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_who_has_mapped_a_file_keeps_it_when_it_is_removed(folder):
    arrays, _ = read_arrays(folder, "arrays")
    mapped.remove(folder, "arrays")
    assert not list(folder.glob("arrays*"))
    assert arrays["a"].tolist() == ARRAYS["a"].tolist()


def test_what_writers_left_behind_goes_once_nobody_can_be_at_work_on_it(folder, monkeypatch):
    (folder / "arrays.0123.data").write_bytes(b"of one that died")
    (folder / ".arrays.0123").write_bytes(b"{")
    before = {path.name for path in folder.iterdir()}
    mapped.sweep(folder, 3_600)
    assert {path.name for path in folder.iterdir()} == before
    monkeypatch.setattr(mapped, "_boot", lambda: "another")
    assert read_arrays(folder, "arrays") is not None
    mapped.sweep(folder, -1)
    left = {path.name for path in folder.iterdir()}
    data = {name: data_of(folder, name).name for name in ("arrays", "column")}
    assert left == {"arrays.json", "column.json", *data.values(), f".{data['arrays']}.another"}
    assert read_column(folder, "column") is not None


def test_files_are_for_their_user_alone(folder):
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}


def test_a_folder_is_made_private(tmp_path):
    made = private_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_folders_that_others_can_reach_are_refused(tmp_path, monkeypatch):
    open_ = tmp_path / "open"
    open_.mkdir(mode=0o755)
    open_.chmod(0o755)
    with pytest.raises(CacheFolderError, match="others may enter it"):
        private_folder(open_)
    link = tmp_path / "link"
    link.symlink_to(private_folder(tmp_path / "real"))
    with pytest.raises(CacheFolderError, match="not a folder, or a link"):
        private_folder(link)
    monkeypatch.setattr(folders.os, "geteuid", lambda: 4_711)
    with pytest.raises(CacheFolderError, match="another user"):
        private_folder(tmp_path / "real")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheFolderError, match="Not a directory"):
        private_folder(tmp_path / "file" / "below")


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:50 / /home rw - nfs4 server:/home rw
31 30 0:51 / /home/me/with\\040space rw - xfs /dev/sdb rw
32 22 0:52 / /odd rw - fuse.sshfs there rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var", "ext4"),
        ("/home/me", "nfs4"),
        ("/home/me/with space/x", "xfs"),
        ("/homes", "ext4"),
        ("/odd", "fuse.sshfs"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(path, kind, tmp_path, monkeypatch):
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(folders, "_MOUNTS", tmp_path / "mounts")
    assert folders.file_system_of(folders.Path(path)) == kind


@pytest.mark.parametrize("mounts", ["22 1 0:50 / / rw - nfs4 server:/ rw\n", None])
def test_network_and_unknown_file_systems_are_refused(tmp_path, monkeypatch, mounts):
    if mounts is not None:
        (tmp_path / "mounts").write_text(mounts)
    monkeypatch.setattr(folders, "_MOUNTS", tmp_path / "mounts")
    with pytest.raises(CacheFolderError, match="not known to be local"):
        private_folder(tmp_path / "cache")


@pytest.mark.parametrize("name", ["arrays", "column"])
def test_a_note_whose_bytes_somebody_took_away_does_not_keep_others_from_writing(folder, name):
    data_of(folder, name).unlink()  # what tidies up caches goes by how old files are
    assert read_arrays(folder, name) is None
    assert not is_there(folder, name)
