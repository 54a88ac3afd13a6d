"""Columns under other names: which column of a file is which property, end or id.

A mapping is a value, or a file that `schema infer` writes beside the schema it drafts:

    types:
      Customer:
        columns: {"Customer ID": customer_id, "Full name": full_name}
        ignore: [Notes]
        files: [customers 2024.csv]
        delimiter: ";"
        encoding: windows-1252
      Bought:
        columns: {source: from, target: to}

`files` have rows of the type whatever they are called; they are found beside the mapping. Under `*`
stand files that say the types of their rows themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.config.document import Document
from omnigraph.errors import NotFoundError
from omnigraph.pipeline.inputs.dialect import delimiter_named, encoding_named
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.model import AS_THEY_ARE, ColumnMap, Columns, InputError

ANY_TYPE = "*"
"""Stands for whatever type has no columns of its own in a mapping."""


def columns_of(mapping: ColumnMap, type_name: str) -> Columns:
    """Return how the files of a type are read."""
    return mapping.get(type_name) or mapping.get(ANY_TYPE) or AS_THEY_ARE


def type_of(mapping: ColumnMap, file: InputFile) -> str | None:
    """Return the type a mapping says the rows of a file are of."""
    for name, columns in mapping.items():
        if name != ANY_TYPE and any(Path(one).name == file.parts.name for one in columns.files):
            return name
    return None


def asked_columns(
    mapping: str | Path | None,
    names: Mapping[str, str] | None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> ColumnMap:
    """Return the mapping of a file, with what is said for all types over it.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it says something that cannot be.
        BadRequestError: the delimiter or the encoding is none.
    """
    said: dict[str, Any] = {}
    if delimiter is not None:
        said["delimiter"] = delimiter_named(delimiter)
    if encoding is not None:
        said["encoding"] = encoding_named(encoding)
    found = {} if mapping is None else _of_file(Path(mapping))
    if not names and not said:
        return found
    over = {kind: columns_of(found, kind) for kind in {*found, ANY_TYPE}}
    return {
        kind: replace(columns, names={**(names or {}), **columns.names}, **said)
        for kind, columns in over.items()
    }


def mapped_files(mapping: str | Path) -> list[str]:
    """Return the files a mapping names, which lie beside it.

    Raises:
        NotFoundError: there is no such mapping.
        ConfigError: it says something that cannot be.
    """
    path = Path(mapping)
    return [str(path.parent / one) for columns in _of_file(path).values() for one in columns.files]


def _of_file(path: Path) -> ColumnMap:
    try:
        return read_mapping(decode(path.read_bytes(), str(path)))
    except FileNotFoundError:
        raise NotFoundError(f"mapping file '{path}' not found") from None
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"mapping file '{path}' cannot be read: {why}") from None


def read_mapping(source: Source) -> ColumnMap:
    """Return what a mapping file says.

    Raises:
        ConfigError: it says something that cannot be; with the place.
    """
    root = Document(source).root()
    found: dict[str, Columns] = {}
    for name, section in root.sections("types").items():
        names = section.all_texts("columns")
        twice = sorted({one for one in names.values() if list(names.values()).count(one) > 1})
        if twice:
            raise section.refuse(f"two columns of {name} are called `{twice[0]}`", "columns")
        found[name] = Columns(
            names,
            frozenset(section.texts("ignore", any_text=True)),
            section.parsed("delimiter", lambda text, _: delimiter_named(text), None),
            section.parsed("encoding", lambda text, _: encoding_named(text), None),
            section.texts("files"),
        )
        section.close()
    root.close()
    return found


def mapping_text(mapping: ColumnMap) -> str:
    """Return the file that says a mapping."""
    types = {name: _section(columns) for name, columns in mapping.items()}
    return str(yaml.safe_dump({"types": types}, allow_unicode=True, sort_keys=False))


def _section(columns: Columns) -> dict[str, Any]:
    said = {
        "columns": dict(columns.names),
        "ignore": sorted(columns.ignored),
        "delimiter": columns.delimiter,
        "encoding": columns.encoding,
        "files": list(columns.files),
    }
    return {key: value for key, value in said.items() if value}
