"""Every route, once: what it answers to, what it does, what it needs, what it says.

The table feeds dispatch, the policy (an actor without any grant of a route's action is refused
before anything is looked up) and both OpenAPI documents.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from msgspec import Struct  # noqa: TC002 - types of routes are looked at

from omnigraph.api.access import Action
from omnigraph.server import bodies, contract
from omnigraph.server.call import Call
from omnigraph.server.handlers import (
    about,
    agents,
    branches,
    explore,
    history,
    pages,
    reads,
    schema,
    stored,
    upkeep,
    writes,
)
from omnigraph.server.http import JSON_LIMIT, LOAD_LIMIT

Handler = Callable[[Call], Awaitable[object]]
JSON_TYPE, LINES_TYPE = "application/json", "application/x-ndjson"
ARROW_TYPE, BYTES_TYPE = "application/vnd.apache.arrow.stream", "application/octet-stream"
Tag = Literal[
    "health",
    "snapshots",
    "queries",
    "mutations",
    "schema",
    "branches",
    "runs",
    "commits",
    "admin",
    "agents",
]


@dataclass(frozen=True, slots=True)
class Contract:
    """How a route stands in the 0.3 document."""

    operation: str
    request: type[Struct] | None
    answer: type[Struct] | None
    """None is JSON lines."""
    errors: tuple[int, ...]
    query: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """One method and path."""

    method: str
    path: str
    handler: Handler
    tag: Tag
    action: Action | None = None
    """What a policy is asked about; None asks nothing."""
    is_open: bool = False
    """Whether no token is needed."""
    body: type[Struct] | None = None
    """What the body is decoded to."""
    may_be_empty: bool = False
    """Whether no body at all is the same as an empty object."""
    limit: int = JSON_LIMIT
    query: tuple[str, ...] = ()
    answer: type[Struct] | None = None
    contract: Contract | None = None
    is_conditional: bool = False
    """Whether it looks at the commit a branch is expected to be at."""
    may_be_unconditional: bool = False
    """Whether that commit may be left out."""
    takes: str = JSON_TYPE
    """What a body without a type of its own is."""
    gives: tuple[str, ...] = (JSON_TYPE,)
    """What a good answer may be, the usual first."""
    hides_refusals: bool = False
    """Whether what is refused looks as if it were not there; the handler sees to it."""
    is_keyed: bool = False
    """Whether a request may bring an idempotency key."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """What paths match, decoded; names may have slashes in them, ids have none."""
        words = re.split(r"\{(\w+)\}", self.path)
        found = "".join(
            re.escape(word) if at % 2 == 0 else f"(?P<{word}>{_WORDS.get(word, '[^/]+')})"
            for at, word in enumerate(words)
        )
        return re.compile(found)


_WORDS: Final = {"branch": ".+", "tag": ".+", "name": ".+"}
_COMMITS: Final = ("branch", "limit", "since", "actor", "all", "order")
_CHANGES: Final = ("type", "kind", "op", "column", "images")
_STATE: Final = ("branch", "snapshot")
_LOAD: Final = ("branch", "from", "mode", "message", "on_error", "max_errors")
_PAGE: Final = ("stat", "states", "limit", "page_token")
_ENTITY: Final = ("table", "id", "branch")
_REFUSALS: Final = (401, 403)
_NOT_FOUND: Final = (401, 403, 404)
_BAD: Final = (400, 401, 403)
_CONFLICT: Final = (400, 401, 403, 409)

_ROWS: Final = (JSON_TYPE, LINES_TYPE, ARROW_TYPE)

R, W = Action.READ, Action.CHANGE

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET", "/healthz", about.health, "health",
        is_open=True, answer=contract.HealthOutput,
        contract=Contract("health", None, contract.HealthOutput, ()),
    ),
    Route(
        "GET", "/snapshot", reads.snapshot, "snapshots",
        action=R, query=(*_STATE, "version"), answer=contract.SnapshotOutput,
        contract=Contract("getSnapshot", None, contract.SnapshotOutput, _REFUSALS, ("branch",)),
    ),
    Route(
        "POST", "/read", reads.read, "queries",
        action=R, body=bodies.ReadBody, query=("js_safe",), answer=contract.ReadOutput, gives=_ROWS,
        contract=Contract("read", contract.ReadRequest, contract.ReadOutput, _BAD),
    ),
    Route(
        "POST", "/export", reads.export, "queries",
        action=Action.EXPORT, body=bodies.ExportBody, gives=(LINES_TYPE,),
        contract=Contract("export", contract.ExportRequest, None, _BAD),
    ),
    Route(
        "POST", "/change", writes.change, "mutations",
        action=W, is_keyed=True, body=bodies.ChangeBody, answer=contract.ChangeOutput,
        contract=Contract("change", contract.ChangeRequest, contract.ChangeOutput, _CONFLICT),
    ),
    Route(
        "GET", "/schema", schema.get_schema, "schema",
        action=R, query=_STATE, answer=contract.SchemaOutput,
        contract=Contract("getSchema", None, contract.SchemaOutput, _REFUSALS),
    ),
    Route(
        "POST", "/schema/apply", schema.apply_schema, "mutations",
        action=Action.SCHEMA_APPLY, body=bodies.SchemaApplyBody,
        answer=contract.SchemaApplyOutput,
        contract=Contract(
            "applySchema", contract.SchemaApplyRequest, contract.SchemaApplyOutput, _BAD
        ),
    ),
    Route(
        "POST", "/ingest", writes.ingest, "mutations",
        action=W, is_keyed=True, body=bodies.LoadBody, limit=LOAD_LIMIT,
        answer=contract.IngestOutput,
        contract=Contract("ingest", contract.IngestRequest, contract.IngestOutput, _BAD),
    ),
    Route(
        "GET", "/branches", branches.list_branches, "branches",
        action=R, answer=contract.BranchListOutput,
        contract=Contract("listBranches", None, contract.BranchListOutput, _REFUSALS),
    ),
    Route(
        "POST", "/branches", branches.create, "branches",
        action=Action.BRANCH_CREATE, body=bodies.BranchCreateBody,
        answer=contract.BranchCreateOutput,
        contract=Contract(
            "createBranch", contract.BranchCreateRequest, contract.BranchCreateOutput, _CONFLICT
        ),
    ),
    Route(
        "POST", "/branches/merge", branches.merge, "branches",
        action=Action.BRANCH_MERGE, body=bodies.BranchMergeBody, answer=contract.BranchMergeOutput,
        contract=Contract(
            "mergeBranches", contract.BranchMergeRequest, contract.BranchMergeOutput, _CONFLICT
        ),
    ),
    Route(
        "DELETE", "/branches/{branch}", branches.delete, "branches",
        action=Action.BRANCH_DELETE, answer=contract.BranchDeleteOutput,
        contract=Contract("deleteBranch", None, contract.BranchDeleteOutput, _NOT_FOUND),
    ),
    Route(
        "GET", "/runs", upkeep.list_runs, "runs",
        action=R, answer=contract.RunListOutput,
        contract=Contract("listRuns", None, contract.RunListOutput, _REFUSALS),
    ),
    Route(
        "GET", "/runs/{run_id}", upkeep.get_run, "runs",
        action=R, answer=contract.RunOutput,
        contract=Contract("getRun", None, contract.RunOutput, _NOT_FOUND),
    ),
    Route(
        "POST", "/runs/{run_id}/publish", upkeep.publish_run, "runs",
        action=Action.RUN_PUBLISH, body=bodies.RunEndBody, may_be_empty=True,
        answer=contract.RunOutput,
        contract=Contract("publishRun", None, contract.RunOutput, _NOT_FOUND),
    ),
    Route(
        "POST", "/runs/{run_id}/abort", upkeep.abort_run, "runs",
        action=Action.RUN_ABORT, body=bodies.RunEndBody, may_be_empty=True,
        answer=contract.RunOutput,
        contract=Contract("abortRun", None, contract.RunOutput, _NOT_FOUND),
    ),
    Route(
        "GET", "/commits", history.list_commits, "commits",
        action=R, query=_COMMITS, answer=contract.CommitListOutput,
        contract=Contract("listCommits", None, contract.CommitListOutput, _REFUSALS, ("branch",)),
    ),
    Route(
        "GET", "/commits/{commit_id}", history.get_commit, "commits",
        action=R, answer=contract.CommitOutput,
        contract=Contract("getCommit", None, contract.CommitOutput, _NOT_FOUND),
    ),
    # Newer names for the same, and what came since.
    Route(
        "POST", "/query", reads.query, "queries",
        action=R, body=bodies.ReadBody, query=("js_safe",), answer=contract.ReadOutput, gives=_ROWS,
    ),
    Route(
        "POST", "/mutate", writes.mutate, "mutations",
        action=W, is_keyed=True, body=bodies.ChangeBody, answer=contract.ChangeOutput,
    ),
    Route(
        "POST", "/mutate/if-graph-commit", writes.change_if_at, "mutations",
        action=W, is_keyed=True, is_conditional=True,
        body=bodies.ChangeBody, answer=contract.ChangeOutput,
    ),
    Route(
        "POST", "/load", writes.load, "mutations",
        action=W, is_keyed=True, body=bodies.LoadBody, limit=LOAD_LIMIT,
        answer=contract.IngestOutput,
    ),
    Route(
        "POST", "/load/ndjson", writes.load_lines, "mutations",
        action=W, is_keyed=True, takes=LINES_TYPE, query=_LOAD,
        answer=contract.IngestOutput,
    ),
    Route(
        "POST", "/load/files", writes.load_files, "mutations",
        action=W, is_keyed=True, takes="application/x-tar", query=_LOAD,
        answer=contract.IngestOutput,
    ),
    Route("POST", "/embed", writes.embed, "mutations", action=W, body=bodies.EmbedBody),
    Route(
        "GET", "/export", reads.export_by_query, "queries",
        action=Action.EXPORT, query=(*_STATE, "type", "table"), gives=(LINES_TYPE,),
    ),
    Route(
        "GET", "/queries", stored.list_queries, "queries",
        action=Action.INVOKE_QUERY, query=("branch",),
    ),
    Route(
        "POST", "/queries/{name}", stored.run, "queries",
        action=Action.INVOKE_QUERY, hides_refusals=True, is_keyed=True, is_conditional=True,
        may_be_unconditional=True, body=bodies.StoredBody, may_be_empty=True,
        query=("js_safe",), gives=_ROWS,
    ),
    Route(
        "POST", "/branches/merge/preview", branches.preview_merge, "branches",
        action=R, body=bodies.BranchMergeBody,
    ),
    Route("POST", "/explain", reads.explain, "queries", action=R, body=bodies.ReadBody),
    Route("POST", "/profile", reads.profile, "queries", action=R, body=bodies.ReadBody),
    Route(
        "GET", "/entity", reads.entity, "queries",
        action=R, query=(*_ENTITY, "snapshot"), gives=(JSON_TYPE, ARROW_TYPE),
    ),
    Route(
        "GET", "/entity/neighbours", explore.neighbours, "queries",
        action=R, query=("table", "id", *_STATE, "edge", "way", "limit"),
    ),
    Route(
        "GET", "/blob", reads.blob, "queries",
        action=R, query=("type", "id", "property", *_STATE), gives=(BYTES_TYPE, JSON_TYPE),
    ),
    Route(
        "GET", "/entity/history", history.entity_history, "commits",
        action=R, query=(*_ENTITY, "limit"),
    ),
    Route("GET", "/entity/blame", history.blame, "commits", action=R, query=_ENTITY),
    Route(
        "GET", "/diff", history.diff, "commits",
        action=R, query=("from", "to", *_CHANGES, *_PAGE), gives=_ROWS,
    ),
    Route(
        "GET", "/commits/{commit_id}/changes", history.commit_changes, "commits",
        action=R, query=(*_CHANGES, *_PAGE), gives=_ROWS,
    ),
    Route(
        "GET", "/changes", history.changes, "commits",
        action=R, query=("branch", "since", *_CHANGES, "max_rows", "max_bytes"),
        gives=(LINES_TYPE,),
    ),
    Route("GET", "/changes/cursor", history.cursor, "commits", action=R, query=("branch", "at")),
    Route(
        "POST", "/branches/{branch}/reset", branches.reset, "branches",
        action=W, body=bodies.BranchResetBody,
    ),
    Route("POST", "/revert", branches.revert, "branches", action=W, body=bodies.ReplayBody),
    Route(
        "POST", "/cherry-pick", branches.cherry_pick, "branches",
        action=W, body=bodies.ReplayBody,
    ),
    Route("GET", "/tags", branches.list_tags, "branches", action=R),
    Route(
        "POST", "/tags", branches.create_tag, "branches",
        action=Action.BRANCH_CREATE, body=bodies.TagCreateBody,
    ),
    Route(
        "DELETE", "/tags/{tag}", branches.delete_tag, "branches", action=Action.BRANCH_DELETE
    ),
    Route("GET", "/catalog", explore.catalog, "schema", action=R, query=_STATE),
    Route("POST", "/lint", explore.lint, "queries", action=R, body=bodies.LintBody),
    Route("GET", "/me", explore.me, "admin", query=("branch", "target")),
    Route(
        "POST", "/schema/plan", schema.plan_schema, "schema",
        action=R, body=bodies.SchemaPlanBody,
    ),
    Route(
        "POST", "/schema/diff", schema.diff_schema, "schema",
        action=R, body=bodies.SchemaDiffBody,
    ),
    Route(
        "GET", "/schema/history", schema.schema_history, "schema", action=R, query=("branch",)
    ),
    Route(
        "POST", "/maintenance/optimize", upkeep.optimize, "admin",
        action=Action.ADMIN, body=bodies.OptimizeBody, may_be_empty=True,
    ),
    Route(
        "POST", "/maintenance/indexes", upkeep.ensure_indices, "admin",
        action=Action.ADMIN, body=bodies.UpkeepBody, may_be_empty=True,
    ),
    Route(
        "POST", "/maintenance/cleanup", upkeep.cleanup, "admin",
        action=Action.ADMIN, body=bodies.CleanupBody,
    ),
    Route(
        "POST", "/maintenance/repair", upkeep.repair, "admin",
        action=Action.ADMIN, body=bodies.RepairBody, may_be_empty=True,
    ),
    Route(
        "GET", "/maintenance/indexes", upkeep.list_indices, "admin",
        action=Action.ADMIN, query=("branch",),
    ),
    Route(
        "GET", "/maintenance/verify", upkeep.verify, "admin", action=Action.ADMIN, query=("deep",)
    ),
    Route("GET", "/maintenance/usage", upkeep.disk_usage, "admin", action=Action.ADMIN),
    Route("GET", "/locks", upkeep.list_locks, "admin", action=Action.ADMIN),
    Route("DELETE", "/locks/{name}", upkeep.break_lock, "admin", action=Action.ADMIN),
    Route("POST", "/mcp", agents.answer, "agents"),
    Route("GET", "/readyz", upkeep.ready, "health", is_open=True),
    Route("GET", "/metrics", about.metrics, "health", gives=("text/plain",)),
    Route("GET", "/openapi.json", about.openapi, "health", is_open=True),
    Route("GET", "/openapi.full.json", about.openapi_full, "health", is_open=True),
    Route("GET", "/docs", about.page, "health", is_open=True, gives=("text/html",)),
)  # fmt: skip


PAGE_ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/", pages.root, "health", is_open=True),
    Route("GET", "/ui", pages.start, "health", is_open=True),
    Route("GET", "/ui/{name}", pages.file, "health", is_open=True),
)
"""Of the page for people; nothing programs ask for, so no document has them."""


class RouteTable:
    """Finds routes: plain paths by one lookup, others by their patterns."""

    def __init__(self, routes: tuple[Route, ...] = (*ROUTES, *PAGE_ROUTES)) -> None:
        self._plain: dict[str, dict[str, Route]] = {}
        self._patterns: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for route in routes:
            if "{" in route.path:
                _, methods = self._patterns.setdefault(route.path, (route.pattern, {}))
            else:
                methods = self._plain.setdefault(route.path, {})
            methods[route.method] = route

    def plain(self, path: str, method: str) -> Route | None:
        """Return the route of a path without variable words, which most requests have."""
        return self._plain.get(path, {}).get(method)

    def find(self, path: str, method: str) -> tuple[Route, dict[str, str]] | frozenset[str]:
        """Return the route with the words of the path, or else the methods the path has.

        A path may be plain for one method and end in a variable word for another: a branch called
        `merge` can be deleted.
        """
        allowed: set[str] = set()
        if path in self._plain:
            found = self._plain[path]
            if method in found:
                return found[method], {}
            allowed |= found.keys()
        for pattern, routes in self._patterns.values():
            match = pattern.fullmatch(path)
            if match is not None and method in routes:
                return routes[method], match.groupdict()
            if match is not None:
                allowed |= routes.keys()
        return frozenset(allowed)
