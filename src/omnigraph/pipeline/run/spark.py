"""Tasks on Spark: descriptions travel out, small reports come back, rows never cross over."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from omnigraph.base.runner import Result, Spec
from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.pipeline.model import SparkSettings
from omnigraph.pipeline.run.spark_jvm import PYTHON, SparkError, SparkJvm, keep_quiet

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_TASKS_PER_JOB = 4
"""Tasks per thread of Spark in one job: some seconds of work."""
_JOBS_AT_ONCE = 2
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


def spark_conf(settings: SparkSettings) -> dict[str, str]:
    """Return every setting by its Spark name."""
    python = {PYTHON: sys.executable}  # workers must be able to import this package
    common = {**_QUIET, **python, "spark.master": settings.master}
    if not settings.is_local:
        return {**common, **settings.conf}
    partitions = {"spark.sql.shuffle.partitions": str(2 * _threads(settings.master))}
    return {**common, **_LOCAL, **partitions, **settings.conf}


def _threads(master: str) -> int:
    """Return how many tasks a local master runs at a time."""
    found = re.match(r"local\[(\d+|\*)", master)
    if found is None:
        return 1
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


class SparkRunner:
    """Runs tasks as jobs of a Spark context, which may still be starting.

    With `meanwhile`, the driver does tasks itself until Spark is there.
    """

    name = "spark"

    def __init__(
        self,
        spark: SparkContext | OwnSpark,
        session: SparkSession | None = None,
        *,
        meanwhile: bool = False,
    ) -> None:
        self._spark = spark
        self._session = session
        self._meanwhile = meanwhile

    @property
    def is_ready(self) -> bool:
        """Whether tasks would run on Spark now."""
        return not isinstance(self._spark, OwnSpark) or self._spark.is_ready

    @property
    def context(self) -> SparkContext:
        """The context, once it is there."""
        return self._spark.context() if isinstance(self._spark, OwnSpark) else self._spark

    @property
    def session(self) -> SparkSession:
        """The session for SQL: the caller's, or one on top of the context."""
        if self._session is None:
            assert self.context is not None
            self._session = new_session()
        return self._session

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine."""
        return str(self.context.master).startswith("local")

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        return int(self.context.defaultParallelism)

    def map(self, task: Callable[[Spec], Result], specs: Sequence[Spec]) -> Iterator[Result]:
        """Yield the results in order; a job that is interrupted is cancelled.

        Raises:
            SparkError: Spark failed, rather than the task.
        """
        done = 0
        while self._meanwhile and done < len(specs) and not self.is_ready:
            yield task(specs[done])
            done += 1
        if done < len(specs):
            yield from self._map(task, list(specs[done:]))

    def _map(self, task: Callable[[Spec], Result], specs: list[Spec]) -> Iterator[Result]:
        """Run several jobs, of which two overlap: answers come in while others are at work."""
        group = f"omnigraph-{uuid.uuid4().hex}"
        size = _TASKS_PER_JOB * max(self.parallelism, 1)
        with ThreadPoolExecutor(_JOBS_AT_ONCE, "omnigraph-job") as pool:
            jobs = [
                pool.submit(self._job, task, specs[start : start + size], group)
                for start in range(0, len(specs), size)
            ]
            try:
                for job in jobs:
                    for answer in job.result():
                        if isinstance(answer, OmniGraphError):
                            raise answer
                        yield answer
            except BaseException:
                for job in jobs:
                    job.cancel()
                self.context.cancelJobGroup(group)
                raise

    def _job(self, task: Callable[[Spec], Result], specs: list[Spec], group: str) -> list[Any]:
        context = self.context
        context.setJobGroup(group, "omnigraph", interruptOnCancel=True)
        try:
            found: list[Any] = context.parallelize(specs, len(specs)).map(_Guarded(task)).collect()
        except Exception as error:  # Py4J raises many kinds, all of them Spark's
            raise SparkError(f"the Spark job failed: {_first_line(error)}") from error
        return found


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


def new_session() -> SparkSession:
    """Return a session on top of the context there is."""
    keep_quiet()
    from pyspark.sql import SparkSession  # slow to load

    return SparkSession.builder.getOrCreate()


class OwnSpark:
    """A Spark of our own, from the start of its process to the end of it.

    It starts in a thread of its own: Java takes seconds that the caller has a use for. (Only
    where a context is made in the main thread does Spark take Ctrl-C for itself, too.)
    """

    def __init__(self, settings: SparkSettings) -> None:
        keep_quiet()
        self._settings = settings
        self._jvm: SparkJvm | None = None
        self._context: SparkContext | None = None
        self._error: BaseException | None = None
        self._stopping = False
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._start, daemon=True, name="omnigraph-spark")
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether nobody needs to wait for the context, or for the error there is instead."""
        return self._settled.is_set()

    def context(self) -> SparkContext:
        """Return the context, waiting for it.

        Raises:
            SparkError: Spark did not start.
            NoJavaError: there is nothing to run it on.
        """
        self._settled.wait()
        if self._context is not None:
            return self._context
        assert self._error is not None
        raise self._error

    def _start(self) -> None:
        try:
            self._jvm = SparkJvm(
                spark_conf(self._settings), self._settings.memory, is_local=self._settings.is_local
            )
            self._context = self._connect(self._jvm)
            self._settled.set()
            if not self._stopping:  # the first query takes seconds, and tasks run meanwhile
                new_session().range(1).count()
        except BaseException as error:  # noqa: BLE001 - raised again where the context is asked for
            self._error = error
        finally:
            self._settled.set()

    def _connect(self, jvm: SparkJvm) -> SparkContext:
        from pyspark import SparkConf, SparkContext  # loaded when the process was started

        gateway, chosen = jvm.connect(), spark_conf(self._settings)
        conf = SparkConf(loadDefaults=False, _jvm=gateway.jvm)
        conf.setAll(list(chosen.items()))
        context = SparkContext(conf=conf, gateway=gateway)
        context.pythonExec = chosen[PYTHON]
        context.setLogLevel("ERROR")
        logging.getLogger("py4j").setLevel(logging.ERROR)
        return context

    def stop(self) -> None:
        """Stop everything that was started; a start that is under way is broken off."""
        self._stopping = True
        while not self._settled.wait(0.05):
            if self._jvm is not None:
                self._jvm.kill()
        try:
            if self._context is not None:
                self._context.stop()
        finally:
            if self._jvm is not None:
                self._jvm.stop()
                _forget_gateway()
            self._thread.join()


def _forget_gateway() -> None:
    """Keep a later context of this process from looking for a gateway that is gone."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None


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


def session_of(given: object) -> SparkSession | None:
    """Return what a caller has as a session, if it is one."""
    return cast("SparkSession", given) if hasattr(given, "sparkContext") else None


def active_context() -> SparkContext | None:
    """Return the context this process has already, if any: Spark allows only one."""
    module = sys.modules.get("pyspark")
    if module is None:
        return None
    found: SparkContext | None = module.SparkContext._active_spark_context
    return found
