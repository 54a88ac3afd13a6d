"""What a terminal offers behind a flag: names of the settings, the graph and the query file.

Whatever cannot be read completes nothing; running the command tells why. Servers are not asked:
pressing a key must not wait for a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.base.uri import is_on_server
from omnigraph.cli.target import Flags, find_uri, looks_like_uri
from omnigraph.config.environment import process_environment
from omnigraph.config.load import load_settings
from omnigraph.config.settings import Settings
from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph

Complete = Callable[[typer.Context, str], list[str]]


def complete_target(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the graphs of the settings."""
    return _fitting(_settings(ctx).graphs, incomplete)


def complete_alias(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the aliases of the command that is typed."""
    aliases = _settings(ctx).aliases.values()
    return _fitting((one.name for one in aliases if one.command == ctx.info_name), incomplete)


def complete_branch(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the branches of the graph that is typed."""
    return _of_graph(ctx, incomplete, lambda graph: graph.branches.list())


def complete_moment(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names a state goes by: tags, then branches."""

    def names(graph: Graph) -> list[str]:
        return [*(tag.name for tag in graph.tags.list()), *graph.branches.list()]

    return _of_graph(ctx, incomplete, names)


def complete_type(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the node and edge types of the graph that is typed."""
    return _of_graph(ctx, incomplete, lambda graph: [*graph.catalog.nodes, *graph.catalog.edges])


def complete_query_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the queries of the file that is typed."""
    from omnigraph.compiler.query.parser import parse_queries  # needs the grammar
    from omnigraph.compiler.source import Source

    path = ctx.params.get("query")
    if not isinstance(path, str | Path):
        return []
    try:
        text = Path(path).read_text()
        queries = parse_queries(Source(text, str(path))).queries
        return _fitting((one.name for one in queries), incomplete)
    except (OmniGraphError, OSError, UnicodeDecodeError):
        return []


def _of_graph(
    ctx: typer.Context, incomplete: str, names: Callable[[Graph], Iterable[str]]
) -> list[str]:
    try:
        uri = _uri(ctx, _settings(ctx))
        if uri is None or is_on_server(uri):
            return []
        from omnigraph.graph import connect  # everything heavy hangs below this import

        with connect(uri, read_only=True) as graph:
            return _fitting(names(graph), incomplete)
    except OmniGraphError:
        return []


def _uri(ctx: typer.Context, settings: Settings) -> str | None:
    """Return the address of the graph, as far as it is typed."""
    # Words are no parameters yet while the value of a flag behind them is being typed.
    given = [text for value in (*ctx.params.values(), ctx.args) for text in _texts(value)]
    root = ctx.find_root().params
    flags = Flags(
        ctx.params.get("uri") or root.get("uri"), ctx.params.get("target") or root.get("target")
    )
    word = next((text for text in given if looks_like_uri(text)), None)
    return find_uri(settings, word, flags)


def _texts(value: Any) -> list[str]:  # noqa: ANN401 - any parameter of a command
    many = value if isinstance(value, list | tuple) else [value]
    return [one for one in many if isinstance(one, str)]


def _settings(ctx: typer.Context) -> Settings:
    environment = process_environment()
    try:
        found = ctx.params.get("config") or ctx.find_root().params.get("config")
        return load_settings(found, environment)
    except OmniGraphError:
        return Settings(environment)


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
