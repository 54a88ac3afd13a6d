"""A first schema from files, and the mapping under which they load into it: to go on from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.model import ID
from omnigraph.compiler.schema.format import format_schema
from omnigraph.compiler.source import Source
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.errors import BadRequestError
from omnigraph.pipeline.infer.guess import Seen, guessed
from omnigraph.pipeline.infer.kinds import SeenKind
from omnigraph.pipeline.infer.names import is_property, property_name, snake_case
from omnigraph.pipeline.infer.read import Looking
from omnigraph.pipeline.inputs.dialect import delimiter_named, encoding_named
from omnigraph.pipeline.inputs.files import plain_stem
from omnigraph.pipeline.inputs.mapping import ANY_TYPE
from omnigraph.pipeline.model import ColumnMap, Columns, InputError

SAMPLE_ROWS = 100_000
_KEYS = ("key", "slug", "uuid", "code", "name", "email", "title")
_KEY_SCALARS = frozenset(
    {Scalar.STRING, Scalar.I64, Scalar.U64, Scalar.I32, Scalar.U32, Scalar.DATE}
)
_ID_KINDS = frozenset({Scalar.STRING, Scalar.I64, Scalar.U64, Scalar.DATE})
_ENDS = ("from", "to")
_LOADED_ENDS = (("from", "to"), ("src", "dst"))


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted schema and what it was drafted from."""

    text: str
    rows: int
    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    notes: tuple[str, ...]
    mapping: ColumnMap = field(default_factory=dict)
    """What the columns of the files are called in the schema, and which files these are."""
    needs_mapping: bool = False
    """Whether the files are refused without it."""


@dataclass(slots=True)
class _Drafted:
    """One type as it is written down."""

    kind: SeenKind
    names: dict[str, str] = field(default_factory=dict)
    """By column, what it is called here; `id` is the row's own."""
    types: dict[str, PropType] = field(default_factory=dict)
    """By column that is a property."""
    key: str | None = None
    """The column that is the key."""
    unheld: dict[str, str] = field(default_factory=dict)
    """By column that is none, why."""

    def columns(self, written: Columns) -> Columns:
        """Return how its files are read."""
        names = {column: name for column, name in self.names.items() if column != name}
        ends = self.kind.end_columns
        if ends is not None and ends not in _LOADED_ENDS:
            names |= dict(zip(ends, _ENDS, strict=True))
        ignored = frozenset(self.unheld)
        return Columns(names, ignored, written.delimiter, written.encoding)


def infer_schema(
    files: Sequence[str | Path],
    sample_rows: int = SAMPLE_ROWS,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    beside: str | Path | None = None,
) -> Draft:
    """Return a schema that the rows of some files fit, and what their columns are called in it.

    Args:
        files: JSON lines in the form `load` takes; plain objects, in lines or arrays; CSV, Parquet
            and Arrow files. Rows that do not say their type are of one that is named like the file.
        sample_rows: how many rows of each file are looked at.
        delimiter: what stands between the cells of CSV files; seen from their headers unless said.
        encoding: what CSV files are written in; UTF-8 or as their first bytes say unless said.
        beside: the folder the mapping will be in, from which it names the files.

    Raises:
        NotFoundError: a file does not exist.
        UnreadableError: a file is broken, or not of its kind.
        BadRequestError: a row is none, or the ends of an edge cannot be told.
    """
    if not files:
        raise BadRequestError("no file is given", hint="name the files to look at")
    said = Columns(
        delimiter=None if delimiter is None else delimiter_named(delimiter),
        encoding=None if encoding is None else encoding_named(encoding),
    )
    looking = Looking(sample_rows, said)
    for file in files:
        looking.look_at(Path(file))
    if not looking.kinds:
        raise InputError("the files have no rows", hint="a schema is drafted from rows")
    return _draft(looking, [str(file) for file in files], Path.cwd() if beside is None else beside)


def _draft(looking: Looking, files: list[str], beside: str | Path) -> Draft:
    drafted = [_drafted(kind) for kind in looking.kinds.values()]
    nodes = [one for one in drafted if not one.kind.is_edge]
    edges = [one for one in drafted if one.kind.is_edge]
    notes = list(looking.notes)
    lines = [
        f"// Drafted from {looking.rows} rows of {', '.join(map(repr, files))}.",
        "// Check the keys, what may be missing (?) and the types, then: omnigraph init",
        "",
    ]
    for one in nodes:
        lines += [f"node {one.kind.name} {{", *_properties(one, notes), "}", ""]
    for one in edges:
        start, end = (_end_type(one.kind, ids, nodes) for ids in one.kind.ends)
        head = f"edge {one.kind.name}: {start} -> {end}"
        body = _properties(one, notes)
        lines += [f"{head} {{", *body, "}", ""] if body else [head, ""]
    text = format_schema(Source("\n".join(lines)))
    load_schema(Source(text, "the draft"))  # what is handed out compiles
    names = [tuple(one.kind.name for one in group) for group in (nodes, edges)]
    mapping, needed = _mapping(drafted, looking, beside)
    return Draft(text, looking.rows, names[0], names[1], tuple(notes), mapping, needed)


def _drafted(kind: SeenKind) -> _Drafted:
    found = _Drafted(kind)
    types = {name: _type_of(kind, name, seen) for name, seen in kind.columns.items()}
    _settle_id(found, types)
    for column in kind.columns:
        if column in found.names or column in found.unheld:
            continue
        kept = types[column]
        if kept is None:
            what = ", ".join(sorted(kind.columns[column].odd)) or "values of different kinds"
            found.unheld[column] = f"no type holds {column} ({what})"
        elif not kind.is_flat and not is_property(column, of_edge=kind.is_edge):
            # The names in a frame are those of the schema; there is nothing to call them by.
            found.unheld[column] = f'"{column}" cannot be the name of a property; rename the column'
        else:
            name = property_name(
                column,
                kind.name,
                {*_kept(found, column), *found.names.values()},
                of_edge=kind.is_edge,
            )
            found.names[column], found.types[column] = name, kept
    if found.key is None and ID not in found.names.values() and not kind.is_edge:
        found.key = _named_key(found)
    return found


