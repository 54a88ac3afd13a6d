"""A soak from beginning to end: a place, processes, faults, and everything they tell."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import omnigraph
from tests.soak.faults import Fault
from tests.soak.model import SCHEMA
from tests.soak.places import Place, graph_options

ROOT = Path(__file__).parents[2]
_PATIENCE_S = 180.0


@dataclass
class Process:
    """A worker, and the line to it."""

    child: subprocess.Popen[bytes]
    line: socket.socket
    listener: threading.Thread

    @property
    def pid(self) -> int:
        return self.child.pid

    def order(self, **words: Any) -> None:
        """Tell the worker to do something; a dead one does not mind."""
        try:
            self.line.sendall((json.dumps(words) + "\n").encode())
        except OSError:
            if self.child.poll() is None:
                raise


@dataclass
class Soak:
    """What was asked for, what runs, and what was told so far."""

    place: Place
    seed: int
    threads: int
    log: IO[str]
    told: list[dict[str, Any]] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> Process:
        """Start one more worker."""
        ours, theirs = socket.socketpair()
        number = len(self.processes)
        config = {
            "uri": self.place.uri,
            "s3": self.place.s3,
            "cache": self.place.cache,
            "seed": self.seed,
            "number": number,
            "threads": self.threads,
        }
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.worker", json.dumps(config), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
        )
        theirs.close()
        listener = threading.Thread(target=self._listen, args=(ours,), daemon=True)
        listener.start()
        process = Process(child, ours, listener)
        self.processes.append(process)
        return process

    def running(self) -> list[Process]:
        """Return the workers that have not ended."""
        return [process for process in self.processes if process.child.poll() is None]

    def tell(self, kind: str, name: str = "", **facts: Any) -> None:
        self._keep(json.dumps({"kind": kind, "name": name, **facts}))

    def _keep(self, text: str) -> None:
        with self.guard:
            self.told.append(json.loads(text) | {"at": time.monotonic()})
            self.log.write(text.rstrip("\n") + "\n")
            self.log.flush()
            os.fsync(self.log.fileno())

    def _listen(self, line: socket.socket) -> None:
        for text in _whole_lines(line):
            self._keep(text)


def _whole_lines(line: socket.socket) -> Iterator[str]:
    """Yield what arrives; the last words of a killed process may be half a line."""
    rest = b""
    while True:
        try:
            data = line.recv(1 << 16)
        except OSError:
            return
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from (text.decode() for text in lines)


def soak(
    place: Place,
    *,
    seed: int,
    seconds: float,
    processes: int,
    threads: int,
    faults: Sequence[Fault],
    log: Path,
) -> list[dict[str, Any]]:
    """Run workers on a fresh graph for some seconds and return everything they told."""
    omnigraph.init(place.uri, SCHEMA, options=graph_options(place.s3)).close()
    dice = random.Random(seed)
    with log.open("w") as out:
        run = Soak(place, seed, threads, out)
        try:
            for _ in range(processes):
                run.start()
            deadline = time.monotonic() + seconds
            while (left := deadline - time.monotonic()) > 0:
                time.sleep(min(left, dice.uniform(0.3, 2.0)))
                if faults and run.running() and time.monotonic() < deadline:
                    fault = dice.choice(faults)
                    run.tell("fault", fault.__name__)
                    fault(run, dice)
            _end(run)
        finally:
            for process in run.running():
                process.child.kill()
                process.child.wait()
        return run.told


def _end(run: Soak) -> None:
    """Let every worker finish what it does; one that does not is a defect."""
    for process in run.running():
        process.order(limit=None, stop=True)
    deadline = time.monotonic() + _PATIENCE_S
    for process in run.processes:
        try:
            process.child.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            run.tell("hung", str(process.pid))
            os.kill(process.pid, signal.SIGABRT)  # faulthandler shows where it stands
            process.child.wait()
        process.listener.join(10)
