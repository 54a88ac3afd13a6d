"""The files of a template into a folder."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

from omnigraph.errors import BadRequestError, StorageError

Template = Literal["company"]
_SUFFIXES = (".pg", ".gq", ".jsonl")
"""The schema, queries, and rows."""


def copy_template(name: Template, folder: Path) -> tuple[Path, Path, Path]:
    """Write the schema, the queries and the rows of a template; return where they are.

    Raises:
        BadRequestError: one of these files is there already; then none is written.
        StorageError: a file cannot be written.
    """
    schema, queries, rows = (folder / f"{name}{suffix}" for suffix in _SUFFIXES)
    for path in (schema, queries, rows):
        if path.exists():
            raise BadRequestError(f"'{path}' exists", hint="move it away, or use another folder")
    for path in (schema, queries, rows):
        text = files(__package__).joinpath(path.name).read_text(encoding="utf-8")
        try:
            with path.open("x", encoding="utf-8") as target:
                target.write(text)
        except OSError as error:
            raise StorageError(f"cannot write '{path}': {error.strerror}") from error
    return schema, queries, rows
