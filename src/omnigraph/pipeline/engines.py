"""Which engine runs a load, and why."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from omnigraph.errors import BadRequestError
from omnigraph.pipeline.model import LoadOptions
from omnigraph.pipeline.runner import InlineRunner, Runner


class Engines:
    """Starts engines when they are needed and stops what it started."""

    def __init__(self, options: LoadOptions) -> None:
        self._options = options

    def choose(self, total_bytes: int) -> tuple[Runner, str]:
        """Return who runs a load of so many bytes, and why."""
        if self._options.engine == "spark":
            raise BadRequestError("this build cannot run on Spark", hint='use engine="inline"')
        return InlineRunner(), f"{total_bytes} bytes are read in this process"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing was started."""
