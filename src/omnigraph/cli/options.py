"""The flags and words that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.config.environment import Environment
from omnigraph.config.load import load_settings
from omnigraph.config.settings import Settings
from omnigraph.errors import OmniGraphError


def _settings_for_completion(ctx: typer.Context) -> Settings:
    try:
        return load_settings(ctx.params.get("config"), Environment({}))
    except OmniGraphError:  # a broken file completes nothing; running the command tells why
        return Settings(Environment({}))


def _complete_target(ctx: typer.Context, incomplete: str) -> list[str]:
    names = _settings_for_completion(ctx).graphs
    return [name for name in names if name.startswith(incomplete)]


def _complete_alias(ctx: typer.Context, incomplete: str) -> list[str]:
    aliases = _settings_for_completion(ctx).aliases.values()
    wanted = ctx.info_name
    return [
        one.name for one in aliases if one.command == wanted and one.name.startswith(incomplete)
    ]


GraphArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="URI", help="The graph: a path, file:// or s3:// address.", show_default=False
    ),
]
UriOption = Annotated[
    str | None, typer.Option("--uri", help="The graph's address, as a flag.", metavar="URI")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="A graph named in omnigraph.yaml.",
        metavar="NAME",
        autocompletion=_complete_target,
    ),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config", "-c", help="Settings file; default: ./omnigraph.yaml.", metavar="FILE"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]
BranchOption = Annotated[
    str | None,
    typer.Option(
        "--branch", "-b", help="Branch; default: cli.branch, else main.", metavar="BRANCH"
    ),
]
SchemaOption = Annotated[
    Path,
    typer.Option("--schema", "-s", help="Schema file (.pg); `-` is stdin.", show_default=False),
]
MaybeSchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", "-s", help="Schema file (.pg) instead of a graph; `-` is stdin."),
]
QueryOption = Annotated[
    str,
    typer.Option(
        "--query", "-q", help="Query file (.gq); `-` is stdin.", metavar="FILE", show_default=False
    ),
]
MaybeQueryOption = Annotated[
    str | None,
    typer.Option("--query", "-q", help="Query file (.gq); `-` is stdin.", metavar="FILE"),
]
QueryStringOption = Annotated[
    str | None,
    typer.Option("--query-string", "-e", help="The query itself, as text.", metavar="TEXT"),
]
NameOption = Annotated[
    str | None,
    typer.Option("--name", "-n", help="Which query of the file; needed if it has several."),
]
AliasOption = Annotated[
    str | None,
    typer.Option(
        "--alias",
        "-a",
        help="A query named in omnigraph.yaml.",
        metavar="NAME",
        autocompletion=_complete_alias,
    ),
]
ParamsOption = Annotated[
    str | None, typer.Option("--params", help="Parameters as a JSON object.", metavar="JSON")
]
ParamsFileOption = Annotated[
    Path | None,
    typer.Option("--params-file", help="File with the parameters as a JSON object; `-` is stdin."),
]
ParamOption = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", help="One parameter; repeatable.", metavar="NAME=VALUE"),
]
ActorOption = Annotated[
    str | None,
    typer.Option("--as", help="Who writes, kept on the commit; default: OMNIGRAPH_ACTOR."),
]
