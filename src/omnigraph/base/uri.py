"""Where a graph lives: one parsed, normalised address for disk and object stores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadRequestError


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

    def join(self, *parts: str) -> str:
        """Return the address of an object below the root, in the form Lance accepts."""
        return "/".join((str(self), *parts))


def parse_uri(text: str | os.PathLike[str]) -> GraphUri:
    """Parse a plain path, `file://` or `s3://` address; dot segments are resolved lexically.

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
    scheme = urlsplit(text).scheme if "://" in text else ""
    match scheme:
        case "":
            return GraphUri("file", "", os.path.abspath(text))  # noqa: PTH100 - lexical, no disk
        case "file":
            parts = urlsplit(text)
            if parts.netloc not in ("", "localhost"):
                raise BadRequestError(f"'{text}' names a remote host", hint="use file:///path")
            return GraphUri("file", "", os.path.abspath(unquote(parts.path)))  # noqa: PTH100 - lexical
        case "s3":
            parts = urlsplit(text)
            if not parts.netloc or not parts.path.strip("/"):
                raise BadRequestError(
                    f"'{text}' lacks a bucket or prefix", hint="s3://bucket/prefix"
                )
            return GraphUri("s3", parts.netloc, parts.path.strip("/"))
        case _:
            raise BadRequestError(
                f"'{scheme}://' is not a storage address", hint="use a path, file:// or s3://"
            )
