"""What a caller may decide about an open graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from os import PathLike
from types import NoneType
from typing import Literal

from omnigraph.base.budget import Limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.memory import machine_memory
from omnigraph.config.stored import StoredFiles
from omnigraph.engine.search.embedder import Embedder
from omnigraph.errors import BadRequestError
from omnigraph.pipeline.model import PipelineOptions
from omnigraph.storage.options import DEFAULTS, StorageOptions

AUTO = "auto"
_WORDS = {NoneType: "None", Real: "a number", str: "text", PathLike: "a path"}
MEMORY_SHARE = 4
"""Resident tables may take this fraction of the machine's memory unless told otherwise."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Everything a caller may decide about an open graph."""

    storage: StorageOptions = DEFAULTS
    image_bytes: int = field(default_factory=lambda: machine_memory() // MEMORY_SHARE)
    """Memory for resident tables; what does not fit is read again."""
    limits: Limits = field(default_factory=Limits)
    """Limits of every query. A call may bring its own; what nobody says is by the environment, or
    else by the machine."""
    job_limits: Limits = field(default_factory=Limits)
    """The same for whatever writes, loads, exports or embeds."""
    clock: Clock = SYSTEM_CLOCK
    pipeline: PipelineOptions = field(default_factory=PipelineOptions)
    """Defaults of loads."""
    embedder: Embedder | Literal["auto"] | None = "auto"
    """Turns text into vectors; "auto" is the one the environment asks for, or else the offline
    one. None leaves `@embed` columns alone and refuses text in nearest."""
    queries: StoredFiles = field(default_factory=StoredFiles)
    """Where the queries are that are called by their names."""
    cache: str | PathLike[str] | None = AUTO
    """Folder of derived files on a local disk, which processes map instead of building images;
    "auto" is by the environment, or else below the user's home. None keeps nothing on disk."""
    cache_bytes: int | None = None
    """How much of them; None is by the environment, or else 20 GiB."""
    slow_query_ms: float | None = None
    """A query or mutation that takes so many milliseconds is told to the log `omnigraph.slow`; None
    is never. What the environment says wins."""

    def __post_init__(self) -> None:
        """Look at what is read only much later, behind a query or after a commit.

        Raises:
            BadRequestError: an option is of another kind, or below 0.
        """
        kinds: dict[str, tuple[type, ...]] = {
            "storage": (StorageOptions,),
            "limits": (Limits,),
            "job_limits": (Limits,),
            "cache": (str, PathLike, NoneType),
            "image_bytes": (Real,),
            "cache_bytes": (Real, NoneType),
        }
        for name, wanted in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, wanted) or isinstance(value, bool):
                words = " or ".join(_WORDS.get(one, one.__name__) for one in wanted)
                raise BadRequestError(f"GraphOptions.{name} is {words}, not {value!r}")
            if isinstance(value, Real) and not float(value) >= 0:  # nan, too
                raise BadRequestError(
                    f"GraphOptions.{name} cannot be {value}", hint="a number of bytes, from 0 on"
                )
