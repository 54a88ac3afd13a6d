"""A graph to work on, and a clock that tests can turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from omnigraph.base import failpoints
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.storage.options import DEFAULTS, StorageOptions
from omnigraph.storage.store import GraphStore
from tests.support.storage_model import empty_graph

QUIET = replace(DEFAULTS, maintenance="manual", durability="os")


@dataclass
class SteeredClock:
    """The system's clock, moved by `ahead_s`; sleeping only moves it."""

    ahead_s: float = 0.0

    def now_us(self) -> int:
        return SYSTEM_CLOCK.now_us() + int(self.ahead_s * 1e6)

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        self.ahead_s += seconds


@pytest.fixture
def quiet() -> StorageOptions:
    return QUIET


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "graph"


@pytest.fixture
def store(root: Path) -> Iterator[GraphStore]:
    opened = empty_graph(root, QUIET)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def no_failpoints() -> Iterator[None]:
    yield
    failpoints.disable_all()
