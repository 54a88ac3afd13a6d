"""Files a load reads, on disk and in object stores, as tasks open them: by name, anywhere."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.fs as pafs

from omnigraph.base.uri import is_on_s3, local_file
from omnigraph.errors import NotFoundError
from omnigraph.pipeline.model import InputError, UnreadableError
from omnigraph.storage.options import S3Options

S3 = "s3://"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file: a path, or with `s3` the bucket and key of an object."""

    path: str
    s3: S3Options | None = None
    shown: str = ""

    @property
    def name(self) -> str:
        """What messages call it: as it was given."""
        return self.shown or (self.path if self.s3 is None else f"{S3}{self.path}")

    @property
    def parts(self) -> PurePosixPath:
        """Its path, to look at name and suffixes."""
        return PurePosixPath(self.path)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        if self.s3 is None:
            return Path(self.path).stat().st_size
        with _s3_errors(self.name):
            return int(_s3_files(self.s3).get_file_info(self.path).size)

    @property
    def uploaded_ns(self) -> int:
        """When an object was put into its store."""
        assert self.s3 is not None
        with _s3_errors(self.name):
            return int(_s3_files(self.s3).get_file_info(self.path).mtime_ns)

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once and in order, as a named pipe."""
        return self.s3 is None and Path(self.path).exists() and not Path(self.path).is_file()

    def open(self) -> pa.NativeFile:
        """Open it for reading at any offset."""
        if self.s3 is None:
            return pa.OSFile(self.path, "rb")
        return _s3_files(self.s3).open_input_file(self.path)

    def mapped(self) -> pa.NativeFile:
        """Open it mapped into memory where that is possible."""
        return pa.memory_map(self.path) if self.s3 is None else self.open()

    def head(self, count: int) -> bytes:
        """Return its first bytes."""
        with _s3_errors(self.name), self.open() as file:
            return bytes(file.read(count))


class _s3_errors:  # noqa: N801 - used like a function
    """Turn failures of an object store into errors that name the object."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise UnreadableError(f"{self._name} cannot be read: {error}") from error


def find_files(text: str, s3: S3Options) -> Iterator[InputFile]:
    """Yield the files that a path, glob or folder means, by name.

    Raises:
        NotFoundError: there are none.
        InputError: a folder has no files a load can read, or nothing is named.
    """
    if not text:  # as a path it would be the folder one happens to be in
        raise InputError("the name of a file is empty", hint="name a file, a folder or a glob")
    if is_on_s3(text):
        yield from _find_objects(text.removeprefix(S3), s3)
        return
    path = local_path(text)
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise InputError(f"cannot read '{text[:100]}': {error.strerror}") from None
    if is_folder:
        yield from _known([_local(one) for one in path.iterdir() if one.is_file()], text)
    elif path.exists():
        yield _local(path)
    elif glob.has_magic(text):
        found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns too
        files = [Path(one) for one in found if not Path(one).is_dir()]
        if not files:
            raise NotFoundError(f"no file matches '{text}'")
        yield from map(_local, files)
    else:
        raise NotFoundError(f"file '{text}' not found")


def _local(path: Path) -> InputFile:
    """Return a file under a path that holds wherever a task runs."""
    return InputFile(str(path.absolute()), shown=str(path))


def _find_objects(name: str, s3: S3Options) -> Iterator[InputFile]:
    files = _s3_files(s3)
    shown = f"{S3}{name}"
    with _s3_errors(shown):
        if glob.has_magic(name):
            fixed = name[: next(at for at, one in enumerate(name) if one in "*?[")]
            folder = fixed.rpartition("/")[0]
            found = files.get_file_info(pafs.FileSelector(folder, recursive=True))
            names = [one.path for one in found if one.type == pafs.FileType.File]
            names = sorted(one for one in names if fnmatch.fnmatchcase(one, name))
            if not names:
                raise NotFoundError(f"no object matches '{shown}'")
            yield from (InputFile(one, s3) for one in names)
            return
        info = files.get_file_info(name.rstrip("/"))
        if info.type == pafs.FileType.File:
            yield InputFile(name, s3)
        elif info.type == pafs.FileType.Directory:
            inside = files.get_file_info(pafs.FileSelector(name.rstrip("/")))
            listed = [InputFile(one.path, s3) for one in inside if one.type == pafs.FileType.File]
            yield from _known(listed, shown)
        else:
            raise NotFoundError(f"file '{shown}' not found")


def _known(files: list[InputFile], folder: str) -> Iterator[InputFile]:
    known = sorted((one for one in files if is_known(one)), key=lambda one: one.path)
    if not known:
        raise InputError(
            f"{folder} has no data files", hint="looked for .jsonl, .parquet, .arrow, .csv"
        )
    yield from known


LINE_SUFFIXES = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".csv", ".tsv")


def is_known(file: InputFile) -> bool:
    """Whether a file's name says that a load can read it."""
    parts = plain_name(file)
    is_hidden = parts.name.startswith(".")  # what editors and file systems leave beside data
    return not is_hidden and parts.suffix.lower() in (*LINE_SUFFIXES, *TABLE_SUFFIXES)


def plain_name(file: InputFile) -> PurePosixPath:
    """Return the path of a file without what says that it is compressed."""
    return _plain(file.parts)


def plain_stem(name: str) -> str:
    """Return the type a file is called after.

    No name of a type has a dot: `edge.Knows.parquet` holds the edges where nodes share it.
    """
    return _plain(PurePosixPath(name)).stem.replace(".", ":", 1)


def _plain(path: PurePosixPath) -> PurePosixPath:
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path


def local_path(text: str) -> Path:
    """Return the path of a plain path or `file://` address."""
    found = local_file(text)
    if found is None:
        raise InputError(
            f"cannot read from '{text}'", hint="copy it to a file; paths, file:// and s3:// work"
        )
    return found


@lru_cache(maxsize=8)
def _s3_files(options: S3Options) -> pafs.S3FileSystem:
    """Return the way to an object store; one per process and set of options."""
    endpoint = options.endpoint or ""
    scheme, _, host = endpoint.partition("://")
    return pafs.S3FileSystem(
        access_key=options.access_key_id,
        secret_key=options.secret_access_key,
        session_token=options.session_token,
        region=options.region,
        scheme=scheme or "https",
        endpoint_override=host or None,
        force_virtual_addressing=options.virtual_hosted_style,
    )
