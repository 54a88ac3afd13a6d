"""Child processes for the crash tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.children import Child, children


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    with children() as starter:
        yield starter
