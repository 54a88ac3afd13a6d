"""Which graph a command means: flags, words, `omnigraph.yaml`; and opening it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import urlsplit

from omnigraph.api.history import BranchCreated, BranchDeleted
from omnigraph.api.schemas import SchemaApplied
from omnigraph.api.texts import SchemaPlan
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.api.writes import EmbedResult, LoadResult
from omnigraph.base.uri import has_scheme, is_file, is_folder, is_on_server, parse_uri
from omnigraph.cli.light import prepare
from omnigraph.cli.logs import log_to_stderr
from omnigraph.cli.output import UsageError, warn
from omnigraph.config.environment import actor, bearer_token, process_environment, wants_color
from omnigraph.config.load import load_settings
from omnigraph.config.logs import LogLevel, level_in_force
from omnigraph.config.settings import GraphEntry, Settings
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    import typer

    from omnigraph.graph import Graph, GraphOptions

Named = TypeVar(
    "Named", LoadResult, EmbedResult, SchemaPlan, SchemaApplied, BranchCreated, BranchDeleted
)
"""Results that name their graph."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line says about the graph; also accepted in front of the command."""

    uri: str | None = None
    target: str | None = None
    config: str | None = None
    log_level: LogLevel | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """One graph and the settings in force."""

    settings: Settings
    uri: str
    entry: GraphEntry | None = None
    """The graph of the settings whose token may be sent to this address."""

    @property
    def is_remote(self) -> bool:
        """Whether a server has the graph."""
        return is_on_server(self.uri)

    def branch(self, given: str | None) -> str:
        """Return the branch to use: the given one, the configured one, or main."""
        return given or self.settings.cli.branch or DEFAULT_BRANCH

    def actor(self, given: str | None) -> str | None:
        """Return who writes: the given one, or the one of the environment; nobody is assumed.

        Raises:
            BadRequestError: a server is told; it knows by the token who asks.
        """
        if not self.is_remote:
            return given or actor(self.settings.environment)
        if given is not None:
            raise BadRequestError(
                f"--as {given} means nothing to a server: the token says who writes",
                hint="leave it out, or use their token",
            )
        return None

    def as_writer(self, graph: Graph, given: str | None) -> Graph:
        """Return the graph in the name of who writes; see `actor`."""
        who = self.actor(given)
        return graph if who is None else graph.as_actor(who)

    def named(self, found: Named) -> Named:
        """Return a result that calls the graph as the caller does."""
        return replace(found, uri=self.uri)

    def token(self) -> str | None:
        """Return what tells a server who asks: that of the graph's entry, else the usual one."""
        named = None if self.entry is None else self.entry.bearer_token_env
        found = None if named is None else self.settings.environment.find(named)
        return found or bearer_token(self.settings.environment)

    def open(self, operation: str, *, read_only: bool = True, local: bool = False) -> Graph:
        """Open the graph; `operation` names the command in messages.

        Args:
            operation: what it is opened for.
            read_only: whether nothing is to be written; a server decides that by itself.
            local: whether this cannot be asked of a server.
        """
        if self.is_remote and not local:
            from omnigraph.client import connect as connect_remote  # only who has a server pays

            # It has what commands use; what it lacks it refuses by name.
            return cast("Graph", connect_remote(self.uri, self.token()))
        require_local(self.uri, operation)
        require_folder(self.uri)
        prepare(operation)
        from omnigraph.graph import connect  # everything heavy hangs below this import

        return connect(self.uri, read_only=read_only, options=self.options())

    def options(self, *others: str) -> GraphOptions:
        """Return how the graph is opened, and graphs at `others` together with it."""
        from omnigraph.graph.configured import graph_options

        return graph_options(self.settings, self.uri, *others)


def require_local(uri: str, operation: str) -> None:
    """Refuse servers.

    Raises:
        BadRequestError: the address is `http://` or `https://`.
    """
    if is_on_server(uri):
        raise BadRequestError(
            f"{operation} is only supported against local repo URIs in this milestone",
            hint="run it where the graph is, with a path, file:// or s3:// address",
        )