def _kept(found: _Drafted, column: str) -> set[str]:
    """Return the names that other columns have already, which this one is not given."""
    kind = found.kind
    return {
        name
        for name in kind.columns
        if name not in found.names and name != column and is_property(name, of_edge=kind.is_edge)
    }


def _settle_id(found: _Drafted, types: dict[str, PropType | None]) -> None:
    """Decide what the column of ids is: the key, ids without a key, or a property like others."""
    kind, column, ids = found.kind, found.kind.id_column, found.kind.ids
    if column is None or ids is None:
        return
    tells_apart = ids.values is not None and ids.kinds <= _ID_KINDS and not ids.odd
    same = None if kind.is_edge else _equal_key(found, types)
    if ids.present and tells_apart and (kind.is_edge or (kind.ids_are_ulids and ids.is_unique)):
        found.names[column] = ID
    elif same is not None:
        found.key = same
        if column == ID:
            found.names[column] = ID
        else:
            found.unheld[column] = f"{column} is left out: it says the same as {same}"
    elif not kind.is_edge and ids.is_unique and tells_apart:
        _make_key(found, column, types[column])
    elif not kind.is_flat:
        found.names[column] = ID


def _equal_key(found: _Drafted, types: dict[str, PropType | None]) -> str | None:
    """Return the column that is what the ids were made of, if there is one."""
    for column in found.kind.columns:
        if column in (found.kind.equal_ids or ()) and found.kind.columns[column].is_unique:
            kept = types[column]
            if kept is not None and not kept.is_list and kept.scalar in _KEY_SCALARS:
                return column
    return None


def _make_key(found: _Drafted, column: str, kept: PropType | None) -> None:
    kind = found.kind
    if kept is None or kept.scalar is Scalar.STRING or not kind.is_flat:
        found.names[column], found.types[column] = ID, PropType(Scalar.STRING)
    else:
        wanted = f"{snake_case(kind.name)}_{ID}"
        name = property_name(wanted, kind.name, _kept(found, column), of_edge=False)
        found.names[column], found.types[column] = name, kept
    found.key = column


def _named_key(found: _Drafted) -> str | None:
    """Return the column that tells rows apart, if its name promises to."""
    kind = found.kind
    by_name = {name: column for column, name in found.names.items()}
    for name in (
        *_KEYS[:2],
        f"{snake_case(kind.name)}_{ID}",
        f"{kind.name.lower()}_{ID}",
        *_KEYS[2:],
    ):
        column = by_name.get(name)
        if column is None or not kind.columns[column].is_unique:
            continue
        kept = found.types[column]
        if not kept.is_list and kept.scalar in _KEY_SCALARS:
            return column
    return None


def _type_of(kind: SeenKind, name: str, seen: Seen) -> PropType | None:
    found = guessed(seen)
    width = kind.widths.get(name)
    if found is None or width is None or found.scalar is Scalar.VECTOR:
        return found
    return PropType(width, nullable=found.nullable, is_list=found.is_list)


def _properties(found: _Drafted, notes: list[str]) -> list[str]:
    lines = []
    for column, seen in found.kind.columns.items():
        if column in found.types:
            is_key = " @key" if column == found.key else ""
            lines.append(f"  {found.names[column]}: {found.types[column]}{is_key}")
            if not seen.present:
                name = found.names[column]
                notes.append(f"{found.kind.name}: {name} is always missing; its type is a guess")
        elif column in found.unheld:
            said = f"{found.kind.name}: {found.unheld[column]}"
            notes.append(said)
            lines.append(f"  // {' '.join(said.split())}")
    return lines


def _end_type(kind: SeenKind, ids: set[str], nodes: list[_Drafted]) -> str:
    """Return the node type that has most of the ids an edge names."""
    counted = [(len(ids & _ids_of(node)), node.kind.name) for node in nodes]
    best = max(counted, default=(0, ""), key=lambda one: one[0])
    if best[0]:
        return best[1]
    if len(nodes) == 1:
        return nodes[0].kind.name
    raise InputError(
        f"edge {kind.name}: its ends are ids of none of the given nodes",
        hint="give the files with its nodes as well",
    )


def _ids_of(node: _Drafted) -> set[str]:
    seen = node.kind.ids if node.key is None else node.kind.columns[node.key]
    return set() if seen is None else {str(value) for value in seen.values or ()}


def _mapping(
    drafted: list[_Drafted], looking: Looking, beside: str | Path
) -> tuple[ColumnMap, bool]:
    """Return what columns are called and of which files, and whether a load needs to be told."""
    found: dict[str, Columns] = {}
    needed = False
    for one in drafted:
        if not one.kind.is_flat:
            continue
        columns = one.columns(looking.written)
        names = [plain_stem(path.name) for path in one.kind.files]
        is_plain = columns == Columns() and all(name == one.kind.name for name in names)
        needed = needed or not is_plain
        files = _relative(one.kind.files, beside)
        found[one.kind.name] = Columns(
            columns.names, columns.ignored, columns.delimiter, columns.encoding, files
        )
    if looking.framed:
        found[ANY_TYPE] = Columns(files=_relative(looking.framed, beside))
    return found, needed


def _relative(files: Sequence[Path], beside: str | Path) -> tuple[str, ...]:
    return tuple(Path(os.path.relpath(file, beside)).as_posix() for file in files)
