"""The bytes of one Blob, straight from storage: too large to pass through images."""

from __future__ import annotations

from omnigraph.base.arguments import text_argument
from omnigraph.compiler.catalog.model import ID, Catalog
from omnigraph.compiler.types import Scalar
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.predicate import is_in


def blob_bytes(
    snapshot: Snapshot, catalog: Catalog, type_name: str, row_id: str, prop: str
) -> bytes | None:
    """Return the bytes of a Blob property of one node or edge; None if it has none.

    Raises:
        NotFoundError: no such type, property, node or edge.
        BadRequestError: the property is not a Blob, or an argument is no text.
    """
    text_argument(type_name, "the name of a type")
    text_argument(prop, "the name of a property")
    text_argument(row_id, "an id")
    kind = catalog.nodes.get(type_name) or catalog.edges.get(type_name)
    if kind is None:
        known = ", ".join([*catalog.nodes, *catalog.edges])
        raise NotFoundError(f"there is no type '{type_name}'", hint=f"there are {known}")
    found = kind.properties.get(prop)
    if found is None:
        known = ", ".join(kind.properties) or "none"
        raise NotFoundError(f"{type_name} has no property '{prop}'", hint=f"it has {known}")
    if found.type.scalar is not Scalar.BLOB:
        raise BadRequestError(
            f"{type_name}.{prop} is a {found.type}, not a Blob", hint="return it from a query"
        )
    rows = snapshot.open(kind.table_key).scan([prop], is_in(ID, [row_id]), blobs=True)
    if not rows.num_rows:
        raise NotFoundError(f"there is no {type_name} '{row_id}'", hint="ids are case-sensitive")
    value: bytes | None = rows.column(prop)[0].as_py()
    return value
