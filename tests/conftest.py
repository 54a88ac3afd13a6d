"""Options and hypothesis profiles every test shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, settings

from tests.support.cases import Case

# The default run must be the same for everyone, so it draws the same examples every time;
# `prove` explores.
settings.register_profile(
    "default",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "prove",
    max_examples=3_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# What tests keep on disk is theirs, never the user's: who wants derived files names a folder.
os.environ["OMNIGRAPH_CACHE_DIR"] = "off"  # noqa: TID251 - children of tests inherit it

settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "default")  # noqa: TID251 - test setting, not the product's
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-cases",
        action="store_true",
        help="rewrite the expected sections of golden cases with what the code produces now",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests with a Spark of their own first: a process has one at a time, and the one that
    all others share stays until the end."""
    items.sort(key=lambda item: item.get_closest_marker("own_spark") is None)


@pytest.fixture
def golden(
    request: pytest.FixtureRequest,
) -> Callable[[Case, Mapping[str, Callable[[], str]]], None]:
    """Check a golden case: `golden(case, {"diagnostics": lambda: …})`."""
    update = bool(request.config.getoption("--update-cases"))

    def check(case: Case, outputs: Mapping[str, Callable[[], str]]) -> None:
        case.check(outputs, update=update)

    return check
