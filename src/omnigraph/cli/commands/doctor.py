"""`omnigraph doctor`: what this machine has, what it lacks, and whether a graph can be reached."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

import typer

from omnigraph.api.texts import Diagnosis, HealthCheck
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import JsonOption
from omnigraph.cli.output import EXIT_FAILURE, say, say_json
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place
from omnigraph.config.environment import history_file
from omnigraph.config.settings import Settings
from omnigraph.errors import OmniGraphError

_LIBRARIES = ("pylance", "pyarrow", "numpy", "obstore")
_EXTRAS = (
    ("spark", "pyspark", "jobs on Spark"),
    ("server", "granian", "serving over HTTP"),
    ("server", "cedarpy", "access policies"),
    ("mcp", "mcp", "tools for agents"),
    ("aws", "boto3", "tokens from AWS"),
    ("notebook", "pandas", "to_pandas"),
    ("notebook", "polars", "to_polars"),
)
_LITTLE_ROOM = 1 << 30
_CLOCK_S = 2.0
_MARKS = {"ok": "ok  ", "off": "off ", "failed": "FAIL"}


@sharing
def doctor(
    asked: OnGraph,
    json: JsonOption = False,
) -> None:
    """Look at versions, Java, room, permissions and clock; of a graph, whether it can be read.

    Exits with 1 if something that is needed does not work.

    Example: `omnigraph doctor ./people.omni`
    """
    settings = asked.settings()
    checks = [*_programs(), *_java(), *_places(settings)]
    if asked.is_said or asked.find_uri(settings) is not None:
        checks.append(_graph(asked.place()))
    found = Diagnosis(tuple(checks))
    if json:
        say_json(found)
    else:
        for one in found.checks:
            say(f"{_MARKS[one.status]}  {one.name}: {one.detail}")
            if one.hint is not None:
                say(f"      hint: {one.hint}")
    if found.failed:
        raise typer.Exit(EXIT_FAILURE)


def _programs() -> Iterator[HealthCheck]:
    yield HealthCheck("python", "ok", sys.version.split()[0])
    for name in _LIBRARIES:
        yield HealthCheck(name, "ok", version_of(name))
    for extra, name, what in _EXTRAS:
        try:
            yield HealthCheck(name, "ok", f"{version_of(name)}, for {what}")
        except PackageNotFoundError:
            hint = f'pip install "omnigraph[{extra}]"'
            yield HealthCheck(name, "off", f"not installed; needed for {what}", hint)


def _java() -> Iterator[HealthCheck]:
    try:
        version_of("pyspark")
    except PackageNotFoundError:
        return  # nothing else needs Java
    from omnigraph.pipeline.run.spark_jvm import find_java

    yield _tried("java", find_java)


def _places(settings: Settings) -> Iterator[HealthCheck]:
    yield _tried("temporary folder", _temporary)
    folder = history_file(settings.environment).parent
    yield _tried("shell history", lambda: f"{_writable(folder)} ({folder})")


def _temporary() -> str:
    with tempfile.NamedTemporaryFile(prefix="omnigraph-doctor-") as file:
        file.write(b"x")
        file.flush()
        off = Path(file.name).stat().st_mtime - time.time()
    if abs(off) > _CLOCK_S:
        raise OSError(f"its clock and that of this machine are {off:.0f} s apart")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < _LITTLE_ROOM:
        raise OSError(f"only {free >> 20} MiB are free; loads and exports keep files there")
    return f"writable, {free >> 30} GiB free"


def _writable(folder: Path) -> str:
    while not folder.exists():  # the first writer makes what is missing
        folder = folder.parent
    with tempfile.TemporaryFile(dir=folder):
        return "writable"


def _graph(place: Place) -> HealthCheck:
    def look() -> str:
        started = time.monotonic()
        with place.open("doctor") as graph:
            head = graph.snapshot()
        tables, ms = len(head.tables), (time.monotonic() - started) * 1_000
        return f"{place.uri}: {tables} tables at commit {head.commit_id}, read in {ms:.0f} ms"

    return _tried("graph", look)


def _tried(name: str, look: Callable[[], str]) -> HealthCheck:
    """Return what a look at something found, or why it found nothing."""
    try:
        return HealthCheck(name, "ok", look())
    except OmniGraphError as error:
        return HealthCheck(name, "failed", error.message, error.hint)
    except OSError as error:
        return HealthCheck(name, "failed", error.strerror or str(error))
