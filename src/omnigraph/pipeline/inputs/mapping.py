"""Columns under other names: which column of a file is which property, end or id.

A mapping is a value, or a file that `schema infer` writes beside the schema it drafts:

    types:
      Customer:
        columns: {"Customer ID": customer_id, "Full name": full_name}
        ignore: [Notes]
      Bought:
        columns: {source: from, target: to}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.config.document import Document
from omnigraph.errors import NotFoundError
from omnigraph.pipeline.model import AS_THEY_ARE, ColumnMap, Columns, InputError

ANY_TYPE = "*"
"""Stands for whatever type has no columns of its own in a mapping."""


def columns_of(mapping: ColumnMap, type_name: str) -> Columns:
    """Return how the files of a type are read."""
    return mapping.get(type_name) or mapping.get(ANY_TYPE) or AS_THEY_ARE


def asked_columns(mapping: str | Path | None, names: Mapping[str, str] | None) -> ColumnMap:
    """Return the mapping of a file, with some columns called otherwise whatever their type.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it says something that cannot be.
    """
    return _merged({} if mapping is None else _of_file(Path(mapping)), names)


def _of_file(path: Path) -> ColumnMap:
    try:
        return read_mapping(decode(path.read_bytes(), str(path)))
    except FileNotFoundError:
        raise NotFoundError(f"mapping file '{path}' not found") from None
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"mapping file '{path}' cannot be read: {why}") from None


def _merged(mapping: ColumnMap, names: Mapping[str, str] | None) -> ColumnMap:
    if not names:
        return mapping
    kinds = {*mapping, ANY_TYPE}
    return {
        kind: Columns(
            {**names, **columns_of(mapping, kind).names}, columns_of(mapping, kind).ignored
        )
        for kind in kinds
    }


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
        found[name] = Columns(names, frozenset(section.texts("ignore")))
        section.close()
    root.close()
    return found


def mapping_text(mapping: ColumnMap) -> str:
    """Return the file that says a mapping."""
    types = {
        name: {
            "columns": dict(columns.names),
            **({"ignore": sorted(columns.ignored)} if columns.ignored else {}),
        }
        for name, columns in mapping.items()
    }
    return str(yaml.safe_dump({"types": types}, allow_unicode=True, sort_keys=False))
