"""Maintenance of one dataset in pieces that other processes do: rewriting and indexing fragments.

A piece is told by values that can be pickled, and answers with what the driver commits. What is
done elsewhere is the same call of Lance that is made here; only who makes it differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lance
from lance.optimize import CompactionTask, RewriteResult

from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables

if TYPE_CHECKING:
    from omnigraph.storage.tables.index import IndexSpec


@dataclass(frozen=True, slots=True)
class DatasetAt:
    """One dataset at one version, as another process opens it."""

    uri: str
    version: int
    storage_options: dict[str, str] | None = field(default=None, repr=False)

    def open(self) -> lance.LanceDataset:
        """Open it."""
        return lance.dataset(self.uri, version=self.version, storage_options=self.storage_options)


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Merge some fragments; `plan` is Lance's own description."""

    dataset: DatasetAt
    plan: str


@dataclass(frozen=True, slots=True)
class IndexTask:
    """Index one column of some fragments."""

    dataset: DatasetAt
    spec: IndexSpec
    fragments: tuple[int, ...]


def dataset_at(tables: Tables, handle: Handle) -> DatasetAt:
    """Return a handle as other processes can open it."""
    uri = tables.objects.root.join(handle.files_at)
    return DatasetAt(uri, handle.version, tables.storage_options)


def run_rewrite(task: RewriteTask) -> str:
    """Write the merged fragments; return what Lance needs to commit them."""
    with lance_errors(f"compacting {task.dataset.uri}"):
        found = CompactionTask.from_json(task.plan).execute(task.dataset.open())  # type: ignore[attr-defined]  # missing in pylance's stubs
        return str(found.json())


def run_index(task: IndexTask) -> Any:  # noqa: ANN401 - Lance's description of an index
    """Build one segment of an index; return Lance's description of it."""
    spec = task.spec
    with lance_errors(f"indexing {spec.column} of {task.dataset.uri}"):
        dataset = task.dataset.open()
        built = dataset.create_index_uncommitted(
            spec.column,
            spec.kind,
            name=spec.name,
            fragment_ids=list(task.fragments),
            replace=True,  # what it is to replace is said when it is committed
            **spec.settings,
        )
        if spec.kind == "INVERTED":  # the parts of a text index must be joined before use
            dataset.merge_index_metadata(built.uuid, spec.kind)
    return built


def rewrite_result(text: str) -> RewriteResult:
    """Return what `run_rewrite` reported in Lance's form."""
    return RewriteResult.from_json(text)  # type: ignore[attr-defined,no-any-return]  # as above
