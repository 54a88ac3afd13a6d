"""How a CSV file is written: what stands between its cells, and which encoding it is in.

What is not said is seen from the beginning of the file. A byte order mark and the separators of a
header are facts; which of the many one-byte encodings a file is in could only be guessed, so
anything without a mark is UTF-8 until somebody says otherwise.
"""

from __future__ import annotations

import codecs
import logging
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.errors import BadRequestError
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.lines import compression_of, open_stream
from omnigraph.pipeline.model import Columns

_log = logging.getLogger("omnigraph.load")
_HEAD_BYTES = 1 << 16
_UTF8 = "utf-8"
_MARKS = {codecs.BOM_UTF8: _UTF8, codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WORDS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_NAMED = {word: mark for mark, word in _WORDS.items()} | {"\\t": "\t"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What stands between the cells of a file, and what its bytes mean."""

    delimiter: str = ","
    encoding: str = _UTF8

    def __str__(self) -> str:
        between = _WORDS.get(self.delimiter, f"'{self.delimiter}'")
        return f"cells between {between}s, text in {self.encoding.upper()}"


PLAIN = Dialect()


def delimiter_named(text: str) -> str:
    """Return the character a word or a character stands for.

    Raises:
        BadRequestError: it is none that can stand between cells.
    """
    found = _NAMED.get(text.lower(), text)
    if len(found) != 1 or not found.isascii() or found.isalnum() or found in '"\r\n\0':
        raise BadRequestError(
            f"'{text}' cannot stand between cells",
            hint="one character: comma, semicolon, tab and bar have names",
        )
    return found


def encoding_named(text: str) -> str:
    """Return the usual name of an encoding of text.

    Raises:
        BadRequestError: Python knows none of that name.
    """
    try:
        "".encode(text)  # which refuses codecs that are not of text
        return codecs.lookup(text).name
    except (LookupError, ValueError):
        raise BadRequestError(
            f"no encoding is called '{text}'",
            hint="for example utf-8, utf-16, windows-1252 or latin-1",
        ) from None


def dialect_of(file: InputFile, columns: Columns) -> Dialect:
    """Return how a file is written: as its columns say, else as its beginning shows.

    Raises:
        OSError: it cannot be read.
    """
    with open_stream(file, compression_of(file)) as opened:
        head = bytes(opened.read(_HEAD_BYTES))
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    encoding = columns.encoding or marked or _UTF8
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    return Dialect(columns.delimiter or _delimiter_of(text), encoding)


def tell(file: InputFile, dialect: Dialect, columns: Columns) -> None:
    """Note how a file is read if that is unusual and nobody said it."""
    said = Dialect(columns.delimiter or PLAIN.delimiter, columns.encoding or PLAIN.encoding)
    if dialect != said:
        _log.warning("%s: %s", file.name, dialect)


def opened_csv(file: InputFile, dialect: Dialect) -> pa.NativeFile:
    """Open a file as UTF-8, whatever it is written in."""
    plain = open_stream(file, compression_of(file))
    if dialect.encoding == _UTF8:
        return plain
    return pa.transcoding_input_stream(plain, dialect.encoding, _UTF8)


def _delimiter_of(text: str) -> str:
    """Return what stands most often between the names of a header; a comma if nothing does."""
    counts, quoted = dict.fromkeys(_WORDS, 0), False
    for one in text:
        if one == '"':
            quoted = not quoted
        elif not quoted and one in "\r\n":
            break
        elif not quoted and one in counts:
            counts[one] += 1
    return max(counts, key=lambda mark: counts[mark])
