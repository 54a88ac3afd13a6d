"""Graphs that the faults can be done to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.children import Child, children


@pytest.fixture
def root() -> Iterator[Path]:
    """A place that another user may enter, which the usual temporary folder is not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder / "graph"
    shutil.rmtree(folder)


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    with children() as starter:
        yield starter
