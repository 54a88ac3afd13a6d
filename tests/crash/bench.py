"""A work bench for breaking one operation: prepared graphs, its gaps, and what may come out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from omnigraph.errors import AlreadyExistsError, NotFoundError
from omnigraph.storage.store import open_store
from tests.support.children import Child
from tests.support.operations import OPERATIONS, record_passes
from tests.support.storage_model import (
    GraphState,
    check_verified,
    check_whole,
    check_writable,
    empty_graph,
    graph_state,
)


class Bench:
    """One operation: prepared graphs to break, and what they may look like afterwards."""

    def __init__(self, start: Callable[..., Child], name: str, folder: Path) -> None:
        self.start, self.operation, self.folder = start, OPERATIONS[name], folder
        self._count = 0
        self.before = self.read(self.fresh())
        after = self.fresh()
        self.passes = self.start(record_passes, name, str(after)).succeed().said[-1]
        self.after = self.read(after)

    def fresh(self) -> Path:
        """Return a newly prepared graph."""
        self._count += 1
        root = self.folder / f"{self._count}" / "graph"
        self.operation.prepare(root)
        return root

    def cells(self) -> list[tuple[str, int]]:
        """Return every gap, once per pass; of many passes the first ones and the last."""
        return [
            (point, skip)
            for point, passes in sorted(self.passes.items())
            for skip in sorted({*passes[:3], passes[-1]})
        ]

    def read(self, root: Path) -> GraphState | None:
        """Return what a reader sees, which is what the last commit left; None without a graph."""
        try:
            with open_store(str(root), read_only=True) as store:
                return graph_state(store)
        except NotFoundError:
            return None

    def _init_again(self, root: Path) -> None:
        """A dead `init` can simply be run again, unless it got far enough to count."""
        with contextlib.suppress(AlreadyExistsError):
            empty_graph(root, self.operation.options).close()

    def check(self, root: Path, *, acknowledged: bool, briefly: bool = False) -> None:
        """Reopen for writing: all or nothing, healed once, and writable again."""
        if self.operation.act is None and not acknowledged:
            self._init_again(root)
        with open_store(str(root), options=self.operation.options) as store:
            found = graph_state(store)
            if acknowledged or not self.operation.steps:
                assert found == self.after or (found == self.before and not acknowledged), found
            if briefly:
                check_writable(store)
                check_verified(store)
            else:
                check_whole(store, forgets=self.operation.forgets)
