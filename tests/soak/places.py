"""Where the graph of a soak lives: a disk, or a real S3 server behind a line that can be cut."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.graph import GraphOptions
from omnigraph.storage.options import Retention, S3Options, StorageOptions
from tests.support.s3 import BUCKET, S3Server, running_s3
from tests.support.slow_line import Line, slow_line

FLOOR_S = 4.0
LEASE_S = 6.0


@dataclass
class Place:
    """One graph's address, how to reach it, and what may be done to what it rests on."""

    uri: str
    cache: str
    """Where its processes keep derived files for each other."""
    s3: dict[str, Any] = field(default_factory=dict)
    server: S3Server | None = None
    line: Line | None = None


def graph_options(s3: dict[str, Any], clock: Any = None, cache: str | None = None) -> GraphOptions:
    """Return options under which waiting, forgetting and taking over happen within seconds."""
    storage = StorageOptions(
        s3=S3Options(**s3),
        durability="os" if s3 else "full",
        lock_timeout_s=60.0,
        lease_ttl_s=LEASE_S,
        retention=Retention(floor_s=FLOOR_S, manifest_versions=16, orphan_age_s=3600.0),
    )
    more = {} if clock is None else {"clock": clock}
    return GraphOptions(storage=storage, embedder=None, cache=cache, **more)


@contextlib.contextmanager
def place(kind: str) -> Iterator[Place]:
    """Yield somewhere to put a graph until the block ends."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-soak-", ignore_cleanup_errors=True) as base:
        if kind == "disk":
            yield Place(f"{base}/graph", f"{base}/derived")
            return
        with running_s3(Path(base)) as server, slow_line(server.endpoint) as line:
            s3 = server.options() | {"endpoint": line.endpoint, "allow_http": True}
            yield Place(f"s3://{BUCKET}/soak", f"{base}/derived", s3, server, line)
