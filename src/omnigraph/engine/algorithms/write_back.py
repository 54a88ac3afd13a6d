"""What an algorithm found becomes a property of its nodes: one commit, or nothing."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint, keep, unstoppable
from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.catalog.model import ID, Catalog, NodeType
from omnigraph.compiler.types import FLOATS, INTEGERS
from omnigraph.engine.algorithms.chosen import Chosen
from omnigraph.engine.algorithms.results import TYPE
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.commit import commit_changes
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.storage.commit.session import UNCONDITIONAL, WriteSession


def check_property(chosen: Chosen, name: str, *, whole: bool) -> None:
    """Return only if every chosen node type can hold what an algorithm finds.

    Args:
        chosen: the types.
        name: the property.
        whole: whether it finds whole numbers, which may be kept as such or as doubles.

    Raises:
        NotFoundError: a type has no such property.
        BadRequestError: the property is of another type, or part of a key.
    """
    if not isinstance(name, str):
        raise BadRequestError(f"write is the name of a property, not {type(name).__name__}")
    for node in chosen.nodes:
        prop = node.properties.get(name)
        if prop is None:
            raise NotFoundError(
                f"{node.name} has no property '{name}'",
                hint="add it to the schema, or name in `nodes` the types that have it",
            )
        if name in node.key:
            raise BadRequestError(f"{node.name}.{name} is part of the key, which never changes")
        fits = prop.type.scalar in (INTEGERS | FLOATS if whole else FLOATS)
        if not fits or prop.type.is_list:
            wanted = "I64 or another number" if whole else "F64 or F32"
            raise BadRequestError(
                f"{node.name}.{name} is {prop.type}", hint=f"make it {wanted} to hold this"
            )


def write_back(
    session: WriteSession, catalog: Catalog, chosen: Chosen, found: pa.Table, name: str
) -> str:
    """Give nodes what was found for them, and others of their types null; return the commit.

    The session must be of the state the values were found in. Rows that have their value already
    are not written; without any others nothing is, and the commit is that of the state.

    Raises:
        ConstraintError: a value breaks a rule of the schema; nothing was written.
        ConflictError: somebody changed a table meanwhile; run it again.
    """
    value = found.column_names[-1]
    tables = {}
    for node in chosen.nodes:
        own = found.filter(pc.equal(found[TYPE], node.name))
        rows = _changed(session, node, own[ID], own[value], name)
        if len(rows):
            tables[node.table_key] = TableChange(rows, updates=True)
    if not tables:
        return str(session.base.commit_id)
    checkpoint("commit")
    with unstoppable():
        made = commit_changes(session, ChangeSet(tables), catalog, UNCONDITIONAL, None)
    return str(made.commit.id)


def _changed(
    session: WriteSession, node: NodeType, ids: pa.ChunkedArray, values: pa.ChunkedArray, name: str
) -> pa.Table:
    """Return the rows of a type whose value differs, with the new one."""
    reader = session.base.open(node.table_key)
    kind = arrow_type(node.properties[name].type)
    fresh = _fitted(values, kind, f"{node.name}.{name}")
    known = ids.combine_chunks()
    parts = []
    for batch in reader.batches():
        rows = pa.Table.from_batches([batch])
        at = pc.index_in(rows[ID], value_set=known)
        column = fresh.take(at)
        old = rows[name]
        same = pc.or_kleene(
            pc.fill_null(pc.equal(old, column), False), pc.and_(old.is_null(), column.is_null())
        )
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place).with_nullable(True)
        changed = rows.set_column(place, field, column).filter(pc.invert(same))
        keep("write", changed.nbytes)
        parts.append(changed)
    return pa.concat_tables(parts) if parts else reader.schema.empty_table()


def _fitted(values: pa.ChunkedArray, kind: pa.DataType, prop: str) -> pa.ChunkedArray:
    try:
        # A double goes into a smaller one by rounding, as everywhere; a count must stay what it is.
        return values.cast(kind, safe=pa.types.is_integer(kind))
    except pa.ArrowInvalid as error:
        raise BadRequestError(
            f"{prop} is too small for what was found: {error}", hint="make it I64"
        ) from error
