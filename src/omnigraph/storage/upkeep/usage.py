"""Disk use of a graph, per dataset and branch, from object sizes alone."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.api.upkeep import DiskUse
from omnigraph.base.ids import TableKey
from omnigraph.storage.files import layout
from omnigraph.storage.kernel import Kernel

_ROOMS = {
    layout.DATA_DIR: "data",
    layout.DELETIONS_DIR: "data",
    layout.VERSIONS_DIR: "versions",
    layout.TRANSACTIONS_DIR: "versions",
    layout.INDICES_DIR: "indexes",
}


def disk_usage(kernel: Kernel, tables: Mapping[str, TableKey]) -> list[DiskUse]:
    """Return the bytes every dataset and branch takes; small objects count under their folder.

    `tables` says which datasets are tables of a live branch.
    """
    sums: dict[tuple[str, str | None], dict[str, int]] = {}
    for info in kernel.objects.list(""):
        location, branch, room = _place(info.name)
        slot = sums.setdefault((location, branch), {})
        slot[room] = slot.get(room, 0) + info.size
    return [
        DiskUse(location, branch, **rooms, table_key=tables.get(location))
        for (location, branch), rooms in sorted(
            sums.items(), key=lambda item: (item[0][0], item[0][1] or "")
        )
    ]


def _place(name: str) -> tuple[str, str | None, str]:
    """Return the dataset, the branch and the room an object belongs to."""
    parts = name.split("/")
    depth = 2 if parts[0] in layout.TABLE_ROOMS else 1
    location, inside = "/".join(parts[:depth]), parts[depth:]
    branch = None
    if inside and inside[0] == layout.TREE_DIR:
        rooms = [at for at, part in enumerate(inside) if part in _ROOMS]
        end = rooms[-1] if rooms else len(inside) - 1
        branch, inside = "/".join(inside[1:end]), inside[end:]
    room = _ROOMS.get(inside[0], "other") if inside else "other"
    return location, branch, room
