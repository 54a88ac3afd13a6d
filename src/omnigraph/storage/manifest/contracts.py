"""Contract files: kept by what they say, stated by every commit, shown at the root.

The content of a file lies at `__contracts/<sha256>`, is never changed and never replaced; a head
row states which digest a name has, and history rows since when. So a branch or a past commit has
its own contract. The files at the root are a projection of main's head for people and tools:
nobody reads them to decide, an open for writing repairs them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from omnigraph.base.ids import OperationId
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import digest
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.tables.failures import DamagedError

log = logging.getLogger(__name__)


def keep_contents(kernel: Kernel, contents: Iterable[bytes]) -> None:
    """Store contents under their digests, durably; those that are there are left alone."""
    for content in contents:
        name = layout.contract(digest(content))
        if not kernel.objects.create(name, content) and kernel.objects.find(name) != content:
            kernel.objects.put(name, content)  # cut short by a power cut, before anyone named it


def find_contract(kernel: Kernel, name: str, stated: str) -> bytes | None:
    """Return the content a digest stands for, or None if nobody has it any more.

    Graphs before format 5 have it at the root, or where its commit staged it; what is found
    there counts only if it is what the digest says.
    """
    kept = kernel.objects.find(layout.contract(stated))
    if kept is not None and digest(kept) == stated:
        return kept
    for place in _old_places(kernel, name):
        content = kernel.objects.find(place)
        if content is not None and digest(content) == stated:
            return content
    return None


def read_contract(kernel: Kernel, name: str, stated: str) -> bytes:
    """Return the content a digest stands for.

    Raises:
        DamagedError: it is gone.
    """
    content = find_contract(kernel, name, stated)
    if content is None:
        raise DamagedError(
            f"the content of '{name}' that was recorded is gone",
            hint=f"restore '{layout.contract(stated)}' from a backup, or '{name}' from one that is "
            "older than such files",
        )
    return content


def _old_places(kernel: Kernel, name: str) -> Iterable[str]:
    yield name
    for info in kernel.objects.list(layout.STAGING_DIR):
        if info.name.endswith(f"/{name}"):
            yield info.name


def keep_stated_files(kernel: Kernel, files: Mapping[str, str]) -> None:
    """Keep what a graph before format 5, or an interrupted write to it, has elsewhere."""
    for name, stated in files.items():
        content = find_contract(kernel, name, stated)
        if content is None:
            log.warning("'%s' was changed or removed by hand and cannot be kept", name)
        else:
            keep_contents(kernel, [content])


def show_files(kernel: Kernel, files: Mapping[str, str]) -> list[str]:
    """Make the files at the root what main states; return those that were written anew."""
    written = []
    for name in differing_files(kernel, files):
        content = find_contract(kernel, name, files[name])
        if content is not None:  # else the graph has lost it, and what is there may be of use
            kernel.objects.put(name, content)
            written.append(name)
    return written


def differing_files(kernel: Kernel, files: Mapping[str, str]) -> list[str]:
    """Return the files at the root that are missing or not what main states."""
    names = [name for name in layout.CONTRACT_FILES if name in files]
    shown = kernel.objects.together(*(partial(kernel.objects.find, name) for name in names))
    return [
        name
        for name, content in zip(names, shown, strict=True)
        if content is None or digest(content) != files[name]
    ]


def drop_staged(kernel: Kernel, operation: OperationId) -> None:
    """Remove what a write of a program before format 5 staged, once its commit is settled."""
    kernel.objects.delete_prefix(layout.staging(operation))
