"""`omnigraph fmt`: one layout for schema and query files."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.api.texts import FormattedFile, FormattedFiles
from omnigraph.cli.files import STDIN, find_sources, read_source, replace_text
from omnigraph.cli.options import JsonOption
from omnigraph.cli.output import EXIT_FAILURE, complain, say, say_json
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError, OmniGraphError


def fmt(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files or folders; `-` is stdin (with --language).", show_default=False
        ),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; show what would.")] = False,
    language: Annotated[
        str | None, typer.Option("--language", help="`pg` or `gq`, for stdin.", metavar="LANG")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Rewrite schema and query files in the standard layout; comments are kept.

    A file with errors is left alone and reported; the others are still formatted.

    Example: `omnigraph fmt --check schema.pg queries/`
    """
    results: dict[str, str] = {}
    for path in find_sources(paths):
        try:
            results[str(path)] = _format_one(path, language, write=not (check or diff), diff=diff)
        except OmniGraphError as error:
            results[str(path)] = "error"
            complain(error)
    if json:
        say_json(FormattedFiles(tuple(FormattedFile(*one) for one in results.items())))
    elif STDIN not in paths:
        for name, status in results.items():
            if status in ("formatted", "would change"):
                say(f"{status} {name}")
    failures = {"error", "would change"} if check else {"error"}
    if failures & set(results.values()):
        raise typer.Exit(EXIT_FAILURE)


def _format_one(path: Path, language: str | None, *, write: bool, diff: bool) -> str:
    """Format one file; return `unchanged`, `formatted`, or `would change`."""
    suffix = f".{language}" if path == STDIN else path.suffix
    source = read_source(path, "source")
    after = _formatter(suffix, path)(source)
    if diff and after != source.text:
        before_lines, after_lines = source.text.splitlines(), after.splitlines()
        name = str(path)
        say("\n".join(difflib.unified_diff(before_lines, after_lines, name, name, lineterm="")))
    elif path == STDIN and write:
        say(after.removesuffix("\n"))
    if after == source.text:
        return "unchanged"
    if not write:
        return "would change"
    if path != STDIN:
        replace_text(path, after)
    return "formatted"


def _formatter(suffix: str, path: Path) -> Callable[[Source], str]:
    match suffix:
        case ".pg":
            from omnigraph.compiler.schema.format import format_schema

            return format_schema
        case ".gq":
            from omnigraph.compiler.query.format import format_queries

            return format_queries
        case _:
            raise BadRequestError(
                f"cannot tell the language of '{path}'",
                hint="name it *.pg or *.gq; for stdin pass --language pg or --language gq",
            )
