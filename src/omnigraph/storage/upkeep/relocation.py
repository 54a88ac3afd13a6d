"""Graphs that were moved or copied while they have branches: refused, until they are relocated.

A branch of a Lance dataset records the absolute address of the dataset it was forked from. In a
copy it would silently read the original's files; in a moved graph it would fail later. Graphs
without branches may be moved freely.
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.base.uri import GraphUri
from omnigraph.errors import FormatError, NotFoundError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.rows import GRAPH_ROOT_KEY
from omnigraph.storage.tables.addresses import with_addresses
from omnigraph.storage.tables.fork import base_addresses, list_branches
from omnigraph.storage.tables.handle import Handle


class MovedGraphError(FormatError):
    """Branches of this graph point to another place."""


def check_root(kernel: Kernel, manifest: Handle) -> None:
    """Return if every branch reads from this very graph; free unless the address differs.

    Raises:
        MovedGraphError: some branch reads from elsewhere.
    """
    stored = manifest.metadata.get(GRAPH_ROOT_KEY, "")
    here = str(kernel.root)
    if stored in ("", here) or _same_place(kernel, stored, here):
        return
    for location in _datasets(kernel):
        for branch in sorted(list_branches(kernel.objects, location)):
            for address in base_addresses(kernel.tables, location, branch):
                if not _is_inside(kernel, address, here):
                    raise MovedGraphError(
                        f"this graph was made at {stored}, and branch '{branch}' of {location} "
                        f"still reads from {address}",
                        hint=f"if nobody writes to it, `omnigraph relocate {here}` makes it a "
                        f"graph of its own; or move it back to {stored}, or make that a link",
                    )


def relocate(objects: Objects, here: GraphUri) -> list[str]:
    """Let every version of a graph read from where the graph is now; return which files changed.

    Each file is replaced in one step, so a relocation that was broken off is simply repeated.
    Nobody may write to the graph meanwhile.

    Raises:
        NotFoundError: there is no graph.
        MovedGraphError: a branch reads from what is no part of the graph.
    """
    names = [info.name for info in objects.list("")]
    if not any(name.startswith(f"{layout.MANIFEST}/{layout.VERSIONS_DIR}/") for name in names):
        raise NotFoundError(f"there is no graph at {here}")
    changed = []
    for name in names:
        if not is_version(name):
            continue
        data = objects.get(name)
        moved = at_home(name, data, here)
        if moved != data:
            objects.put(name, moved)
            changed.append(name)
    return changed


def is_version(name: str) -> bool:
    """Whether an object is the manifest of a version, the only kind that holds addresses."""
    return f"/{layout.VERSIONS_DIR}/" in name and layout.version_of_file(name) is not None


def at_home(name: str, data: bytes, home: GraphUri) -> bytes:
    """Return the manifest of a version as a graph at `home` has it.

    Raises:
        MovedGraphError: it reads from what is no part of the graph.
    """
    location = name.partition(f"/{layout.VERSIONS_DIR}/")[0].partition(f"/{layout.TREE_DIR}/")[0]

    def moved(address: str) -> str:
        _, found, inside = f"{address.rstrip('/')}/".rpartition(f"/{location}/")
        if not found or not (inside == "" or inside.startswith(f"{layout.TREE_DIR}/")):
            raise MovedGraphError(
                f"'{name}' reads from {address}, which is no part of the graph",
                hint="restore the graph from a backup, or export what can be read",
            )
        return f"{home}/{location}/{inside}".rstrip("/")

    return with_addresses(name, data, moved, (GRAPH_ROOT_KEY, str(home)))


def _datasets(kernel: Kernel) -> list[str]:
    """Return every dataset that has branches."""
    marker = f"/{layout.REFS_DIR}/"
    return sorted(
        {info.name.partition(marker)[0] for info in kernel.objects.list("") if marker in info.name}
    )


def _same_place(kernel: Kernel, stored: str, here: str) -> bool:
    return kernel.root.is_local and Path(stored).resolve() == Path(here).resolve()


def _is_inside(kernel: Kernel, address: str, here: str) -> bool:
    if not kernel.root.is_local:
        return address.startswith(here)
    path = "/" + address.removeprefix("file://").lstrip("/")
    return Path(path).resolve().is_relative_to(Path(here).resolve())
