"""Timing in rounds: every contender in every round, ratios within a round, medians over rounds."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROUNDS = 5


def per_call_us(work: Callable[[Any], object], inputs: list[Any]) -> float:
    """Return the median microseconds of one call over the inputs."""
    taken = []
    for one in inputs:
        started = time.perf_counter()
        work(one)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e6


def process_cpu(command: list[str]) -> float:
    """Return the processor seconds of a whole process, its threads included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def compare(
    title: str, contenders: Mapping[str, Callable[[Any], object]], inputs: list[Any]
) -> dict[str, float]:
    """Time all contenders in turn, `ROUNDS` times; print medians and ratios to the first."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for name, work in contenders.items():
        for one in inputs[:3]:
            work(one)
        del name
    for _ in range(ROUNDS):
        for name, work in contenders.items():
            times[name].append(per_call_us(work, inputs))
    first = next(iter(contenders))
    medians = {name: statistics.median(found) for name, found in times.items()}
    parts = [f"{first} {medians[first]:9.1f} us"]
    for name in contenders:
        if name != first:
            ratios = [ours / theirs for ours, theirs in zip(times[first], times[name], strict=True)]
            parts.append(f"{name} {medians[name]:9.1f} us  ratio {statistics.median(ratios):6.3f}")
    sys.stdout.write(f"{title:34} {'   '.join(parts)}\n")
    sys.stdout.flush()
    return medians


def sync(path: Path) -> None:
    """Force a file to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
