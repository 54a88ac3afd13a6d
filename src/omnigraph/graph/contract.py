"""The files that record an accepted schema, and the catalogs made from them."""

from __future__ import annotations

import orjson

from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.build import LoadedSchema, catalog_of
from omnigraph.compiler.catalog.ir_json import from_json, schema_hash, to_json
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.catalog.schema_ir import SchemaIr
from omnigraph.storage.create import TableSpec
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore

SCHEMA_FILE, IR_FILE, STATE_FILE = "_schema.pg", "_schema.ir.json", "__schema_state.json"


def contract_files(text: str, loaded: LoadedSchema) -> dict[str, bytes]:
    """Return the files that record an accepted schema: its text, its meaning, its hash."""
    state = {
        "format_version": 1,
        "schema_ir_hash": schema_hash(loaded.ir),
        "schema_identity_version": 1,
    }
    return {
        SCHEMA_FILE: text.encode(),
        IR_FILE: to_json(loaded.ir).encode(),
        STATE_FILE: orjson.dumps(state, option=orjson.OPT_INDENT_2),
    }


def table_specs(catalog: Catalog) -> list[TableSpec]:
    """Return the tables a schema needs."""
    kinds: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return [TableSpec(TableKey(kind.table_key), arrow_schema(kind)) for kind in kinds]


def accepted_ir(store: GraphStore) -> SchemaIr:
    """Return the meaning of the accepted schema, ids included."""
    return from_json(store.read_file(IR_FILE))


class Catalogs:
    """What schemas mean, by the digest a snapshot states; a schema is read once."""

    def __init__(self) -> None:
        self._known: dict[str, Catalog] = {}

    def of(self, store: GraphStore, snapshot: Snapshot) -> Catalog:
        """Return the catalog a snapshot was written under."""
        digest = snapshot.files[IR_FILE]
        found = self._known.get(digest)
        if found is None:
            found = catalog_of(from_json(store.read_file(IR_FILE, snapshot)))
            self._known[digest] = found
        return found
