"""How much memory this process may use: that of the machine, or of the container it runs in."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_CGROUP_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


@cache
def machine_memory() -> int:
    """Return the bytes of memory there are for this process."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *(limit for file in _CGROUP_FILES if (limit := _limit_in(file)))])


def _limit_in(file: Path) -> int | None:
    """Return the limit a file states; `max`, and a file that is not there, state none."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
