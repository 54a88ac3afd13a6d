"""The schema of a branch: planned, applied, compared, and as it was before."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from omnigraph.api.protocols import Text
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory, SchemaVersion
from omnigraph.api.stored import BrokenQuery
from omnigraph.api.texts import SchemaPlan
from omnigraph.api.words import Moment
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.ir_json import schema_hash
from omnigraph.compiler.catalog.migration import plan_schema_migration
from omnigraph.compiler.catalog.schema_ir import SchemaIr
from omnigraph.compiler.source import Source
from omnigraph.config.texts import read_text
from omnigraph.engine.contract import IR_FILE, accepted_ir, schema_step, stated_ir, steps_from
from omnigraph.engine.schema.apply import Request, apply_schema
from omnigraph.graph.changes import resolve_state
from omnigraph.graph.requests import check_labels
from omnigraph.graph.state import GraphState
from omnigraph.graph.turns import TURNS
from omnigraph.storage.manifest.line import Line

log = logging.getLogger("omnigraph.stored")


def plan(state: GraphState, schema: Text, branch: str, *, allow_data_loss: bool) -> SchemaPlan:
    """Return the steps from the schema of a branch to a new one; nothing is changed."""
    accepted = accepted_ir(state.store, state.snapshot(branch))
    desired = load_schema(read_text(schema), accepted).ir
    found = plan_schema_migration(accepted, desired, allow_data_loss)
    return SchemaPlan(state.uri, found.supported, tuple(map(schema_step, found.steps)))


def apply(
    state: GraphState,
    schema: Text,
    branch: str,
    *,
    allow_data_loss: bool,
    preview: bool,
    actor: str | None,
    message: str | None,
) -> SchemaApplied:
    """Make a text the schema of a branch; see `Graph.apply_schema`."""
    check_labels(branch=branch, actor=actor, message=message)
    source = read_text(schema)
    request = Request(source, branch, allow_data_loss, preview, actor, message)
    with TURNS.writing(), state.job_budget(None):
        done = apply_schema(state.store, request)
    return SchemaApplied(
        state.uri,
        supported=True,
        applied=done.commit is not None,
        manifest_version=done.state.manifest_version,
        steps=done.steps,
        branch=str(done.state.branch),
        graph_commit_id=None if done.commit is None else str(done.commit.id),
        preview=preview,
        broken_queries=_broken(state, source),
    )


def _broken(state: GraphState, schema: Source) -> tuple[BrokenQuery, ...]:
    """Return the stored queries that a schema leaves without a meaning, told to the log as well.

    It is no reason to refuse a schema: their files may be the next thing that is changed.
    """
    found = state.stored.broken(load_schema(schema).catalog)
    for one in found:
        log.warning("%s", one.message)
    return tuple(BrokenQuery(one.query or "", one.message) for one in found)


def diff(state: GraphState, a: Moment | Text, b: Moment | Text) -> SchemaDiff:
    """Return the steps from one schema to another; see `Graph.diff_schema`."""
    before = _meant(state, a, None)
    return SchemaDiff(_named(a), _named(b), steps_from(before, _meant(state, b, before)))


def _meant(state: GraphState, place: Moment | Text, before: SchemaIr | None) -> SchemaIr:
    """Return the schema of a state of the graph, or of a text or file.

    A text says who is who by names, so it is read as what the schema before it is to become.
    """
    if isinstance(place, int):
        return accepted_ir(state.store, resolve_state(state.store, place))
    if isinstance(place, str) and not ("{" in place or place.rstrip().endswith(".pg")):
        return accepted_ir(state.store, resolve_state(state.store, place))
    return load_schema(read_text(place), before or accepted_ir(state.store)).ir


def _named(place: Moment | Text) -> str:
    if isinstance(place, str) and "{" in place:
        return "a text"
    return str(getattr(place, "name", place))


def history(state: GraphState, branch: str) -> SchemaHistory:
    """Return the commits of a branch that changed its schema, newest first."""
    found = list(_versions(state, state.store.line(branch)))
    return SchemaHistory(branch, tuple(reversed(found)))


def _versions(state: GraphState, line: Line) -> Iterator[SchemaVersion]:
    known, digest = SchemaIr(), None
    for commit in line.commits:
        files = line.files_after(commit.sequence)
        if files[IR_FILE] == digest:
            continue
        digest = files[IR_FILE]
        now = stated_ir(state.store.kernel, digest)
        yield SchemaVersion(
            str(commit.id),
            commit.manifest_version,
            schema_hash(now),
            commit.created_at_us,
            commit.actor,
            steps_from(known, now),
            commit.message,
        )
        known = now
