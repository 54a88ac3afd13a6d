"""Refusing a graph that was moved or copied while it has branches.

A branch of a Lance dataset records the absolute address of the dataset it was forked from. In a
copy it would silently read the original's files; in a moved graph it would fail later. Graphs
without branches may be moved freely.
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.errors import FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.rows import GRAPH_ROOT_KEY
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
                        hint=f"move it back to {stored} or make that path a link to {here}; "
                        "to copy a graph, export and load it",
                    )


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
