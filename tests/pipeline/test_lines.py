"""Cutting files into lines: every line once, in whichever range it starts."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.pipeline.files import InputFile
from omnigraph.pipeline.lines import read_blocks


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
