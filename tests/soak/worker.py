"""One process of the soak: threads that work on one open graph and tell everything they see.

Everything is told through a socket: what was sent before a `kill -9` still arrives. The other way
come orders: a disk that is full from now on, a clock that jumps.
"""

from __future__ import annotations

import itertools
import json
import random
import resource
import socket
import sys
import threading
import time
import traceback
from typing import Any

import omnigraph
from omnigraph.engine import maintain
from omnigraph.engine.image import shelf
from omnigraph.engine.merge import large
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.storage.tables.failures import SnapshotExpiredError
from tests.soak.operations import ALL, Turn, pick_branch, read
from tests.soak.places import graph_options

_BLIND_AFTER = 4

shelf.LEAST_ROWS = 20  # so that processes map the images of each other
maintain.WORTH_ROWS = 20  # so that upkeep builds and continues indexes of small tables, too


class JumpingClock:
    """The machine's clock, wrong by as much as somebody says."""

    def __init__(self) -> None:
        self.wrong_us = 0

    def now_us(self) -> int:
        return time.time_ns() // 1_000 + self.wrong_us

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Worker:
    """The threads of one process and the line to whoever started it."""

    def __init__(self, config: dict[str, Any], line: socket.socket) -> None:
        self.config, self.line = config, line
        self.clock = JumpingClock()
        self.sending = threading.Lock()
        self.stop = threading.Event()

    def note(self, kind: str, name: str, **facts: Any) -> None:
        """Tell something; it arrives even if this process is killed right after."""
        said = json.dumps({"kind": kind, "name": name, **facts}) + "\n"
        with self.sending:
            self.line.sendall(said.encode())

    def obey(self) -> None:
        """Carry out orders until there are none to come."""
        for text in self.line.makefile("r"):
            order = json.loads(text)
            if "limit" in order:
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                soft = hard if order["limit"] is None else order["limit"]
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            if "jump_us" in order:
                self.clock.wrong_us = order["jump_us"]
            if "stop" in order:
                self.stop.set()

    def open(self) -> Graph:
        """Open the graph, however long its store takes to answer."""
        while True:
            try:
                options = graph_options(self.config["s3"], self.clock, self.config["cache"])
                return omnigraph.connect(self.config["uri"], options=options)
            except OmniGraphError as error:
                self.refused(f"open{self.config['number']}", "open", error)
                if self.stop.wait(0.5):
                    raise

    def refused(self, name: str, operation: str, error: OmniGraphError) -> None:
        lines = [type(one).__name__ for one in type(error).__mro__ if one is not type(error)]
        self.note(
            "refused", name, what=operation, error=type(error).__name__, also=lines, text=str(error)
        )

    def work(self, graph: Graph, thread: int) -> None:
        """Do one operation after another until told to stop."""
        number, seed = self.config["number"], self.config["seed"]
        dice = random.Random(f"{seed}-{number}-{thread}")
        numbers = itertools.count(number * 10_000_000 + thread * 100_000)
        kinds, weights = [*ALL], [*ALL.values()]
        blind = 0
        for step in itertools.count():
            if self.stop.is_set():
                return
            name = f"op-{number}-{thread}-{step}"
            operation = dice.choices(kinds, weights)[0]
            try:
                branch = pick_branch(graph, dice)
                operation(Turn(graph, name, branch, dice, self.note, numbers))
                blind = 0
            except SnapshotExpiredError as error:
                # Reading the newest state again helps, unless this process has gone blind.
                self.refused(name, operation.__name__, error)
                blind += operation is read
                if blind >= _BLIND_AFTER:
                    self.note("blind", name, text=str(error))
            except OmniGraphError as error:
                self.refused(name, operation.__name__, error)
            except BaseException:  # noqa: BLE001 - told, and judged as a defect
                self.note("untyped", name, what=operation.__name__, text=traceback.format_exc())

    def run(self) -> None:
        threading.Thread(target=self.obey, daemon=True).start()
        if self.config["number"] % 2:  # every other process merges as if tables were large
            large.LARGE = 0
        with self.open() as graph:
            self.note("ready", str(self.config["number"]))
            threads = [
                threading.Thread(target=self.work, args=(graph, number))
                for number in range(self.config["threads"])
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.note("done", str(self.config["number"]))


def main() -> None:
    """Work as the first argument says, on the socket the second one names."""
    config, descriptor = json.loads(sys.argv[1]), int(sys.argv[2])
    with socket.socket(fileno=descriptor) as line:
        worker = Worker(config, line)
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001 - told, and judged
            kind = "refused" if isinstance(error, OmniGraphError) else "untyped"
            if kind == "refused":
                worker.refused("process", "close", error)
            else:
                worker.note(kind, "process", what="process", text=traceback.format_exc())


if __name__ == "__main__":
    main()
