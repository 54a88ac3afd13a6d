"""A real browser for tests: the system's Chromium, watched for what a page must never do."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

PATIENCE_MS = 60_000
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def chromium() -> str:
    """Return where Chromium is; without one the test is skipped, under CI it fails."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    if os.environ.get("CI"):  # noqa: TID251 - of the run, not of the product
        raise RuntimeError("CI has to have Chromium: the page is tested in it")
    pytest.skip("there is no Chromium here")


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser without a window."""
    path = chromium()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


@dataclass
class Watch:
    """Everything a page said and asked for."""

    page: Page
    address: str
    allowed: set[int] = field(default_factory=set)
    """Statuses of answers that a test expects, which browsers note as errors."""
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.said.append(f"error {error}"))
        self.page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        url = message.location.get("url", "")
        if any(f"status of {one} " in message.text for one in self.allowed):
            return
        if message.type in ("error", "warning"):
            self.said.append(f"{message.type} {message.text} {url}")

    def _asked(self, request: Request) -> None:
        self.asked.append(request.url)

    def check(self) -> None:
        """Nothing was wrong, and nobody else was asked for anything."""
        own = (self.address, "blob:" + self.address, "data:")
        foreign = [url for url in self.asked if not url.startswith(own)]
        assert not foreign, foreign
        assert not self.said, self.said
