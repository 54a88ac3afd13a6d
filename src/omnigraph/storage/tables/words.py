"""The words of a text index: what can be looked up in it, so that nobody has to read the texts.

Lance cuts, folds and stems words in its own way, which is not ours. So an index is built that only
cuts, and nowhere but where we cut, too: each of its words holds whole words of ours. Which of them
hold a wanted one is found by looking at all words of the index, and then Lance is asked for exactly
these. Lance keeps words as a finite state transducer (format 3 of the `fst` crate), and offers no
way to list them; it is read here, backwards from its root, and a guard test holds both together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from lance.file import LanceFileReader

from omnigraph.storage.files import layout
from omnigraph.storage.tables.deletions import base_home
from omnigraph.storage.tables.failures import DamagedError, lance_errors
from omnigraph.storage.tables.handle import Handle, Tables

ONLY_CUT: Final[dict[str, Any]] = {
    "base_tokenizer": "simple",
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
    "with_position": False,
}
"""How a text index is built whose words hold ours."""

_TOKENS = "_tokens.lance"
_FST = "_token_fst_bytes"
_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""Bytes that a state of one way names by their number, from 1 on."""
_INDEXED_FROM = 32
"""A state of more ways than this has an index of them, of 256 bytes."""


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An index of the texts of one column, and the fragments whose texts it does not know."""

    column: str
    folders: tuple[str, ...]
    """Where its segments lie, relative to the graph."""
    uncovered: tuple[int, ...]
    uncovered_rows: int


def text_index(handle: Handle, column: str) -> TextIndex | None:
    """Return the index of a column whose words hold ours; None if there is none like that."""
    with lance_errors(f"looking at the indexes of {handle}"):
        for index in handle.dataset.describe_indices():
            if list(index.field_names) != [column] or str(index.index_type).upper() != "INVERTED":
                continue
            if any(index.details.get(word) != wanted for word, wanted in ONLY_CUT.items()):
                continue
            covered = {number for part in index.segments for number in part.fragment_ids}
            parts = [one.metadata for one in handle.dataset.get_fragments()]
            left = [one for one in parts if one.id not in covered]
            folders = (
                f"{base_home(handle, part.base_id)}/{layout.INDICES_DIR}/{part.uuid}"
                for part in index.segments
            )
            rows = sum(int(one.num_rows) for one in left)
            return TextIndex(column, tuple(folders), tuple(one.id for one in left), rows)
    return None


def words_of(tables: Tables, index: TextIndex) -> Iterator[str]:
    """Yield every word of an index, once per part of it."""
    for folder in index.folders:
        for info in tables.objects.list(folder):
            if info.name.endswith(_TOKENS):
                yield from _words_in(tables, info.name)


def _words_in(tables: Tables, name: str) -> Iterator[str]:
    with lance_errors(f"reading the words of '{name}'"):
        reader = LanceFileReader(
            tables.objects.root.join(name), storage_options=tables.storage_options
        )
        rows = reader.read_all().to_table()
    if _FST not in rows.column_names:
        raise DamagedError(f"'{name}' does not hold words as this program knows them")
    for data in rows[_FST].to_pylist():
        try:
            yield from (word.decode() for word in keys_of(data))
        except (IndexError, UnicodeDecodeError) as error:
            raise DamagedError(f"the words of '{name}' cannot be read: {error}") from error


def keys_of(data: bytes) -> Iterator[bytes]:
    """Yield the keys of a transducer."""
    pending = [(int.from_bytes(data[-12:-4], "little"), b"")]
    while pending:
        at, word = pending.pop()
        is_final, ways = _state(data, at)
        if is_final:
            yield word
        pending += [(after, word + bytes((byte,))) for byte, after in ways]


def _state(data: bytes, at: int) -> tuple[bool, list[tuple[int, int]]]:
    """Return whether a key ends at a state, and the bytes that lead on, each with where to."""
    if at == 0:
        return True, []
    head = data[at]
    if head >> 6 < 2:
        return _state_of_many(data, at)
    number = head & 63
    at_sizes = at - (0 if number else 1)
    byte = _COMMON[number - 1] if number else data[at_sizes]
    if head >> 6 == 3:  # the state written right before is the next
        return False, [(byte, at_sizes - 1)]
    sizes = data[at_sizes - 1]
    width, end = sizes >> 4, at_sizes - 1 - (sizes >> 4) - (sizes & 15)
    return False, [(byte, _target(data, at_sizes - 1 - width, width, end))]


def _state_of_many(data: bytes, at: int) -> tuple[bool, list[tuple[int, int]]]:
    is_final, count, at_sizes = bool(data[at] & 64), data[at] & 63, at - 1
    if count == 0:
        count, at_sizes = data[at - 1], at - 2
        count = 256 if count == 1 else count
    sizes = data[at_sizes]
    width, output = sizes >> 4, sizes & 15
    inputs = at_sizes - (256 if count > _INDEXED_FROM else 0)
    targets = inputs - count
    end = targets - count * (width + output) - (output if is_final else 0)
    return is_final, [
        (data[inputs - number - 1], _target(data, targets - (number + 1) * width, width, end))
        for number in range(count)
    ]


def _target(data: bytes, at: int, width: int, end: int) -> int:
    back = int.from_bytes(data[at : at + width], "little")
    return end - back if back else 0


def rows_of_fragments(handle: Handle, numbers: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """Return all rows of some fragments."""
    with lance_errors(f"reading fragments of {handle}"):
        parts = [handle.dataset.get_fragment(number) for number in numbers]
        known = [part for part in parts if part is not None]
        return handle.dataset.scanner(columns=list(columns), fragments=known).to_table()
