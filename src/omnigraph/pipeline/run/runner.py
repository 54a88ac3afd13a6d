"""The runner that needs nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Spec = TypeVar("Spec")
Result = TypeVar("Result")


class InlineRunner:
    """Runs tasks one after another in this process; the column kernels use all cores anyway."""

    name = "inline"
    parallelism = 1

    def map(self, task: Callable[[Spec], Result], specs: Sequence[Spec]) -> Iterator[Result]:
        """Yield the results as they come."""
        for spec in specs:
            yield task(spec)
