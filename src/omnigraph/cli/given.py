"""What the shared options of a command line come to: a graph, a name on it, a query, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer  # noqa: TC002 - read from the hints when the command tree is built

from omnigraph.base.budget import Limits
from omnigraph.cli.options import (
    AliasOption,
    BranchOption,
    ConfigOption,
    GraphArgument,
    MaxMemoryOption,
    MaxRowsOption,
    MaxSecondsOption,
    MaybeQueryOption,
    NameOption,
    ParamOption,
    ParamsFileOption,
    ParamsOption,
    QueryStringOption,
    SnapshotOption,
    TargetOption,
    UriOption,
    Words,
    limits_of,
)
from omnigraph.cli.output import UsageError
from omnigraph.cli.request import QueryFlags, Request, build_request
from omnigraph.cli.shared import Shared
from omnigraph.cli.target import (
    Flags,
    Place,
    find_uri,
    locate,
    locate_named,
    one_uri,
    read_settings,
    resolve,
)
from omnigraph.cli.target import merged as merged_flags

if TYPE_CHECKING:
    from omnigraph.config.settings import AliasCommand, Settings


@dataclass(frozen=True, slots=True)
class AskedGraph:
    """A graph as the command line names it, if it does."""

    ctx: typer.Context
    flags: Flags
    word: str | None = None

    @property
    def is_said(self) -> bool:
        """Whether this command line names a graph, and not only the settings."""
        return self.word is not None or self.flags.uri is not None or self.flags.target is not None

    def settings(self) -> Settings:
        """Return the settings in force, having shown what is odd about them."""
        return read_settings(self.ctx, self.flags.config)

    def place(self) -> Place:
        """Return the graph; there must be one."""
        return locate(self.ctx, self.word, self.flags)

    def find_uri(self, settings: Settings) -> str | None:
        """Return the address of the graph, if anything names one."""
        word = one_uri(self.word, self.flags.uri)
        return find_uri(settings, word, self.merged())

    def merged(self) -> Flags:
        """Return the flags of this command over those in front of it."""
        return merged_flags(self.ctx, self.flags)

    def served_uri(self, settings: Settings) -> str:
        """Return the address of the graph to serve: as said, else as the server's settings say."""
        word = one_uri(self.word, self.flags.uri)
        return resolve(settings, word, self.merged(), settings.server.graph)

    def named(self, words: Sequence[str], what: str) -> tuple[Place, str]:
        """Return the graph and a name on it, given in either order."""
        return locate_named(self.ctx, words, what, self.flags)


def asked_flags(
    ctx: typer.Context,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
) -> AskedGraph:
    """Return a graph that is named by flags alone."""
    return AskedGraph(ctx, Flags(uri, target, config))


def asked_graph(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
) -> AskedGraph:
    """Return a graph that is named by a word or by flags."""
    return AskedGraph(ctx, Flags(uri, target, config), graph)


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """A query as the command line names it."""

    ctx: typer.Context
    words: Sequence[str]
    flags: Flags
    query: QueryFlags

    def request(self, command: AliasCommand) -> Request:
        """Return the query with its graph and parameters, for one of two commands."""
        return build_request(self.ctx, command, self.words, self.flags, self.query)


def asked_query(
    ctx: typer.Context,
    words: Words = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    query: MaybeQueryOption = None,
    query_string: QueryStringOption = None,
    alias: AliasOption = None,
    name: NameOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    param: ParamOption = None,
) -> AskedQuery:
    """Return the query that is named by a file, a text or an alias."""
    asked = QueryFlags(query, query_string, alias, name, params, params_file, param or ())
    return AskedQuery(ctx, words or (), Flags(uri, target, config), asked)


@dataclass(frozen=True, slots=True)
class AskedState:
    """Which state of a graph is read: a branch as it is, or a commit."""

    branch: str | None
    snapshot: str | None


def asked_state(branch: BranchOption = None, snapshot: SnapshotOption = None) -> AskedState:
    """Return the state; a branch and a commit are too much."""
    if branch is not None and snapshot is not None:
        raise UsageError("--branch and --snapshot exclude each other")
    return AskedState(branch, snapshot)


def read_limits(
    max_seconds: MaxSecondsOption = None,
    max_rows: MaxRowsOption = None,
    max_memory: MaxMemoryOption = None,
) -> Limits | None:
    """Return the limits of a query, if any are given."""
    return limits_of(max_seconds, max_memory, max_rows)


OnGraph = Annotated[AskedGraph, Shared(asked_graph)]
ByFlags = Annotated[AskedGraph, Shared(asked_flags)]
OfQuery = Annotated[AskedQuery, Shared(asked_query)]
OfState = Annotated[AskedState, Shared(asked_state)]
ReadLimits = Annotated[Limits | None, Shared(read_limits)]
