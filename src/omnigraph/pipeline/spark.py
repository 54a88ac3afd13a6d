"""Tasks on Spark: descriptions travel out, small reports come back, rows never cross over."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.pipeline.runner import Result, Spec
from omnigraph.pipeline.spark_jvm import SparkError, SparkJvm

if TYPE_CHECKING:
    from pyspark import SparkContext

_QUIET: Mapping[str, str] = {
    "spark.app.name": "omnigraph",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
_LOCAL: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark; anything in `conf` goes to it as it is."""

    master: str = "local[*]"
    memory: str = "1g"
    """Of the Java process; rows live in the Python workers beside it."""
    conf: Mapping[str, str] = field(default_factory=dict)

    def all(self) -> dict[str, str]:
        """Return every setting by its Spark name."""
        local = _LOCAL if self.master.startswith("local") else {}
        return {**_QUIET, **local, "spark.master": self.master, **self.conf}


class SparkRunner:
    """Runs tasks as one job of a Spark context."""

    name = "spark"

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        return int(self._context.defaultParallelism)

    def map(self, task: Callable[[Spec], Result], specs: Sequence[Spec]) -> Iterator[Result]:
        """Yield the results in order; a job that is interrupted is cancelled.

        Raises:
            SparkError: Spark failed, rather than the task.
        """
        if not specs:
            return
        group = f"omnigraph-{uuid.uuid4().hex}"
        self._context.setJobGroup(group, "omnigraph", interruptOnCancel=True)
        tasks = self._context.parallelize(list(specs), len(specs)).map(_Guarded(task))
        try:
            answers = tasks.collect()
        except Exception as error:  # Py4J raises many kinds, all of them Spark's
            self._context.cancelJobGroup(group)
            raise SparkError(f"the Spark job failed: {_first_line(error)}") from error
        except BaseException:
            self._context.cancelJobGroup(group)
            raise
        for answer in answers:
            if isinstance(answer, OmniGraphError):
                raise answer
            yield answer


class _Guarded:
    """A task in a worker: one core, and its own errors as answers instead of Java traces."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self._task = task

    def __call__(self, spec: Any) -> Any:  # noqa: ANN401 - whatever the task takes and gives
        pa.set_cpu_count(1)
        try:
            return self._task(spec)
        except OmniGraphError as error:
            return error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class OwnSpark:
    """A Spark of our own, from the start of its process to the end of it."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._jvm = SparkJvm(settings.all(), settings.memory)
        self._context: SparkContext | None = None

    def context(self) -> SparkContext:
        """Return the context, waiting for the process to be ready."""
        if self._context is None:
            from pyspark import SparkConf, SparkContext  # loaded when the process was started

            gateway = self._jvm.connect()
            conf = SparkConf(loadDefaults=False, _jvm=gateway.jvm)
            conf.setAll(list(self._settings.all().items()))
            with _own_interrupts():
                self._context = SparkContext(conf=conf, gateway=gateway)
            self._context.pythonExec = sys.executable  # workers must be able to import this package
            self._context.setLogLevel("ERROR")
            logging.getLogger("py4j").setLevel(logging.ERROR)
        return self._context

    def stop(self) -> None:
        """Stop everything that was started."""
        from pyspark import SparkContext

        try:
            if self._context is not None:
                self._context.stop()
                # A later context of this process must not look for the gateway of this one.
                SparkContext._gateway = None
                SparkContext._jvm = None
        finally:
            self._jvm.stop()


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep Ctrl-C as it was: Spark's handler outlives its context, and `map` cancels anyway."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def context_of(given: object) -> SparkContext:
    """Return the context of a session (or context) that a caller has.

    Raises:
        BadRequestError: it has none, as a session over Spark Connect.
    """
    found = getattr(given, "sparkContext", given)
    if not hasattr(found, "parallelize"):
        raise BadRequestError(
            f"cannot run tasks on a {type(given).__name__}",
            hint="pass a classic SparkSession or SparkContext, or SparkSettings",
        )
    return cast("SparkContext", found)


def active_context() -> SparkContext | None:
    """Return the context this process has already, if any: Spark allows only one."""
    module = sys.modules.get("pyspark")
    if module is None:
        return None
    found: SparkContext | None = module.SparkContext._active_spark_context
    return found
