"""`python -m tests.soak`: soak a graph, judge it, say what happened; exit 1 if it is wrong."""

from __future__ import annotations

import argparse
import faulthandler
import secrets
import sys
import tempfile
import time
from pathlib import Path

import omnigraph
from tests.soak.clients import soak_clients
from tests.soak.faults import faults_named
from tests.soak.judge import Verdict, judge
from tests.soak.places import graph_options, place
from tests.soak.run import soak

_SHOWN = 20


def main() -> int:
    """Soak every place for its share of the time."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="what the dice are thrown from")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all places together")
    parser.add_argument("--places", default="disk,s3,server", help="disk, s3, server")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4, help="of each process")
    parser.add_argument("--clients", type=int, default=64, help="of the server")
    parser.add_argument("--faults", default="all", help="all, none, or names by comma")
    parser.add_argument("--log", type=Path, default=None, help="folder for what was told")
    flags = parser.parse_args()
    faulthandler.enable()
    seed = secrets.randbelow(1_000_000) if flags.seed is None else flags.seed
    places = flags.places.split(",")
    folder = flags.log or Path(tempfile.mkdtemp(prefix="omnigraph-soak-log-"))
    folder.mkdir(parents=True, exist_ok=True)
    passed = 0
    for kind in places:
        print(f"soak {kind}: seed {seed}, {flags.seconds / len(places):.0f} s", flush=True)
        share = flags.seconds / len(places)
        if kind == "server":
            passed += _soak_clients(seed, share, flags, folder)
        else:
            passed += _soak(kind, seed, share, flags, folder / f"{kind}.jsonl")
    print(f"{passed} passed, {len(places) - passed} failed")
    return int(passed != len(places))


def _soak(kind: str, seed: int, seconds: float, flags: argparse.Namespace, log: Path) -> bool:
    with place(kind) as where:
        faults = faults_named(flags.faults, on_s3=where.line is not None)
        started = time.monotonic()
        told = soak(
            where,
            seed=seed,
            seconds=seconds,
            processes=flags.processes,
            threads=flags.threads,
            faults=faults,
            log=log,
        )
        with omnigraph.connect(where.uri, options=graph_options(where.s3)) as graph:
            verdict = judge(graph, told, faults=bool(faults))
        return _told(verdict, started, log)


def _soak_clients(seed: int, seconds: float, flags: argparse.Namespace, folder: Path) -> bool:
    started = time.monotonic()
    verdict = soak_clients(
        seed=seed,
        seconds=seconds,
        clients=flags.clients,
        faults=flags.faults != "none",
        folder=folder,
    )
    return _told(verdict, started, folder / "server")


def _told(verdict: Verdict, started: float, log: Path) -> bool:
    """Say what happened and what is wrong with it."""
    for what, count in sorted(verdict.seen.items()):
        print(f"  {count:7d} {what}")
    for text in verdict.wrong[:_SHOWN]:
        print(f"  WRONG {text[:1500]}")
    took = time.monotonic() - started
    print(f"  {len(verdict.wrong)} wrong; {took:.0f} s; log {log}", flush=True)
    return not verdict.wrong


if __name__ == "__main__":
    sys.exit(main())
