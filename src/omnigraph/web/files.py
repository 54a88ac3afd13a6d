"""What the page consists of: bytes, packed once, under names that no request can leave."""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

START: Final = "index.html"
_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}

HEADERS: Final[tuple[tuple[str, str], ...]] = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "font-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
        "base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-cache"),
)
"""What a browser lets the page do: run its own files, ask its own server, be in nobody's frame."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    body: bytes
    packed: bytes
    """The same by gzip, or nothing where that is no smaller."""
    content_type: str
    tag: str
    """Changes with the bytes; what a browser already has is not sent again."""


@functools.cache
def page_files() -> Mapping[str, PageFile]:
    """Return every file of the page by its path below it."""
    return MappingProxyType(dict(_found(files("omnigraph.web"), "")))


def _found(folder: Traversable, path: str) -> Iterator[tuple[str, PageFile]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _found(one, f"{path}{one.name}/")
            continue
        kind = _KINDS.get(one.name.rpartition(".")[2])
        if kind is None:  # Python, and what only builds need
            continue
        body = one.read_bytes()
        packed = gzip.compress(body, 9, mtime=0)
        tag = hashlib.sha256(body).hexdigest()[:16]
        yield path + one.name, PageFile(body, packed if len(packed) < len(body) else b"", kind, tag)
