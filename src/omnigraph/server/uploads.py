"""Files that were sent as a tar, unpacked so that a load reads them, by the names they have."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from omnigraph.server.problems import bad_request

_LINES: Final = "lines"
_MAPPING: Final = "@mapping"
_MOST: Final = 10_000


class NamedBytes:
    """An open file under the name that messages call it by."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.read = file.read
        self.name = name


@dataclass(slots=True)
class Unpacked:
    """What was sent: what a load is to read, and a file that says what columns are called."""

    data: list[Any] = field(default_factory=list)
    mapping: Path | None = None
    count: int = 0


def unpacked(spool: IO[bytes], folder: Path) -> Unpacked:
    """Return what a load is to read: files in `folder`, each in one of its own by its number.

    A member is called `<what>/<number>/<name>`; what is `lines`, or the type its rows are of. Only
    the last word of a name becomes one here, so nothing is written anywhere else.

    Raises:
        ProblemError: it is no such tar.
    """
    found = Unpacked()
    try:
        with tarfile.open(fileobj=spool, mode="r:") as tar:
            for member in tar:
                what, path = _member(tar, member, folder / str(found.count))
                found.count += 1
                if what == _MAPPING:
                    found.mapping = path
                else:
                    found.data.append(str(path) if what == _LINES else {what: str(path)})
                if found.count > _MOST:
                    raise bad_request(f"more than {_MOST} files are sent at once")
    except tarfile.TarError:
        raise bad_request("the body is no tar of files") from None
    if not found.data:
        raise bad_request("the tar holds no files")
    return found


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> tuple[str, Path]:
    what, _, rest = member.name.partition("/")
    _, _, name = rest.partition("/")
    word = PurePosixPath(name).name
    plain = member.isfile() and not member.issparse()  # holes would become bytes on the disk
    content = tar.extractfile(member) if plain else None
    if content is None or not what or word in ("", ".", "..") or "\0" in word:
        raise bad_request(f"{member.name!r} is no file of a load")
    folder.mkdir()
    path = folder / word
    with path.open("wb") as target:
        shutil.copyfileobj(content, target, 1 << 20)
    return what, path
