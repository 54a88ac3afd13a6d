"""What a caller may decide about an open graph."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.embedders.local import LocalEmbedder
from omnigraph.engine.read.context import Limits
from omnigraph.engine.search.embedder import Embedder
from omnigraph.pipeline.model import PipelineOptions
from omnigraph.storage.options import DEFAULTS, StorageOptions

MEMORY_SHARE = 4
"""Resident tables may take this fraction of the machine's memory unless told otherwise."""


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Everything a caller may decide about an open graph."""

    storage: StorageOptions = DEFAULTS
    image_bytes: int = field(default_factory=lambda: _machine_memory() // MEMORY_SHARE)
    """Memory for resident tables; what does not fit is read again."""
    limits: Limits = field(default_factory=Limits)
    """Limits of every query, unless the call brings its own."""
    clock: Clock = SYSTEM_CLOCK
    pipeline: PipelineOptions = field(default_factory=PipelineOptions)
    """Defaults of loads."""
    embedder: Embedder | None = field(default_factory=LocalEmbedder)
    """Turns text into vectors; None leaves `@embed` columns alone and refuses text in nearest."""
