"""The files that record an accepted schema, and the catalogs made from them."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from omnigraph.api.texts import SchemaStep
from omnigraph.base.ids import TableKey
from omnigraph.base.recent import Recent
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.build import LoadedSchema, catalog_of
from omnigraph.compiler.catalog.identity import with_renames
from omnigraph.compiler.catalog.ir_json import from_json, schema_hash, to_json
from omnigraph.compiler.catalog.migration import plan_schema_migration
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.catalog.schema_ir import SchemaIr
from omnigraph.compiler.catalog.steps import Step, UnsupportedChange, describe, step_to_json
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.contracts import read_contract
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore

SCHEMA_FILE, IR_FILE, STATE_FILE = "_schema.pg", "_schema.ir.json", "__schema_state.json"

_CATALOGS = 64
"""Schemas in use at a time: one per branch and past state somebody reads."""


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


def accepted_ir(store: GraphStore, state: Snapshot | None = None) -> SchemaIr:
    """Return the meaning of the schema of a state, ids included; of main as it is if none."""
    return from_json(store.read_file(IR_FILE, state))


def stated_ir(kernel: Kernel, digest: str) -> SchemaIr:
    """Return the meaning that a commit states by its digest."""
    return from_json(read_contract(kernel, IR_FILE, digest))


class Catalogs:
    """What schemas mean, by the digest a snapshot states; a schema is read once. Thread-safe."""

    def __init__(self) -> None:
        self._known: Recent[str, Catalog] = Recent(_CATALOGS)

    def of(self, snapshot: Snapshot) -> Catalog:
        """Return the catalog a snapshot was written under."""
        return self.stated(snapshot.kernel, snapshot.files)

    def stated(self, kernel: Kernel, files: Mapping[str, str]) -> Catalog:
        """Return the catalog that the digests of contract files stand for."""
        digest = files[IR_FILE]
        found = self._known.find(digest)
        if found is None:
            found = self._known.keep(digest, catalog_of(stated_ir(kernel, digest)))
        return found


def schema_step(step: Step) -> SchemaStep:
    """Return a step of a migration as every surface shows it."""
    facts = step_to_json(step)
    hint = step.hint if isinstance(step, UnsupportedChange) else None
    kept = {name: fact for name, fact in facts.items() if name not in ("kind", "hint")}
    return SchemaStep(facts["kind"], kept, describe(step), hint)


def steps_between(
    store: GraphStore, before: Snapshot | None, after: Snapshot
) -> tuple[SchemaStep, ...]:
    """Return what happened to the schema between two states; all of it, if there is none before."""
    if before is not None and before.files[IR_FILE] == after.files[IR_FILE]:
        return ()
    old = SchemaIr() if before is None else accepted_ir(store, before)
    return steps_from(old, accepted_ir(store, after))


def steps_from(old: SchemaIr, new: SchemaIr) -> tuple[SchemaStep, ...]:
    """Return the steps from one accepted schema to another of the same graph."""
    plan = plan_schema_migration(old, with_renames(old, new), allow_data_loss=True)
    return tuple(map(schema_step, plan.steps))
