"""Every question to a server, as a request and the way to read its answer. No socket here.

One function per question, for both shells: what they send and what they return cannot differ.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import orjson
import pyarrow as pa

from omnigraph.api.changes import (
    ChangedRows,
    ChangeGroup,
    EntityBlame,
    EntityHistory,
)
from omnigraph.api.history import (
    BranchCreated,
    BranchDeleted,
    BranchList,
    CommitList,
    GraphCommit,
    GraphSnapshot,
)
from omnigraph.api.merges import ChangeApplied, MergeResult, Strategy, Tag, TagList
from omnigraph.api.pictures import PICTURE_NODES, Picture, picture_nodes_argument
from omnigraph.api.protocols import Text
from omnigraph.api.query import Profile, QueryResult
from omnigraph.api.runs import Run, RunList
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory
from omnigraph.api.stored import StoredQuery, StoredQueryList
from omnigraph.api.texts import QueryPlan, SchemaPlan, SchemaText
from omnigraph.api.upkeep import (
    Cleaned,
    CleanupStats,
    CompactionStats,
    DiskUsage,
    DiskUse,
    Finding,
    IndexList,
    IndexReport,
    LockBroken,
    LockHolder,
    LockList,
    Optimized,
    Repaired,
    TableRepair,
    Verified,
)
from omnigraph.api.wire import Shape
from omnigraph.api.words import DEFAULT_BRANCH, ChangeOp, EntityKind, Images, Moment
from omnigraph.api.writes import EmbedResult, LoadResult, MutationResult
from omnigraph.base.arguments import names_argument, text_argument
from omnigraph.base.budget import DEFAULT, Limits
from omnigraph.base.durations import seconds_of
from omnigraph.client.wire import ARROW, NDJSON, Answer, Ask, new_key, segment
from omnigraph.compiler.query.params import ParamError
from omnigraph.compiler.source import Source
from omnigraph.config.texts import read_query, read_text
from omnigraph.errors import BadRequestError

S = TypeVar("S", bound=Shape)
T = TypeVar("T")
Query = tuple[tuple[str, str], ...]
Resolve = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def shape(kind: type[S]) -> Callable[[Answer], S]:
    """Return how an answer becomes a value."""
    return lambda answer: kind.from_json_value(orjson.loads(answer.body))


def _json(value: Mapping[str, Any]) -> bytes:
    said = {name: one for name, one in value.items() if one is not None}
    try:
        return orjson.dumps(said)
    except TypeError as error:
        raise BadRequestError(f"this cannot be sent to a server: {error}") from None


def _query(**given: str | int | Sequence[str] | None) -> Query:
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        key = name.rstrip("_")
        if isinstance(value, str | int):
            found.append((key, str(value)))
        elif value is not None:
            found += [(key, one) for one in value]
    return tuple(found)


def refuse_actor(actor: str | None) -> None:
    """Refuse to write in somebody's name: a server knows by the token who asks.

    Raises:
        BadRequestError: somebody is named.
    """
    if actor is not None:
        raise BadRequestError(
            "a server takes who writes from the token, not from the request",
            hint="leave the actor out, or connect with their token",
        )


def refuse_limits(limits: Limits | None, what: str) -> None:
    """Refuse limits where a server has its own and takes no others.

    Raises:
        BadRequestError: some are given.
    """
    if limits is not None:
        raise BadRequestError(
            f"{what} runs under the limits of the server", hint="leave limits out"
        )


def _limits(limits: Limits | None) -> dict[str, float | int] | None:
    if limits is None:
        return None
    said = {"seconds": limits.seconds, "rows": limits.rows, "bytes": limits.bytes}
    return {
        name: value for name, value in said.items() if value is not None and value is not DEFAULT
    }


def _params(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return parameters as JSON has them: dates as text, NumPy numbers as numbers."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise BadRequestError("params must be a JSON object")
    return {str(name): _plain(str(name), value) for name, value in given.items()}


def _plain(name: str, value: object) -> object:
    """Return a value as JSON has it; what JSON would change is refused, as a local graph does."""
    if hasattr(value, "tolist"):  # numbers and arrays of NumPy
        value = value.tolist()
    match value:
        case datetime() if value.tzinfo is None:
            return value.isoformat() + "Z"
        case float() if not math.isfinite(value):
            raise ParamError(name, f"{value} is not a finite number")
        case bytes() | bytearray():
            raise ParamError(name, "bytes are not a value of a parameter")
        case list() | tuple():
            return [_plain(name, one) for one in value]
        case _:
            return value


# Reading.


def read_body(
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    branch: str,
    at: str | None,
    limits: Limits | None,
    **more: object,
) -> bytes:
    """Return the body of a read of a branch, or of a commit."""
    return _json(
        more
        | {
            "query_source": source.text,
            "query_name": name,
            "params": _params(params),
            "branch": branch if at is None else None,
            "snapshot": at,
            "limits": _limits(limits),
        }
    )


def query(
    text: Text,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    branch: str = DEFAULT_BRANCH,
    at: str | None = None,
    limits: Limits | None = None,
) -> Ask[QueryResult]:
    """Ask for the rows of a query."""
    source = read_query(text, params)
    return Ask(
        "POST",
        "/read",
        _result,
        body=read_body(source, name, params, branch, at, limits),
        headers={"accept": ARROW},
        source=source,
    )


def picture(
    text: Text,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    max_nodes: int = PICTURE_NODES,
    branch: str = DEFAULT_BRANCH,
    at: str | None = None,
    limits: Limits | None = None,
) -> Ask[Picture]:
    """Ask for the nodes and edges behind the rows of a query."""
    source = read_query(text, params)
    most = picture_nodes_argument(max_nodes)
    wanted = {"shape": "graph", "max_nodes": most}
    body = read_body(source, name, params, branch, at, limits, **wanted)
    return Ask("POST", "/read", shape(Picture), body=body, source=source)


def _result(answer: Answer) -> QueryResult:
    with pa.ipc.open_stream(answer.body) as reader:
        table = reader.read_all()
    return result_of(table)


def result_of(table: pa.Table) -> QueryResult:
    """Return rows with what the server said of them."""
    said = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    plain = table.replace_schema_metadata(None)
    return QueryResult(
        plain, said.get("query_name", ""), said.get("branch") or None, said.get("commit_id") or None
    )


def profile(
    text: Text,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    branch: str = DEFAULT_BRANCH,
    at: str | None = None,
    limits: Limits | None = None,
) -> Ask[Profile]:
    """Ask what every operator of a query did."""
    source = read_query(text, params)
    body = read_body(source, name, params, branch, at, limits)
    return Ask("POST", "/profile", shape(Profile), body=body, source=source)


def explain(
    text: Text, name: str | None = None, *, branch: str = DEFAULT_BRANCH, at: str | None = None
) -> Ask[str]:
    """Ask for the operators a query runs as."""
    source = read_query(text)
    body = read_body(source, name, None, branch, at, None)
    read = shape(QueryPlan)
    return Ask("POST", "/explain", lambda one: read(one).plan, body=body, source=source)


def read_blob(
    type_name: str,
    id: str,
    prop: str,
    *,
    branch: str = DEFAULT_BRANCH,
    at: str | None = None,
) -> Ask[bytes | None]:
    """Ask for the bytes of one Blob."""
    asked = _query(
        type=text_argument(type_name, "a type"),
        id=text_argument(id, "an id"),
        property=text_argument(prop, "a property"),
        **_state(branch, at),
    )

    def read(answer: Answer) -> bytes | None:
        return None if answer.headers.get("omnigraph-null") == "1" else answer.body

    return Ask("GET", "/blob", read, asked, is_long=True)


def entity(
    table_key: str, entity_id: str, *, branch: str = DEFAULT_BRANCH, at: str | None = None
) -> Ask[dict[str, Any] | None]:
    """Ask for one node or edge."""

    def read(answer: Answer) -> dict[str, Any] | None:
        found = _result(answer).to_dicts()
        return found[0] if found else None

    asked = _query(
        table=text_argument(table_key, "the key of a table"),
        id=text_argument(entity_id, "an id"),
        **_state(branch, at),
    )
    return Ask("GET", "/entity", read, asked, headers={"accept": ARROW})


def _state(branch: str, at: str | None) -> dict[str, str | None]:
    return {"branch": branch} if at is None else {"snapshot": at}


def snapshot(
    branch: str = DEFAULT_BRANCH, *, at: str | None = None, version: int | None = None
) -> Ask[GraphSnapshot]:
    """Ask for every table at its version."""
    asked = _query(**_state(branch, at), version=version)
    return Ask("GET", "/snapshot", shape(GraphSnapshot), asked)


def export(
    types: Sequence[str], tables: Sequence[str], *, branch: str, at: str | None
) -> Ask[None]:
    """Ask for rows as JSON lines; read as they come."""
    body = _json(
        {
            "branch": branch if at is None else None,
            "snapshot": at,
            "type_names": list(types),
            "table_keys": list(tables),
        }
    )
    return Ask("POST", "/export", lambda _: None, body=body, headers={"accept": NDJSON})


# Writing.


def mutate(
    text: Text,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    branch: str = DEFAULT_BRANCH,
    actor: str | None = None,
    message: str | None = None,
    if_head: str | None = None,
    idempotency_key: str | None = None,
    preview: bool = False,
    limits: Limits | None = None,
) -> Ask[MutationResult]:
    """Ask for a mutation; it has a key, so that it may be sent again."""
    refuse_actor(actor)
    source = read_query(text, params)
    headers = {"idempotency-key": new_key() if idempotency_key is None else idempotency_key}
    if if_head is not None:
        headers["omnigraph-if-graph-commit"] = if_head
    body = _json(
        {
            "query_source": source.text,
            "query_name": name,
            "params": _params(params),
            "branch": branch,
            "message": message,
            "preview": preview or None,
            "limits": _limits(limits),
        }
    )
    return Ask(
        "POST",
        "/change" if if_head is None else "/mutate/if-graph-commit",
        shape(MutationResult),
        body=body,
        headers=headers,
        source=source,
        is_long=True,
    )


def list_queries() -> Ask[list[StoredQuery]]:
    """Ask for the stored queries."""
    read = shape(StoredQueryList)
    return Ask("GET", "/queries", lambda one: list(read(one).queries))


def run_query(
    name: str,
    params: Mapping[str, Any] | None = None,
    *,
    branch: str = DEFAULT_BRANCH,
    at: str | None = None,
    actor: str | None = None,
    message: str | None = None,
    if_head: str | None = None,
    idempotency_key: str | None = None,
    preview: bool = False,
    limits: Limits | None = None,
) -> Ask[QueryResult | MutationResult]:
    """Ask for a stored query to be run, which may be a write: it has a key like any other."""
    refuse_actor(actor)
    headers = {
        "accept": ARROW,
        "idempotency-key": new_key() if idempotency_key is None else idempotency_key,
    }
    if if_head is not None:
        headers["omnigraph-if-graph-commit"] = if_head
    body = _json(
        {
            "params": _params(params),
            "branch": branch if at is None else None,
            "snapshot": at,
            "message": message,
            "preview": preview or None,
            "limits": _limits(limits),
        }
    )
    path = f"/queries/{segment(text_argument(name, 'the name of a stored query'))}"
    return Ask("POST", path, _rows_or_change, body=body, headers=headers, is_long=True)


def _rows_or_change(answer: Answer) -> QueryResult | MutationResult:
    is_rows = answer.headers.get("content-type", "").startswith(ARROW)
    return _result(answer) if is_rows else shape(MutationResult)(answer)


def load(
    upload: Callable[[], Iterator[bytes]],
    *,
    branch: str,
    source: str | None,
    mode: str,
    message: str | None,
    on_error: str,
    max_errors: int | None,
    idempotency_key: str | None,
) -> Ask[LoadResult]:
    """Ask for files to be loaded."""
    asked = _query(
        branch=branch,
        from_=source,
        mode=mode,
        message=message,
        on_error=on_error,
        max_errors=max_errors,
    )
    key = new_key() if idempotency_key is None else idempotency_key
    return Ask(
        "POST",
        "/load/files",
        shape(LoadResult),
        asked,
        headers={"idempotency-key": key, "content-type": "application/x-tar"},
        upload=upload,
        is_long=True,
    )


def embed(
    types: Sequence[str] = (),
    mode: str = "fill_missing",
    *,
    branch: str = DEFAULT_BRANCH,
    actor: str | None = None,
    message: str | None = None,
) -> Ask[EmbedResult]:
    """Ask for the `@embed` columns to be filled."""
    refuse_actor(actor)
    body = _json({"types": list(types), "mode": mode, "branch": branch, "message": message})
    return Ask("POST", "/embed", shape(EmbedResult), body=body, is_repeatable=False, is_long=True)


# Branches, tags, single commits.


def list_branches() -> Ask[list[str]]:
    """Ask for the names of all branches: main first, then sorted."""
    read = shape(BranchList)

    def names(answer: Answer) -> list[str]:
        found = read(answer).branches
        return [DEFAULT_BRANCH, *(name for name in found if name != DEFAULT_BRANCH)]

    return Ask("GET", "/branches", names)


def create_branch(
    name: str, *, source: str = DEFAULT_BRANCH, at: str | None = None
) -> Ask[BranchCreated]:
    """Ask for a branch to be made."""
    body = _json({"name": name, "from": source, "at": at})
    return Ask("POST", "/branches", shape(BranchCreated), body=body, is_repeatable=False)


def delete_branch(name: str) -> Ask[BranchDeleted]:
    """Ask for a branch to be deleted."""
    path = f"/branches/{segment(text_argument(name, 'the name of a branch'))}"
    return Ask("DELETE", path, shape(BranchDeleted), is_repeatable=False)


def merge(
    source: str,
    into: str = DEFAULT_BRANCH,
    *,
    actor: str | None = None,
    strategy: Strategy = "fail",
    resolve: Resolve = None,
    columns: bool = False,
    base: str | None = None,
    delete_source: bool = False,
    message: str | None = None,
    preview: bool = False,
) -> Ask[MergeResult]:
    """Ask for a merge."""
    refuse_actor(actor)
    body = _json(
        {
            "source": source,
            "target": into,
            "strategy": strategy,
            "resolve": resolve,
            "columns": columns,
            "base": base,
            "delete_branch": delete_source,
            "message": message,
            "preview": preview,
        }
    )
    return Ask(
        "POST",
        "/branches/merge/preview" if preview else "/branches/merge",
        shape(MergeResult),
        body=body,
        is_repeatable=preview,
        is_long=True,
    )


def reset(
    name: str,
    *,
    to: str,
    actor: str | None = None,
    message: str | None = None,
    preview: bool = False,
) -> Ask[ChangeApplied]:
    """Ask for a branch to go back to a commit."""
    refuse_actor(actor)
    path = f"/branches/{segment(text_argument(name, 'the name of a branch'))}/reset"
    body = _json({"to": to, "message": message, "preview": preview})
    return Ask("POST", path, shape(ChangeApplied), body=body, is_repeatable=preview, is_long=True)


def replay(
    operation: str,
    commit: str,
    *,
    branch: str,
    parent: int | None,
    strategy: Strategy,
    resolve: Resolve,
    actor: str | None,
    message: str | None,
    preview: bool,
) -> Ask[ChangeApplied]:
    """Ask for a commit to be undone (`/revert`) or repeated (`/cherry-pick`)."""
    refuse_actor(actor)
    body = _json(
        {
            "commit": commit,
            "branch": branch,
            "parent": parent,
            "strategy": strategy,
            "resolve": resolve,
            "message": message,
            "preview": preview,
        }
    )
    return Ask(
        "POST", operation, shape(ChangeApplied), body=body, is_repeatable=preview, is_long=True
    )


def list_tags() -> Ask[list[Tag]]:
    """Ask for all tags."""
    read = shape(TagList)
    return Ask("GET", "/tags", lambda one: list(read(one).tags))


def create_tag(
    name: str,
    *,
    at: Moment | None = None,
    branch: str = DEFAULT_BRANCH,
    actor: str | None = None,
    message: str | None = None,
) -> Ask[Tag]:
    """Ask for a commit to be named."""
    refuse_actor(actor)
    body = _json({"name": name, "at": at, "branch": branch, "message": message})
    return Ask("POST", "/tags", shape(Tag), body=body, is_repeatable=False)


def delete_tag(name: str) -> Ask[None]:
    """Ask for a tag to be let go."""
    path = f"/tags/{segment(text_argument(name, 'the name of a tag'))}"
    return Ask("DELETE", path, lambda _: None, is_repeatable=False)


def list_commits(
    branch: str = DEFAULT_BRANCH,
    *,
    limit: int | None = None,
    since: str | datetime | None = None,
    actor: str | None = None,
    all: bool = False,
    reverse: bool = False,
) -> Ask[list[GraphCommit]]:
    """Ask for the commits of a branch."""
    moment = since.isoformat() if isinstance(since, datetime) else since
    asked = _query(
        branch=branch,
        limit=limit,
        since=moment,
        actor=actor,
        all="1" if all else None,
        order="asc" if reverse else None,
    )
    read = shape(CommitList)
    return Ask("GET", "/commits", lambda one: list(read(one).commits), asked)


def get_commit(commit_id: str) -> Ask[GraphCommit]:
    """Ask for one commit."""
    path = f"/commits/{segment(text_argument(commit_id, 'a commit id'))}"
    return Ask("GET", path, shape(GraphCommit))


# What changed.


def filters(
    types: Sequence[str] | None,
    kinds: Sequence[EntityKind] | None,
    ops: Sequence[ChangeOp] | None,
    images: Images,
    columns: Sequence[str] | None,
) -> Query:
    """Return the part of a request that says which changes are wanted."""
    for what, given in (("types", types), ("kinds", kinds), ("ops", ops), ("columns", columns)):
        if isinstance(given, str):
            raise BadRequestError(f"{what} is a list of names, not one text", hint=f"['{given}']")
    return _query(type=types, kind=kinds, op=ops, images=images, column=columns)


def diff_states(a: Moment, b: Moment | None, wanted: Query) -> Ask[dict[str, Any]]:
    """Ask which states are meant, and whether the filters are sound."""
    asked = (*_query(from_=a, to=b, states="1"), *wanted)
    return Ask("GET", "/diff", lambda one: cast("dict[str, Any]", orjson.loads(one.body)), asked)


def diff_pieces(states: Sequence[str], wanted: Query) -> Ask[None]:
    """Ask for the changes between states, as the server names them; read as they come."""
    asked = (*_query(from_=states[0], to=None if len(states) < 2 else states[1]), *wanted)
    return Ask("GET", "/diff", lambda _: None, asked, headers={"accept": ARROW})


def changed_rows(stream: io.RawIOBase | io.BufferedIOBase) -> Iterator[ChangedRows]:
    """Yield the pieces of a diff: Arrow streams one after another, each of one type."""
    source = io.BufferedReader(stream) if isinstance(stream, io.RawIOBase) else stream
    while source.peek(1):  # type: ignore[attr-defined] # a reader that looks ahead
        with pa.ipc.open_stream(source) as reader:
            table = reader.read_all()
        said = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        yield ChangedRows(
            said["table_key"],
            "node" if said["kind"] == "node" else "edge",
            said["type_name"],
            int(said["manifest_version"]),
            table.replace_schema_metadata(None),
        )


def changes(
    branch: str,
    since: str | None,
    wanted: Query,
    max_rows: int | None,
    max_bytes: int | None,
) -> Ask[None]:
    """Ask what every commit did to a branch; read line by line."""
    asked = _query(branch=branch, since=since, max_rows=max_rows, max_bytes=max_bytes)
    return Ask("GET", "/changes", lambda _: None, (*asked, *wanted), headers={"accept": NDJSON})


def change_group(line: bytes) -> ChangeGroup:
    """Return one line of the feed."""
    return ChangeGroup.from_json_value(orjson.loads(line))


def cursor(branch: str = DEFAULT_BRANCH, *, at: str | None = None) -> Ask[str]:
    """Ask where the feed of a branch goes on."""
    return Ask(
        "GET",
        "/changes/cursor",
        lambda one: str(orjson.loads(one.body)["cursor"]),
        _query(branch=branch, at=at),
    )


def entity_history(
    table_key: str,
    entity_id: str,
    *,
    branch: str = DEFAULT_BRANCH,
    limit: int | None = None,
) -> Ask[EntityHistory]:
    """Ask for the commits that changed one node or edge."""
    asked = _query(table=table_key, id=entity_id, branch=branch, limit=limit)
    return Ask("GET", "/entity/history", shape(EntityHistory), asked)


def blame(table_key: str, entity_id: str, *, branch: str = DEFAULT_BRANCH) -> Ask[EntityBlame]:
    """Ask which commit gave every property its value."""
    asked = _query(table=table_key, id=entity_id, branch=branch)
    return Ask("GET", "/entity/blame", shape(EntityBlame), asked)


# The whole graph.


def schema(branch: str | None = None, *, at: str | None = None) -> Ask[str]:
    """Ask for the schema of main, of a branch, or of a commit."""
    read = shape(SchemaText)
    asked = _query(branch=branch if at is None else None, snapshot=at)
    return Ask("GET", "/schema", lambda one: read(one).schema_source, asked)


def plan_schema(
    text: Text, *, allow_data_loss: bool = False, branch: str = DEFAULT_BRANCH
) -> Ask[SchemaPlan]:
    """Ask for the steps to another schema."""
    source = read_text(text)
    body = _json(
        {"schema_source": source.text, "allow_data_loss": allow_data_loss, "branch": branch}
    )
    return Ask("POST", "/schema/plan", shape(SchemaPlan), body=body, source=source)


def apply_schema(
    text: Text,
    *,
    allow_data_loss: bool = False,
    branch: str = DEFAULT_BRANCH,
    preview: bool = False,
    actor: str | None = None,
    message: str | None = None,
) -> Ask[SchemaApplied]:
    """Ask for a text to become the schema of a branch."""
    refuse_actor(actor)
    source = read_text(text)
    body = _json(
        {
            "schema_source": source.text,
            "allow_data_loss": allow_data_loss,
            "branch": branch,
            "preview": preview,
            "message": message,
        }
    )
    return Ask(
        "POST",
        "/schema/apply",
        shape(SchemaApplied),
        body=body,
        source=source,
        is_repeatable=preview,
        is_long=True,
    )


def diff_schema(a: Moment | Text, b: Moment | Text) -> Ask[SchemaDiff]:
    """Ask for the steps from one schema to another."""
    before, after = _side("before", a), _side("after", b)
    return Ask("POST", "/schema/diff", shape(SchemaDiff), body=_json({**before, **after}))


def _side(name: str, place: Moment | Text) -> dict[str, str]:
    """Return one side of a comparison, as a local graph tells states and texts apart."""
    if isinstance(place, int):
        return {name: str(place)}
    if isinstance(place, str) and not ("{" in place or place.rstrip().endswith(".pg")):
        return {name: place}
    source = read_text(place)
    called = "a text" if isinstance(place, str) and "{" in place else source.name
    return {f"{name}_source": source.text, f"{name}_name": called}


def schema_history(branch: str = DEFAULT_BRANCH) -> Ask[SchemaHistory]:
    """Ask for the commits that changed the schema of a branch."""
    return Ask("GET", "/schema/history", shape(SchemaHistory), _query(branch=branch))


def list_runs() -> Ask[list[Run]]:
    """Ask for all runs."""
    read = shape(RunList)
    return Ask("GET", "/runs", lambda one: list(read(one).runs))


def get_run(run_id: str) -> Ask[Run]:
    """Ask for one run."""
    return Ask("GET", f"/runs/{segment(text_argument(run_id, 'the id of a run'))}", shape(Run))


def end_run(run_id: str, how: str, message: str | None = None) -> Ask[Run]:
    """Ask for a run to be published or aborted, which is the same twice as once."""
    path = f"/runs/{segment(text_argument(run_id, 'the id of a run'))}/{how}"
    return Ask("POST", path, shape(Run), body=_json({"message": message}), is_long=True)


def optimize(
    branch: str = DEFAULT_BRANCH,
    *,
    tables: Sequence[str] = (),
    preview: bool = False,
    max_seconds: float | None = None,
) -> Ask[list[CompactionStats]]:
    """Ask for tables to be compacted."""
    names = names_argument(tables, "tables")
    limit = seconds_of(max_seconds, "max_seconds")
    body = _json(
        {"branch": branch, "tables": names or None, "preview": preview, "max_seconds": limit}
    )
    read = shape(Optimized)
    return Ask(
        "POST",
        "/maintenance/optimize",
        lambda one: list(read(one).tables),
        body=body,
        is_long=True,
    )


def cleanup(
    *,
    keep: int | None = None,
    older_than: str | float | timedelta | None = None,
    preview: bool = True,
) -> Ask[list[CleanupStats]]:
    """Ask for old versions to be removed, or what that would be."""
    age = seconds_of(older_than, "older_than")
    dry_run = preview is not False
    body = _json({"keep_versions": keep, "older_than_secs": age, "dry_run": dry_run})
    read = shape(Cleaned)
    return Ask(
        "POST",
        "/maintenance/cleanup",
        lambda one: list(read(one).tables),
        body=body,
        is_repeatable=dry_run,
        is_long=True,
    )


def indices(branch: str = DEFAULT_BRANCH) -> Ask[list[IndexReport]]:
    """Ask for the indexes the schema wants and their coverage."""
    read = shape(IndexList)
    path = "/maintenance/indexes"
    return Ask("GET", path, lambda one: list(read(one).indexes), _query(branch=branch))


def ensure_indices(branch: str = DEFAULT_BRANCH) -> Ask[list[IndexReport]]:
    """Ask for the indexes the schema wants."""
    body, read = _json({"branch": branch}), shape(IndexList)
    path = "/maintenance/indexes"
    return Ask("POST", path, lambda one: list(read(one).indexes), body=body, is_long=True)


def verify(*, deep: bool = False) -> Ask[list[Finding]]:
    """Ask for the graph to be checked."""
    read, query = shape(Verified), _query(deep="true" if deep else None)
    path = "/maintenance/verify"
    return Ask("GET", path, lambda one: list(read(one).findings), query, is_long=True)


def repair(
    branch: str | None = None, *, confirm: bool = False, force: bool = False
) -> Ask[list[TableRepair]]:
    """Ask what other tools did, and for it to be settled."""
    body = _json({"branch": branch, "confirm": confirm, "force": force})
    read = shape(Repaired)
    return Ask(
        "POST",
        "/maintenance/repair",
        lambda one: list(read(one).tables),
        body=body,
        is_repeatable=not confirm,
        is_long=True,
    )


def list_locks() -> Ask[list[LockHolder]]:
    """Ask for every lock that is held."""
    read = shape(LockList)
    return Ask("GET", "/locks", lambda one: list(read(one).locks))


def break_lock(name: str) -> Ask[LockHolder | None]:
    """Ask for a lock to be taken away."""
    path = f"/locks/{segment(text_argument(name, 'the name of a lock'))}"
    read = shape(LockBroken)
    return Ask("DELETE", path, lambda one: read(one).holder, is_repeatable=False)


def disk_usage() -> Ask[list[DiskUse]]:
    """Ask for the bytes of every branch of every dataset."""
    read = shape(DiskUsage)
    return Ask("GET", "/maintenance/usage", lambda one: list(read(one).datasets), is_long=True)
