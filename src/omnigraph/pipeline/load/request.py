"""When two loads are the same request: what is read, and what is to become of it.

A file on disk, a stream and a table are their content, whatever they are called. An object in a
store is its size and the time of its upload: to read it twice would double the cost of a load. A
Spark frame is its columns and the sum of its rows, which come in any order and number of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from omnigraph.pipeline.inputs.dialect import PLAIN
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.sources import Source, TableSource
from omnigraph.pipeline.model import AS_THEY_ARE, LoadOptions, UnreadableError
from omnigraph.storage.commit.session import Preconditions


def request_of(
    key: str, sources: Sequence[Source], options: LoadOptions, actor: str | None
) -> Preconditions:
    """Return what a load under a key is: the same key must not stand for another one.

    The branch does not belong to it, since keys are remembered per branch; neither does who does
    the work.

    Raises:
        UnreadableError: a file cannot be read.
    """
    contents: list[Any] = []
    for source in sources:
        one = _content(source)
        if not (contents and source.frame is not None and contents[-1] == one):
            contents.append(one)  # files of one frame are one
    asked = ["load", str(options.mode), options.on_error, actor, contents]
    digest = hashlib.sha256(orjson.dumps(asked)).hexdigest()
    return Preconditions(idempotency_key=key, request_hash=digest)


def _content(source: Source) -> list[Any]:
    columns = getattr(source, "columns", AS_THEY_ARE)
    if columns == AS_THEY_ARE:
        return _as_it_is(source)
    return [*_as_it_is(source), sorted(columns.names.items()), sorted(columns.ignored)]


def _as_it_is(source: Source) -> list[Any]:
    if not isinstance(source, TableSource):
        return ["lines", source.compression, _of_file(source.path)]
    if source.frame is not None:
        return ["frame", source.table_key, source.frame]
    written = [] if source.dialect == PLAIN else [source.dialect.delimiter, source.dialect.encoding]
    return [source.format, source.table_key, _of_file(source.path), *written]


def _of_file(file: InputFile) -> list[Any]:
    if file.s3 is not None:
        return [file.size, file.uploaded_ns]
    try:
        with Path(file.path).open("rb") as opened:
            return [hashlib.file_digest(opened, "sha256").hexdigest()]
    except OSError as error:
        raise UnreadableError(f"{file.name} cannot be read: {error}") from error
