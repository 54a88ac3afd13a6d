"""Child processes and a graph with automatic upkeep for the races."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.children import Child, children


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    with children() as starter:
        yield starter


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "graph"
