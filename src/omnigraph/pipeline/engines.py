"""Which engine runs a load, and why."""

from __future__ import annotations

from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self

from omnigraph.errors import BadRequestError
from omnigraph.pipeline.model import LoadOptions
from omnigraph.pipeline.runner import InlineRunner, Runner

if TYPE_CHECKING:
    from omnigraph.pipeline.spark import OwnSpark

_MIB = 1 << 20


class Engines:
    """Starts engines when they are needed and stops what it started.

    `spark` is a SparkSession or SparkContext of the caller, or `SparkSettings` for one of our own.
    """

    def __init__(self, options: LoadOptions, spark: object = None) -> None:
        self._options = options
        self._spark = spark
        self._own: OwnSpark | None = None

    def choose(self, total_bytes: int) -> tuple[Runner, str]:
        """Return who runs a load of so many bytes, and why.

        Raises:
            BadRequestError: Spark is asked for and not installed.
        """
        shown, limit = total_bytes / _MIB, self._options.spark_above_bytes / _MIB
        match self._options.engine:
            case "inline":
                return InlineRunner(), "asked for"
            case "spark":
                return self._spark_runner(), "asked for"
            case "auto" if self._spark is not None:
                return self._spark_runner(), "a Spark session or master is given"
            case "auto" if total_bytes <= self._options.spark_above_bytes:
                return InlineRunner(), f"{shown:.1f} MiB is not above {limit:.0f} MiB"
            case "auto" if not _has_spark():
                return InlineRunner(), f"{shown:.1f} MiB, but pyspark is not installed"
            case "auto":
                return self._spark_runner(), f"{shown:.1f} MiB is above {limit:.0f} MiB"

    def _spark_runner(self) -> Runner:
        if not _has_spark():
            raise BadRequestError(
                "pyspark is not installed", hint='pip install "omnigraph[spark]", or load inline'
            )
        from omnigraph.pipeline.spark import (
            OwnSpark,
            SparkRunner,
            SparkSettings,
            active_context,
            context_of,
        )

        if self._spark is not None and not isinstance(self._spark, SparkSettings):
            return SparkRunner(context_of(self._spark))
        running = active_context()
        if running is not None:
            return SparkRunner(running)
        self._own = OwnSpark(SparkSettings() if self._spark is None else self._spark)
        return SparkRunner(self._own.context())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._own is not None:
            self._own.stop()


def _has_spark() -> bool:
    return find_spec("pyspark") is not None
