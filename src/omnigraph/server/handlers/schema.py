"""The schema: as it is or was, planned, applied, compared, and how it came to be."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.api.access import Action
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory, require_only_main
from omnigraph.api.texts import SchemaPlan, SchemaText
from omnigraph.base.ids import BranchName
from omnigraph.compiler.source import Source
from omnigraph.graph.changes import judged_state
from omnigraph.server.bodies import SchemaApplyBody, SchemaDiffBody, SchemaPlanBody
from omnigraph.server.call import Call
from omnigraph.server.handlers.reads import state_of
from omnigraph.server.problems import bad_request

SCHEMA_NAME = "<schema>"
"""What messages call the text of a request: a text that looks like a path must not become one."""


async def get_schema(call: Call) -> SchemaText:
    """Return the schema of main, of a branch, or of a commit."""
    branch, snapshot = call.one("branch"), call.one("snapshot")
    graph = call.graph
    if branch is None and snapshot is None:
        call.allow(Action.READ)
        return SchemaText(await call.look(lambda: graph.schema))
    named, at = await state_of(call, branch, snapshot)
    if at is None:
        return SchemaText(await call.look(lambda: graph.branch(named).schema))
    return SchemaText(await call.look(lambda: graph.at(at).schema))


async def plan_schema(call: Call) -> SchemaPlan:
    """Return the steps from the schema of a branch to another one; nothing is changed."""
    asked: SchemaPlanBody = call.body
    branch = call.canonical(asked.branch)
    call.allow(Action.READ, branch=branch)
    source, loses = Source(asked.schema_source, SCHEMA_NAME), bool(asked.allow_data_loss)
    graph = call.graph
    plan = await call.look(lambda: graph.plan_schema(source, allow_data_loss=loses, branch=branch))
    return replace(plan, uri=call.served.uri)


async def apply_schema(call: Call) -> SchemaApplied:
    """Make a text the schema of a branch: one commit, or nothing."""
    asked: SchemaApplyBody = call.body
    branch = call.canonical(asked.branch)
    call.allow(Action.SCHEMA_APPLY, target=branch)
    source, graph = Source(asked.schema_source, SCHEMA_NAME), call.graph
    if asked.only_main:
        require_only_main(await call.look(graph.branches.list))
    done = await call.write(
        lambda: graph.apply_schema(
            source,
            allow_data_loss=bool(asked.allow_data_loss),
            branch=branch,
            preview=bool(asked.preview),
            message=asked.message,
        )
    )
    return replace(done, uri=call.served.uri)


async def diff_schema(call: Call) -> SchemaDiff:
    """Return the steps from one schema to another, each of a state of the graph or a text."""
    asked: SchemaDiffBody = call.body
    before = await _schema(call, asked.before, asked.before_source)
    after = await _schema(call, asked.after, asked.after_source)
    graph = call.graph
    found = await call.look(lambda: graph.diff_schema(before, after))
    return replace(
        found,
        before=asked.before_name or asked.before or found.before,
        after=asked.after_name or asked.after or found.after,
    )


async def _schema(call: Call, state: str | None, text: str | None) -> Source | str:
    """Return one side: a text, or the commit of a state, which no file can be called like."""
    if (state is None) == (text is None):
        raise bad_request("each side is a state of the graph or a text")
    if text is not None:
        call.allow(Action.READ)
        return Source(text, SCHEMA_NAME)
    assert state is not None, "one of both is there"
    store = call.served.graph.store
    found, branch = await call.look(lambda: judged_state(store, state))
    call.allow(Action.READ, branch=BranchName(branch))
    return str(found.commit_id)


async def schema_history(call: Call) -> SchemaHistory:
    """Return the commits of a branch that changed its schema, newest first."""
    branch = call.canonical(call.one("branch"))
    call.allow(Action.READ, branch=branch)
    graph = call.graph
    return await call.look(lambda: graph.schema_history(branch))
