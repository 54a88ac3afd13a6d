"""Embedding without a graph: JSON lines in, the same lines with vectors out.

Rows pass by in batches, so a file of any size fits. A line that is not touched is written as it
was read, byte for byte. The output appears whole, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from omnigraph.api.progress import Progress, listening
from omnigraph.api.words import EmbedMode
from omnigraph.api.writes import FileEmbedResult
from omnigraph.engine.search.embedder import Embedder
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.pipeline.embed.spec import EmbedFiles, EmbedSpec, Selector, TypeSpec
from omnigraph.pipeline.inputs.plain_lines import compression_of, is_device, read_lines
from omnigraph.pipeline.model import UnreadableError

_BATCH = 512
_SURROGATE = rb"\ud"
"""How every surrogate begins where it is escaped; a lone one is no text."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows, and what happens to them."""

    mode: EmbedMode = "fill_missing"
    types: frozenset[str] = frozenset()
    selectors: tuple[Selector, ...] = ()


def choice_of(
    types: Sequence[str], selectors: tuple[Selector, ...], *, clean: bool, all_rows: bool
) -> Choice:
    """Return what flags mean; selected rows are embedded again unless something else is asked.

    Raises:
        BadRequestError: cleaning and embedding are both asked for.
    """
    if clean and all_rows:
        raise BadRequestError("--clean and --reembed-all exclude each other", hint="drop one")
    mode: EmbedMode = "fill_missing"
    if clean:
        mode = "clean"
    elif all_rows:
        mode = "reembed_all"
    elif selectors:
        mode = "reembed_selected"
    return Choice(mode, frozenset(types), selectors)


@dataclass(slots=True)
class _Report:
    """What a job has done so far."""

    mode: EmbedMode
    rows: int = 0
    selected_rows: int = 0
    embedded_rows: int = 0
    cleaned_rows: int = 0


@dataclass(slots=True)
class _Row:
    """One line; `record` is there when the line is a node that may change."""

    text: bytes
    record: dict[str, Any] | None = None
    spec: TypeSpec | None = None
    changed: bool = field(default=False)

    def written(self) -> bytes:
        if not self.changed:
            return self.text
        return json.dumps(self.record, ensure_ascii=False, separators=(",", ":")).encode()


def embed_files(
    files: EmbedFiles, choice: Choice, embedder: Embedder | None, progress: Progress | None = None
) -> FileEmbedResult:
    """Run an offline job.

    Args:
        files: what to read, what to write, what to make.
        choice: which rows, and whether vectors are filled, made again or removed.
        embedder: makes the vectors; removing needs none.
        progress: hears about batches.

    Raises:
        BadRequestError: a line is not a row; names the line.
        EmbeddingError: the embedder failed; nothing was written.
    """
    report = _Report(choice.mode)
    shown = listening(progress)
    is_final = is_device(files.output)  # nothing may take its place
    temp = files.output if is_final else files.output.with_name(files.output.name + ".tmp")
    try:
        files.output.parent.mkdir(parents=True, exist_ok=True)
        with pa.output_stream(str(temp), compression=compression_of(files.output)) as sink:
            shown.stage("embed", 0)
            rows = _rows(files, choice, report)
            while batch := list(islice(rows, _BATCH)):
                before = report.embedded_rows
                _embed(batch, files.spec, choice, embedder, report)
                for row in batch:
                    sink.write(row.written() + b"\n")
                shown.done(report.embedded_rows - before, 0)
        if not is_final:
            temp.replace(files.output)
    except UnreadableError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write '{files.output}': {error}") from error
    finally:
        if not is_final:
            temp.unlink(missing_ok=True)
    return FileEmbedResult(
        str(files.source),
        str(files.output),
        report.rows,
        report.selected_rows,
        report.embedded_rows,
        report.cleaned_rows,
        report.mode,
        files.spec.dimension,
        files.spec.model if embedder is None else embedder.space,
    )


def _rows(files: EmbedFiles, choice: Choice, report: _Report) -> Iterator[_Row]:
    for number, text in read_lines(files.source):
        if text.startswith(b"//"):
            yield _Row(text)
            continue
        report.rows += 1
        yield _row(text, number, files, choice, report)


def _row(text: bytes, number: int, files: EmbedFiles, choice: Choice, report: _Report) -> _Row:
    try:
        record = json.loads(text, parse_constant=_refuse)
        if _SURROGATE in text.lower():
            json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{files.source}: line {number} is not valid JSON: {error}") from None
    if not isinstance(record, dict):
        raise BadRequestError(f"{files.source}: line {number} is not a JSON object")
    kind = record.get("type")
    if not isinstance(kind, str):
        return _Row(text)  # an edge
    data = record.get("data")
    if not isinstance(data, dict):
        raise BadRequestError(f"{files.source}: line {number}: `data` of a {kind} is not an object")
    spec = files.spec.types.get(kind)
    if spec is None or not _is_selected(kind, data, choice):
        return _Row(text)
    report.selected_rows += 1
    return _Row(text, record, spec)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _is_selected(kind: str, data: dict[str, Any], choice: Choice) -> bool:
    if choice.types and kind not in choice.types:
        return False
    return not choice.selectors or any(
        selector.type_name in (None, kind) and rendered(data.get(selector.field)) == selector.value
        for selector in choice.selectors
    )


def _embed(
    batch: Sequence[_Row],
    spec: EmbedSpec,
    choice: Choice,
    embedder: Embedder | None,
    report: _Report,
) -> None:
    """Fill or remove the vectors of a batch, in place."""
    texts: list[str] = []
    wanting: list[_Row] = []
    for row in batch:
        if row.record is None or row.spec is None:
            continue
        data = row.record["data"]
        if choice.mode == "clean":
            row.changed = data.pop(row.spec.target, _ABSENT) is not _ABSENT
            report.cleaned_rows += row.changed
        elif choice.mode != "fill_missing" or not data.get(row.spec.target):
            texts.append(embedding_text(row.record["type"], data, row.spec.fields))
            wanting.append(row)
    if not texts:
        return
    if embedder is None:
        raise BadRequestError("no embedder is configured")
    vectors = embedder.embed_documents(texts, spec.dimension)
    for row, vector in zip(wanting, vectors, strict=True):
        assert row.record is not None
        assert row.spec is not None
        # The shortest text that reads back as the same 32-bit number.
        row.record["data"][row.spec.target] = [float(str(one)) for one in vector]
        row.changed = True
    report.embedded_rows += len(wanting)


_ABSENT = object()


def embedding_text(kind: str, data: dict[str, Any], fields: Sequence[str]) -> str:
    r"""Return the text a row is embedded as: its type, then every field that says something.

    >>> embedding_text("Doc", {"title": " Hi ", "tags": ["a", "", "b"]}, ["title", "tags", "n"])
    'type: Doc\\ntitle: Hi\\ntags: a, b'
    """
    parts = [(name, rendered(data.get(name))) for name in fields]
    return "\n".join([f"type: {kind}", *(f"{name}: {text}" for name, text in parts if text)])


def rendered(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Return a JSON value as plain text; null is nothing."""
    match value:
        case None:
            return ""
        case str():
            return value.strip()
        case list():
            return ", ".join(text for text in map(rendered, value) if text)
        case _:
            return json.dumps(value, ensure_ascii=False)
