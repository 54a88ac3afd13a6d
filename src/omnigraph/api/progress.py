"""How a job tells what it is doing; surfaces draw it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Hears about the stages of a job."""

    def stage(self, name: str, tasks: int) -> None:
        """A stage of so many tasks begins."""
        ...

    def done(self, rows: int, bad: int, size: int = 0) -> None:
        """One task of the stage is done: so many rows kept, so many refused, of so many bytes."""
        ...


class Silence:
    """Draws nothing."""

    def stage(self, name: str, tasks: int) -> None:
        """Ignore it."""

    def done(self, rows: int, bad: int, size: int = 0) -> None:
        """Ignore it."""
