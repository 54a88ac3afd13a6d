"""Fragments that other processes write: where they may write, and what makes them acceptable.

A bulk job's tasks write data files straight into a dataset's folder and hand back small
descriptions. Until a commit names them these files are invisible; if the job dies they are
collected by age. Nothing here commits.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from lance.blob import BlobType
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import BadRequestError, ConflictError, StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.tables.differ import OwnFragment
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.tasks import written_digests

Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader
_OTHER_COLUMNS = "Append with different schema"


@dataclass(frozen=True, slots=True)
class FragmentTarget:
    """All a task needs to write fragments of one table; it can be pickled."""

    home: str
    """Where the table's files lie, relative to the graph."""
    uri: str
    schema: pa.Schema
    max_rows_per_file: int
    storage_options: dict[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ForeignFragment:
    """One written fragment, described; it can be pickled and is a few hundred bytes."""

    home: str
    rows: int
    metadata: str
    """What Lance knows of it, as JSON."""
    digests: tuple[tuple[str, str], ...] = ()
    """Its files by their names below `home`, each with what tells its bytes from any others."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Take in fragments written elsewhere; their keys are new, or everything is replaced."""

    fragments: tuple[ForeignFragment, ...]
    replaces_all: bool = False


def fragment_target(tables: Tables, base: Handle) -> FragmentTarget:
    """Return where fragments of a table are to be written."""
    return FragmentTarget(
        base.files_at,
        tables.objects.root.join(base.files_at),
        base.dataset.schema,
        tables.max_rows_per_file,
        tables.storage_options,
    )


def write_foreign(target: FragmentTarget, rows: Rows) -> list[ForeignFragment]:
    """Write rows as fragments of the target table; nobody sees them before a commit.

    Meant for tasks in any process. The rows must have the target's columns; a reader is
    streamed, so its rows need not fit into memory.

    Raises:
        ConflictError: the columns of the table are others by now.
    """
    if not rows.schema.equals(target.schema, check_metadata=False):
        raise BadRequestError(
            f"the rows do not have the columns of {target.home}",
            hint=f"the table has {target.schema.names}, with exactly its types",
        )
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    with _same_table(target), lance_errors(f"writing fragments of {target.home}"):
        written = write_fragments(
            rows,
            target.uri,
            mode="append",
            max_rows_per_file=target.max_rows_per_file,
            storage_options=target.storage_options,
        )
    found = [part for part in written if part.physical_rows]
    told = written_digests(
        target.uri,
        target.storage_options,
        ((file.path for file in part.files) for part in found),
        blobs=any(isinstance(column.type, BlobType) for column in target.schema),
    )
    return [
        ForeignFragment(target.home, part.physical_rows, json.dumps(part.to_json()), digests)
        for part, digests in zip(found, told, strict=True)
    ]


@contextlib.contextmanager
def _same_table(target: FragmentTarget) -> Iterator[None]:
    """Tell that a change of schema came before: Lance compares with the newest columns."""
    try:
        yield
    except StorageError as error:
        if _OTHER_COLUMNS not in error.message:
            raise
        raise ConflictError(
            f"the columns of {target.home} changed since this was begun",
            hint="begin again, with the schema as it is now",
        ) from error


def same_columns(one: Handle, other: Handle) -> bool:
    """Whether files of one dataset mean the same in another: columns by number, name and type.

    Two lineages may give one number to different columns.
    """

    def told(handle: Handle) -> list[tuple[int, str]]:
        columns = _fields_below(handle.dataset.lance_schema.fields())
        return [(column.id(), column.name()) for column in columns]

    return told(one) == told(other) and one.dataset.schema.equals(other.dataset.schema)


def _fields_below(fields: Sequence[Any]) -> list[Any]:
    return [one for field in fields for one in (field, *_fields_below(field.children()))]


def link_fragment(
    tables: Tables, target: FragmentTarget, fragment: OwnFragment, known: Mapping[str, str]
) -> ForeignFragment:
    """Take a fragment of another lineage over by giving its files a second name.

    Its rows get row ids and versions of their own in the target, as if they were written there.
    The digests `known` of its files stay what they were when these were written: taken anew, they
    would declare right what was damaged since.
    """
    stated = json.loads(fragment.metadata)
    digests = []
    for name in fragment.files:
        stem = name.removesuffix(".lance")
        taken = f"{layout.DATA_DIR}/{stem.rpartition('/')[2]}"
        beside = [info.name for info in tables.objects.list(stem)]  # large blobs
        for one in (name, *beside):
            other = taken + one.removeprefix(stem)
            tables.objects.link(one, f"{target.home}/{other}")
            if one in known:
                digests.append((other, known[one]))
    stated["id"] = 0
    stated["files"] = [{**file, "base_id": None} for file in stated["files"]]
    for note in ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta"):
        stated[note] = None
    return ForeignFragment(target.home, fragment.rows, json.dumps(stated), tuple(digests))


def accepted(
    tables: Tables, base: Handle, fragments: Sequence[ForeignFragment]
) -> list[FragmentMetadata]:
    """Return the fragments in Lance's form, having checked that they belong here and are whole.

    Raises:
        ConflictError: the table was replaced, or its columns changed, since they were written.
        StorageError: a file is missing or not as long as it was written.
    """
    strangers = {part.home for part in fragments} - {base.files_at}
    if strangers:
        raise ConflictError(
            f"fragments were written for {', '.join(sorted(strangers))}, not for {base.files_at}",
            hint="the table was replaced meanwhile; run the load again",
        )
    parsed = [FragmentMetadata.from_json(part.metadata) for part in fragments]
    files = [file for part in parsed for file in part.files]
    if len({file.path for file in files}) != len(files):
        raise BadRequestError(f"a fragment of {base.location} is given twice")
    columns = [_ids_below([column]) for column in base.dataset.lance_schema.fields()]
    for part in parsed:
        covered = {number for file in part.files for number in file.fields}
        whole = all(covered & ids for ids in columns) and covered <= set().union(*columns)
        if not whole or part.deletion_file is not None:
            raise ConflictError(
                f"a fragment does not have the columns of {base}",
                hint="the columns changed meanwhile; run the load again",
            )
    _require_whole(tables, base, ((file.path, file.file_size_bytes) for file in files))
    return parsed


def _ids_below(columns: Sequence[Any]) -> set[int]:
    """Return the ids of columns and of everything nested in them; files name only the leaves."""
    ids = {column.id() for column in columns}
    return ids.union(*(_ids_below(column.children()) for column in columns))


def _require_whole(tables: Tables, base: Handle, files: Iterable[tuple[str, int | None]]) -> None:
    names = {f"{base.files_at}/{layout.DATA_DIR}/{path}": size for path, size in files}
    found = tables.objects.together(*(partial(tables.objects.info, name) for name in names))
    for (name, size), info in zip(names.items(), found, strict=True):
        if info is None or (size and info.size != size):
            state = "missing" if info is None else f"{info.size} bytes long instead of {size}"
            raise StorageError(f"'{name}' is {state}", hint="run the load again")