def require_folder(uri: str) -> None:
    """Refuse a path that leads to a file: no graph can be there.

    Raises:
        BadRequestError: it is a file.
    """
    place = parse_uri(uri)
    if place.is_local and is_file(Path(place.path)):
        raise BadRequestError(f"'{uri}' is a file, not a graph", hint="a graph is a folder")


def read_settings(ctx: typer.Context, config: str | None) -> Settings:
    """Return the settings in force, having shown what is odd about them."""
    settings = load_settings(config or _root_flags(ctx).config, process_environment())
    said = _root_flags(ctx).log_level
    log_to_stderr(said or level_in_force(settings.environment, settings.logging))
    color = wants_color(sys.stderr)
    for problem in settings.warnings:
        warn(problem.render(color=color))
    return settings


def locate(ctx: typer.Context, word: str | None, flags: Flags) -> Place:
    """Return the graph of a command whose only free word is an address."""
    settings = read_settings(ctx, flags.config)
    return placed(settings, one_uri(word, flags.uri), merged(ctx, flags))


def locate_named(
    ctx: typer.Context, words: Sequence[str], what: str, flags: Flags
) -> tuple[Place, str]:
    """Return the graph and the name of a command that takes a name and maybe an address."""
    uri, name = split_words(words, what)
    settings = read_settings(ctx, flags.config)
    return placed(settings, one_uri(uri, flags.uri), merged(ctx, flags)), name


def placed(settings: Settings, uri: str | None, flags: Flags, default: str | None = None) -> Place:
    """Return the graph that is meant, with the entry whose token it may be told."""
    address = resolve(settings, uri, flags, default)
    return Place(settings, address, _entry(settings, uri or flags.uri, flags, default, address))


def _entry(
    settings: Settings, given: str | None, flags: Flags, default: str | None, address: str
) -> GraphEntry | None:
    """Return the entry that was chosen by name; its token never goes to another host."""
    name = flags.target or (None if given is not None else default or settings.cli.graph)
    entry = None if name is None else settings.graphs.get(name)
    if entry is None or _origin(entry.uri) != _origin(address):
        return None
    return entry


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc


def merged(ctx: typer.Context, flags: Flags) -> Flags:
    """Return the flags of a command over those in front of it."""
    root = _root_flags(ctx)
    return Flags(flags.uri or root.uri, flags.target or root.target, flags.config or root.config)


def resolve(settings: Settings, uri: str | None, flags: Flags, default: str | None = None) -> str:
    """Return the address of a graph: as given, by its name, or the default one.

    Raises:
        NotFoundError: no graph of that name is configured.
        BadRequestError: nothing says which graph is meant.
    """
    found = find_uri(settings, uri, flags, default)
    if found is None:
        raise BadRequestError(
            "URI must be provided via <URI>, --target, or config",
            hint="for example: omnigraph snapshot ./people.omni",
        )
    return found


def find_uri(
    settings: Settings, uri: str | None, flags: Flags, default: str | None = None
) -> str | None:
    """Return the address of a graph, or None if nothing names one; `default` is a graph's name."""
    given = uri or flags.uri
    if given is not None:
        return given
    name = flags.target or default or settings.cli.graph
    if name is None:
        return None
    return name if has_scheme(name) else settings.graph(name).uri


def one_uri(word: str | None, option: str | None) -> str | None:
    """Return the address given as a word or as `--uri`; both is too much."""
    if word is not None and option is not None:
        raise UsageError(f"two addresses are given: '{word}' and --uri {option}", hint="drop one")
    return word or option


def split_words(words: Sequence[str], what: str) -> tuple[str | None, str]:
    """Return `(address, name)` of one or two words in either order.

    Of two, the one that looks like an address is it; if both or none do, the last one is.
    """
    match list(words):
        case [name]:
            return None, name
        case [first, second]:
            if looks_like_uri(first) and not looks_like_uri(second):
                return first, second
            return second, first
        case _:
            raise UsageError(f"expected {what} and at most one URI, got {len(words)} words")


def looks_like_uri(word: str) -> bool:
    """Whether a word is an address rather than a name; a branch name may contain slashes."""
    return has_scheme(word) or word.rstrip("/").endswith(".omni") or is_folder(Path(word))


def _root_flags(ctx: typer.Context) -> Flags:
    found = ctx.find_root().obj
    return found if isinstance(found, Flags) else Flags()
