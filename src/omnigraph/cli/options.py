"""The flags and words that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.api.merges import Strategy
from omnigraph.base.budget import DEFAULT, Limits
from omnigraph.cli.complete import (
    complete_alias,
    complete_branch,
    complete_moment,
    complete_query_name,
    complete_target,
    complete_type,
)
from omnigraph.cli.output import UsageError
from omnigraph.config.limits import parse_count, parse_seconds, parse_size
from omnigraph.config.settings import OutputFormat
from omnigraph.errors import BadRequestError

GraphArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="URI",
        help="The graph: a path, file://, s3:// or http:// address.",
        show_default=False,
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
        autocompletion=complete_target,
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
        "--branch",
        "-b",
        help="Branch; default: cli.branch, else main.",
        metavar="BRANCH",
        autocompletion=complete_branch,
    ),
]
OneBranchOption = Annotated[
    str,
    typer.Option(
        "--branch", "-b", help="Branch.", metavar="BRANCH", autocompletion=complete_branch
    ),
]
TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        help="Only this type; repeatable.",
        metavar="NAME",
        autocompletion=complete_type,
    ),
]
SnapshotOption = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        help="Read the past: a commit id.",
        metavar="COMMIT",
        autocompletion=complete_moment,
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
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URI|ARG",
        help="The graph, then the alias's arguments.",
        show_default=False,
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
    typer.Option(
        "--name",
        "-n",
        help="Which query of the file; needed if it has several.",
        autocompletion=complete_query_name,
    ),
]
AliasOption = Annotated[
    str | None,
    typer.Option(
        "--alias",
        "-a",
        help="A query named in omnigraph.yaml.",
        metavar="NAME",
        autocompletion=complete_alias,
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
MaxSecondsOption = Annotated[
    str | None,
    typer.Option(
        "--max-seconds",
        help="Stop after so long; default: limits.query_seconds, else 60. `none`: never.",
        metavar="SECONDS",
    ),
]
MaxRowsOption = Annotated[
    str | None,
    typer.Option("--max-rows", help="Most rows of any step; default: none.", metavar="ROWS"),
]
MaxMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        help="Most memory, as 4GiB; default: limits.query_memory (reads) or limits.job_memory.",
        metavar="SIZE",
    ),
]


def limits_of(
    seconds: str | None = None, memory: str | None = None, rows: str | None = None
) -> Limits | None:
    """Return what the flags say; None if they say nothing.

    Raises:
        UsageError: a flag says something that is no limit.
    """
    if seconds is None and memory is None and rows is None:
        return None
    try:
        return Limits(
            DEFAULT if seconds is None else parse_seconds(seconds, "--max-seconds"),
            DEFAULT if rows is None else parse_count(rows, "--max-rows"),
            DEFAULT if memory is None else parse_size(memory, "--max-memory"),
        )
    except BadRequestError as error:
        raise UsageError(error.message, hint=error.hint) from None


ActorOption = Annotated[
    str | None,
    typer.Option("--as", help="Who writes, kept on the commit; default: OMNIGRAPH_ACTOR."),
]
MessageOption = Annotated[
    str | None,
    typer.Option("--message", "-m", help="Why, kept on the commit.", metavar="TEXT"),
]
PreviewOption = Annotated[
    bool, typer.Option("--preview", help="Compute everything and write nothing.")
]
StrategyOption = Annotated[
    Strategy,
    typer.Option("--strategy", help="Rows both sides changed: refuse them, or whose row counts."),
]
ResolveOption = Annotated[
    Path | None,
    typer.Option(
        "--resolve",
        help="File of conflicts, as --conflicts writes it, each with its resolution.",
        metavar="FILE",
    ),
]
ConflictsOption = Annotated[
    Path | None,
    typer.Option("--conflicts", help="Write all conflicts to this file.", metavar="FILE"),
]
IdempotencyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        help="Repeating the request under its key writes once.",
        metavar="KEY",
    ),
]
FormatOption = Annotated[
    OutputFormat | None,
    typer.Option("--format", "-f", help="Layout; default: the alias's, cli.output_format, table."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
