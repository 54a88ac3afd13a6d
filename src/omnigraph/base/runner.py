"""Who runs the pieces of a bulk job: this process, or others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Spec = TypeVar("Spec")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs a pure function over task descriptions; both may be sent to other processes."""

    name: str

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        ...

    def map(self, task: Callable[[Spec], Result], specs: Sequence[Spec]) -> Iterator[Result]:
        """Yield the results in the order of the specs; the first failure stops the rest."""
        ...


class InlineRunner:
    """Runs tasks one after another in this process; the column kernels use all cores anyway."""

    name = "inline"
    parallelism = 1

    def map(self, task: Callable[[Spec], Result], specs: Sequence[Spec]) -> Iterator[Result]:
        """Yield the results as they come."""
        for spec in specs:
            yield task(spec)
