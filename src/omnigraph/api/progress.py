"""How a job tells what it is doing; surfaces draw it."""

from __future__ import annotations

from typing import Protocol

from omnigraph.errors import BadRequestError


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


def listening(progress: Progress | None) -> Progress:
    """Return who hears of a job; nobody if none is given.

    Raises:
        BadRequestError: it cannot hear.
    """
    if progress is None:
        return Silence()
    if not all(callable(getattr(progress, word, None)) for word in ("stage", "done")):
        raise BadRequestError(
            f"progress cannot be {type(progress).__name__}",
            hint="give an object with the methods `stage` and `done` of omnigraph.api.Progress",
        )
    return progress
