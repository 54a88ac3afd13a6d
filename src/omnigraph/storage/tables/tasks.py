"""Maintenance of one dataset in pieces that other processes do: rewriting and indexing fragments.

A piece is told by values that can be pickled, and answers with what the driver commits. What is
done elsewhere is the same call of Lance that is made here; only who makes it differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import lance
from lance.blob import BlobType
from lance.optimize import CompactionTask, RewriteResult

from omnigraph.base.uri import parse_uri
from omnigraph.storage.counters import Counters
from omnigraph.storage.files import layout
from omnigraph.storage.files.backends import Backend, backend_of, naming
from omnigraph.storage.options import S3Options, StorageOptions
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


Digests: TypeAlias = tuple[tuple[str, str], ...]
"""Files by their names in a lineage, with what tells their bytes from any others."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Merged fragments: what Lance needs to commit them, and the digests of their files."""

    result: str
    digests: Digests


@dataclass(frozen=True, slots=True)
class Indexed:
    """One segment of an index, as Lance describes it, and the digests of its files."""

    segment: Any
    digests: Digests


def run_rewrite(task: RewriteTask, opened: lance.LanceDataset | None = None) -> Rewritten:
    """Write the merged fragments; whoever has the dataset `opened` need not open it again."""
    with lance_errors(f"compacting {task.dataset.uri}"):
        dataset = task.dataset.open() if opened is None else opened
        found = CompactionTask.from_json(task.plan).execute(dataset)  # type: ignore[attr-defined]  # missing in pylance's stubs
    written = ([file.path for file in part.files] for part in found.new_fragments)
    blobs = any(isinstance(column.type, BlobType) for column in dataset.schema)
    at = task.dataset
    told = written_digests(at.uri, at.storage_options, written, blobs=blobs)
    return Rewritten(str(found.json()), tuple(one for part in told for one in part))


def written_digests(
    uri: str,
    storage_options: Mapping[str, str] | None,
    fragments: Iterable[Iterable[str]],
    *,
    blobs: bool,
) -> list[Digests]:
    """Return the digests of the data files of fragments, and of the large blobs beside them.

    By whoever has just written them, so that on a disk they are still in memory and nobody has to
    read all of them; on an object store each is read back once.
    """
    backend = _backend_at(uri, storage_options)
    told = []
    for paths in fragments:
        names = [f"{layout.DATA_DIR}/{path}" for path in paths]
        if blobs:
            beside = (name.removesuffix(".lance") for name in tuple(names))
            names += [info.name for folder in beside for info in backend.find_all(folder)]
        told.append(tuple(_digests(backend, names)))
    return told


def _backend_at(uri: str, storage_options: Mapping[str, str] | None) -> Backend:
    options = StorageOptions(s3=S3Options.from_lance(storage_options or {}))
    return backend_of(parse_uri(uri), options, Counters())


def _digests(backend: Backend, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        with naming("read", name):
            told = backend.digest(name)
        if told is not None:  # a missing one is found when it is to be committed
            yield name, told


def run_index(task: IndexTask) -> Indexed:
    """Build one segment of an index."""
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
    backend = _backend_at(task.dataset.uri, task.dataset.storage_options)
    listed = backend.find_all(f"{layout.INDICES_DIR}/{built.uuid}")
    return Indexed(built, tuple(_digests(backend, sorted(info.name for info in listed))))


def rewrite_result(text: str) -> RewriteResult:
    """Return what `run_rewrite` reported in Lance's form."""
    return RewriteResult.from_json(text)  # type: ignore[attr-defined,no-any-return]  # as above
