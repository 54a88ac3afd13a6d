"""Which engine runs a load, and why."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from omnigraph.base.closing import Closing
from omnigraph.base.extras import MissingExtraError
from omnigraph.base.runner import InlineRunner, Runner
from omnigraph.base.uri import GraphUri
from omnigraph.errors import BadRequestError
from omnigraph.pipeline.model import LoadOptions, SparkSettings
from omnigraph.pipeline.run.spark import (
    OwnSpark,
    SparkRunner,
    active_context,
    context_of,
    session_of,
)

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who runs tasks, and why."""

    runner: InlineRunner | SparkRunner
    reason: str


class Engines(Closing):
    """Starts engines when they are needed and stops what it started.

    `spark` is a SparkSession or SparkContext of the caller, or `SparkSettings` for one of our own;
    `default` are the settings of one that size alone asks for.
    Where Spark is certain to be needed it starts at once, while the caller looks at the input.
    """

    def __init__(
        self, options: LoadOptions, spark: object = None, default: SparkSettings | None = None
    ) -> None:
        self._options = options
        self._spark = spark
        self._default = default or SparkSettings()
        self._own: OwnSpark | None = None

    def choose(self, total_bytes: int) -> Chosen:
        """Return who runs a load of so many bytes.

        Raises:
            MissingExtraError: Spark is asked for and not installed.
        """
        shown, limit = total_bytes / _MIB, self._options.spark_above_bytes / _MIB
        match self._options.engine:
            case "inline":
                return Chosen(InlineRunner(), "asked for")
            case "spark":
                return Chosen(self._spark_runner(), "asked for")
            case "auto" if self._spark is not None:
                return Chosen(self._spark_runner(), "a Spark session or master is given")
            case "auto" if total_bytes <= self._options.spark_above_bytes:
                return Chosen(InlineRunner(), f"{shown:.1f} MiB is not above {limit:.0f} MiB")
            case "auto" if not _has_spark():
                return Chosen(InlineRunner(), f"{shown:.1f} MiB, but pyspark is not installed")
            case "auto":
                runner = self._spark_runner(meanwhile=True)
                return Chosen(runner, f"{shown:.1f} MiB is above {limit:.0f} MiB")

    def reconsider(self, engine: Chosen) -> Chosen:
        """Return who does the rest, once everything was read.

        A Spark that nobody insisted on and that is still starting is not waited for: what it could
        have read side by side is read.
        """
        runner = engine.runner
        if self._options.engine != "auto" or not isinstance(runner, SparkRunner) or runner.is_ready:
            return engine
        return Chosen(InlineRunner(), f"{engine.reason}, but it was read before Spark was ready")

    def _spark_runner(self, *, meanwhile: bool = False) -> SparkRunner:
        if not _has_spark():
            raise MissingExtraError("a job on Spark", "pyspark", "spark")
        if self._spark is not None and not isinstance(self._spark, SparkSettings):
            return SparkRunner(context_of(self._spark), session_of(self._spark))
        if self._own is None:
            running = active_context()
            if running is not None:
                return SparkRunner(running)
            self._own = OwnSpark(self._default if self._spark is None else self._spark)
        return SparkRunner(self._own, meanwhile=meanwhile)

    def __enter__(self) -> Self:
        wanted = self._options.engine == "spark" or isinstance(self._spark, SparkSettings)
        if wanted and self._options.engine != "inline" and _has_spark():
            self._spark_runner()
        return self

    def close(self) -> None:
        """Stop what was started here."""
        if self._own is not None:
            self._own.stop()


def require_shared_folder(runner: Runner, root: GraphUri, staging: Path | None) -> None:
    """Refuse a cluster whose workers cannot see where rows are kept meanwhile."""
    if staging is not None or root.is_local:
        return
    if isinstance(runner, SparkRunner) and not runner.is_local:
        raise BadRequestError(
            "the workers of a cluster cannot see the temporary folder of this machine",
            hint="set pipeline.staging to a folder that all of them see",
        )


def on_spark() -> LoadOptions:
    """Return the options of a job that is to run on Spark, whatever its size."""
    return LoadOptions(engine="spark")


def _has_spark() -> bool:
    return find_spec("pyspark") is not None
