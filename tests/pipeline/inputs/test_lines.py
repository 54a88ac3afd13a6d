"""Cutting files into lines: every line once, in whichever range it starts."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.pipeline.inputs import lines
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.lines import read_blocks


def lines_of(path, compression=None, start=0, end=None, max_line=1 << 20, block=7):
    """All lines of a range, with offsets, however the blocks fall."""
    found = []
    blocks = read_blocks(
        InputFile(str(path)), compression, start, end, max_line_bytes=max_line, block_bytes=block
    )
    for one in blocks:
        at = one.offset
        assert one.data.endswith(b"\n")
        for line in one.data[:-1].split(b"\n"):
            found.append((at, "too long" if one.too_long else line))
            at += len(line) + 1
    return found


TEXTS = st.lists(st.binary(max_size=12).map(lambda one: one.replace(b"\n", b"n")), max_size=12)


@settings(max_examples=150)
@given(texts=TEXTS, ending=st.booleans(), split=st.integers(1, 40), block=st.integers(1, 30))
def test_ranges_that_cover_a_file_read_every_line_once(
    tmp_path_factory, texts, ending, split, block
):
    path = tmp_path_factory.mktemp("lines") / "x"
    data = b"\n".join(texts) + (b"\n" if ending else b"")
    path.write_bytes(data)
    whole = lines_of(path, block=block)
    expected = data[:-1].split(b"\n") if data.endswith(b"\n") else data.split(b"\n")
    if data.startswith(b"\xef\xbb\xbf"):
        expected[0] = b"   " + expected[0][3:]
    assert [line for _, line in whole] == (expected if data else [])
    parts = []
    for start in range(0, len(data), split):
        parts += lines_of(path, start=start, end=start + split, block=block)
    assert parts == whole


@pytest.mark.parametrize("block", [3, 50])
def test_a_line_that_is_too_long_is_passed_over(tmp_path, block):
    path = tmp_path / "x"
    path.write_bytes(b"a\n" + b"b" * 100 + b"\nc\n")
    found = lines_of(path, max_line=20, block=block)
    kept = [(at, line) for at, line in found if line != b"b" * 100]
    assert kept in ([(0, b"a"), (2, "too long"), (103, b"c")], [(0, b"a"), (103, b"c")])
    if block == 3:
        assert (2, "too long") in found


def test_archives_of_several_members_are_read_to_the_end(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    assert [line for _, line in lines_of(path, "gzip", block=1 << 16)] == [b"a", b"b"]


class Counting:
    """A file that counts the bytes it gave."""

    def __init__(self, path):
        self._file = path.open("rb")
        self.given = 0

    def read(self, size):
        found = self._file.read(size)
        self.given += len(found)
        return found

    def seek(self, to):
        return self._file.seek(to)

    def close(self):
        self._file.close()


@pytest.mark.parametrize("start", [0, 100, 4_000])
def test_a_range_inside_a_long_line_reads_no_further_than_itself(tmp_path, monkeypatch, start):
    path = tmp_path / "x"
    path.write_bytes(b"a\n" + b"b" * 100_000 + b"\nc\n")
    counting = Counting(path)
    monkeypatch.setattr(lines, "open_stream", lambda *_: counting)
    found = lines_of(path, start=start, end=start + 100, max_line=50, block=10)
    assert found == ([(0, b"a"), (2, "too long")] if start == 0 else [])
    assert counting.given <= 100 + 2 * 10
