"""Where a graph lives: one parsed, normalised address for disk and object stores."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from omnigraph.errors import BadRequestError

_UNSPEAKABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and what stands for bytes that are no text."""

_S3 = "s3://"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class GraphUri:
    """A graph root: `scheme` is `file` or `s3`; `path` is absolute or the key prefix."""

    scheme: str
    bucket: str
    path: str

    @property
    def is_local(self) -> bool:
        """Whether the graph is on this machine's file system."""
        return self.scheme == "file"

    def __str__(self) -> str:
        return self.path if self.is_local else f"s3://{self.bucket}/{self.path}".rstrip("/")

    def has_inside(self, other: GraphUri) -> bool:
        """Whether another address is a place below this one, by whatever links it leads there."""
        if self.is_local:
            mine = Path(self.path).resolve()
            return other.is_local and mine in Path(other.path).resolve().parents
        is_same = (self.scheme, self.bucket) == (other.scheme, other.bucket)
        return is_same and other.path.startswith(f"{self.path}/")

    def join(self, *parts: str) -> str:
        """Return the address of an object below the root, in the form Lance accepts."""
        return "/".join((str(self), *parts))


def has_scheme(text: str) -> bool:
    """Whether a text is an address by its own word, not a path or a name.

    >>> has_scheme("s3://bucket/a"), has_scheme("team.omni")
    (True, False)
    """
    return "://" in text


def stands_alone(text: str) -> bool:
    """Whether an address means the same whatever folder it is read from."""
    return has_scheme(text) or text.startswith("/")


def is_on_s3(text: str) -> bool:
    """Whether an address is of an object store."""
    return text.startswith(_S3)


def is_on_server(text: str) -> bool:
    """Whether an address is of a server."""
    return text.startswith(("http://", "https://"))


def local_file(text: str) -> Path | None:
    """Return the path that a plain path or `file://` address means; None for any other address."""
    if not has_scheme(text):
        return Path(text).expanduser()
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path))


def parse_uri(text: str | os.PathLike[str]) -> GraphUri:
    """Parse a plain path, `file://` or `s3://` address; dot segments of a path are resolved.

    A `~` in front of a plain path is the home folder, as in a shell.

    >>> str(parse_uri("s3://bucket/a/b.omni/"))
    's3://bucket/a/b.omni'
    """
    if isinstance(text, os.PathLike):
        text = os.fspath(text)
    if not isinstance(text, str):
        raise BadRequestError(
            f"the graph address must be text or a path, not {type(text).__name__}"
        )
    if not text.strip():
        raise BadRequestError(
            "the graph address is empty", hint="pass a path or s3://bucket/prefix"
        )
    named = _SCHEME.match(text)
    scheme = "" if named is None else named[1].lower()
    match scheme:
        case "":
            return _on_disk(text, os.path.expanduser(text))  # noqa: PTH111 - nothing else changes
        case "file":
            parts = _split(text)
            if parts.netloc not in ("", "localhost"):
                raise BadRequestError(f"'{text}' names a remote host", hint="use file:///path")
            return _on_disk(text, unquote(parts.path))
        case "s3":
            parts = _split(text)
            if not parts.netloc or not parts.path.strip("/"):
                raise BadRequestError(
                    f"'{text}' lacks a bucket or prefix", hint="s3://bucket/prefix"
                )
            return GraphUri("s3", parts.netloc, _prefix(text, parts.path.strip("/")))
        case _:
            raise BadRequestError(
                f"'{scheme}://' is not a storage address", hint="use a path, file:// or s3://"
            )


def _on_disk(text: str, path: str) -> GraphUri:
    absolute = os.path.abspath(path)  # noqa: PTH100 - lexical, no disk
    # Lance takes what follows a ? for a query, and puts the files of branches elsewhere.
    if "?" in absolute or _UNSPEAKABLE.search(absolute):
        raise BadRequestError(
            f"{text!r} cannot hold a graph: its path has a ? or a control character",
            hint="choose another folder",
        )
    return GraphUri("file", "", absolute)


def _prefix(text: str, path: str) -> str:
    """Return a prefix of keys; stores have no folders, so nothing says what dots would mean."""
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise BadRequestError(
            f"{text!r} cannot hold a graph: a part of its prefix is empty, . or ..",
            hint="s3://bucket/prefix",
        )
    return path


def _split(text: str) -> SplitResult:
    """Take an address apart; what would be cut off as a query or a fragment is refused."""
    if "?" in text or "#" in text or _UNSPEAKABLE.search(text):
        raise BadRequestError(
            f"{text!r} has a ?, a # or a control character",
            hint="write %23 for # in a file:// path",
        )
    try:
        return urlsplit(text)
    except ValueError as error:  # brackets that stand for no network address
        raise BadRequestError(
            f"{text!r} is not an address: {error}", hint="use a path, file:// or s3://bucket/prefix"
        ) from error


def is_folder(path: Path) -> bool:
    """Whether there is a folder; a name that no file can have, or a barred way, leads to none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """Whether there is anything; see `is_folder`."""
    try:
        return path.exists()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether there is a file; see `is_folder`."""
    try:
        return path.is_file()
    except OSError:
        return False
