"""What a load is given, as one stream of files: a tar that is made while it is sent.

Files go as they are and frames as Arrow, so that the server reads them as a local graph would. A
member is called `<what>/<number>/<name>`: what is `lines`, or the key of a type.
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from omnigraph.base.uri import has_scheme
from omnigraph.errors import BadRequestError, NotFoundError, StorageError
from omnigraph.pipeline.inputs.flat import plain_value
from omnigraph.pipeline.inputs.mapping import asked_columns, mapping_text

_PIECE: Final = 1 << 18
_SPOOL: Final = 8 << 20
_LINES: Final = "lines"
MAPPING: Final = "@mapping"
"""What a member is that says how the columns of the others are called."""
_TABLES: Final = (".parquet", ".pq", ".arrow", ".feather", ".csv")


@dataclass(frozen=True, slots=True)
class Member:
    """One file to send; opened when its turn has come."""

    what: str
    name: str
    size: int
    open: Callable[[], IO[bytes]]
    release: Callable[[], None] = lambda: None
    """Lets go of a copy."""


@contextlib.contextmanager
def sent(data: Any) -> Iterator[list[Member]]:  # noqa: ANN401 - as a local load
    """Give the files that a load is given; streams and frames are copied, to be read again.

    Raises:
        NotFoundError: a file does not exist.
        BadRequestError: something cannot be sent.
    """
    members: list[Member] = []
    try:
        members.extend(_members(data))
        yield members
    finally:
        for one in members:
            one.release()


def _members(data: object) -> Iterator[Member]:
    match data:
        case "-":
            yield _copied(_LINES, "<stdin>", sys.stdin.buffer)
        case str() | Path():
            for path in _files(str(data)):
                yield _file(_what(path), path)
        case bytes():
            yield _copied(_LINES, "<bytes>", io.BytesIO(data))
        case Mapping():
            for word, given in data.items():
                yield from _typed(str(word), given)
        case list() | tuple():
            for one in data:
                yield from _members(one)
        case _ if hasattr(data, "read"):
            yield _copied(_LINES, str(getattr(data, "name", "<stream>")), data)
        case _:
            raise BadRequestError(
                f"cannot load a {type(data).__name__}",
                hint='pass paths, an open file, JSON lines as bytes, or {"Type": table}',
            )


def _typed(word: str, given: object) -> Iterator[Member]:
    if isinstance(given, list | tuple) and given and isinstance(given[0], Mapping):
        yield _objects(word, given)
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _typed(word, one)
    elif isinstance(given, str | Path):
        for path in _files(str(given)):
            yield _file(word, path)
    else:
        yield _frame(word, given)


def _objects(word: str, rows: Sequence[Any]) -> Member:
    try:
        text = json.dumps(list(rows), default=plain_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(f"<{word}>: {error}") from None
    return _copied(word, f"<{word}>.json", io.BytesIO(text.encode()))


def called(mapping: str | Path | None, columns: Mapping[str, str] | None) -> Iterator[Member]:
    """Yield the file that says what columns are called, if anything does.

    Raises:
        NotFoundError: there is no such mapping file.
        ConfigError: it says something that cannot be.
    """
    if mapping is not None or columns:
        text = mapping_text(asked_columns(mapping, columns))
        yield _copied(MAPPING, "mapping.yaml", io.BytesIO(text.encode()))


def _files(text: str) -> list[Path]:
    if has_scheme(text):
        raise BadRequestError(
            f"'{text}' is not a file of this machine", hint="a server loads what is sent to it"
        )
    path = Path(text).expanduser()
    if path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.is_file())
    elif path.exists():
        found = [path]
    else:
        found = sorted(Path(one) for one in glob.glob(text, recursive=True))  # noqa: PTH207 - absolute ones, too
    if not found:
        raise NotFoundError(f"file '{text}' not found")
    return found


def _what(path: Path) -> str:
    return path.stem.split(".")[0] if path.suffix.lower() in _TABLES else _LINES


def _file(what: str, path: Path) -> Member:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise StorageError(f"'{path}' cannot be read: {error.strerror}") from error
    return Member(what, str(path), size, lambda: path.open("rb"))


def _copied(what: str, name: str, stream: Any) -> Member:  # noqa: ANN401 - anything with `read`
    spool = tempfile.SpooledTemporaryFile(_SPOOL)  # noqa: SIM115 - read as often as it is sent
    while piece := stream.read(_PIECE):
        spool.write(piece.encode() if isinstance(piece, str) else bytes(memoryview(piece)))
    return _spooled(what, name, spool)


def _spooled(what: str, name: str, spool: IO[bytes]) -> Member:
    size = spool.tell()

    def again() -> IO[bytes]:
        spool.seek(0)
        return _Kept(spool)  # type: ignore[return-value] # all that is asked of it is `read`

    return Member(what, name, size, again, spool.close)


class _Kept:
    """A spool that stays open when it was sent: it may have to be sent again."""

    def __init__(self, spool: IO[bytes]) -> None:
        self.read = spool.read

    def close(self) -> None:
        """Leave it open."""


def _frame(word: str, frame: Any) -> Member:  # noqa: ANN401 - any kind of table
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if not isinstance(frame, pa.Table):
        if not hasattr(frame, "__arrow_c_stream__"):
            raise BadRequestError(
                f"cannot load a {type(frame).__name__} as a table",
                hint="pass a pandas or polars DataFrame or an Arrow table",
            )
        frame = pa.table(frame)
    spool = tempfile.SpooledTemporaryFile(_SPOOL)  # noqa: SIM115 - read as often as it is sent
    plain = frame.unify_dictionaries().replace_schema_metadata()
    with pa.ipc.new_file(spool, plain.schema) as writer:
        writer.write_table(plain)
    spool.seek(0, io.SEEK_END)
    return _spooled(word, f"<{word}>.arrow", spool)


def tar_of(members: list[Member]) -> Iterator[bytes]:
    """Yield the members as a tar, piece by piece."""
    for number, member in enumerate(members):
        info = tarfile.TarInfo(f"{member.what}/{number}/{member.name.strip('/')}")
        info.size = member.size
        yield info.tobuf(tarfile.PAX_FORMAT)
        left, source = member.size, member.open()
        try:
            while left:
                piece = source.read(min(_PIECE, left))
                if not piece:
                    raise StorageError(f"'{member.name}' became shorter while it was sent")
                left -= len(piece)
                yield piece
        finally:
            source.close()
        yield b"\0" * (-member.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)
