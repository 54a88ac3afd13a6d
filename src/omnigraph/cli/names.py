"""Other names of commands: what scripts and habits call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

_OF_QUERIES = ("lint", "check", "-h", "--help")
"""What may stand behind `query` itself; anything else is a read."""

OTHER_NAMES = "Other names: `query` is read, `mutate` is change, `lint` is query lint."


def meant(words: Sequence[str]) -> list[str]:
    """Return the words of a command line under the command's own name.

    >>> meant(["mutate", "g.omni"]), meant(["query", "lint"]), meant(["query", "-e", "…"])
    (['change', 'g.omni'], ['query', 'lint'], ['read', '-e', '…'])
    """
    match list(words):
        case ["query", first, *rest] if first not in _OF_QUERIES:
            return ["read", first, *rest]
        case ["mutate", *rest]:
            return ["change", *rest]
        case ["lint", *rest]:
            return ["query", "lint", *rest]
        case ["help", *rest] if rest:
            return [*meant(rest), "--help"]
        case as_it_is:
            return as_it_is


class NamedCommands(TyperGroup):
    """The command tree, whose commands also answer to their other names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps its types to itself
        """Return the command that is meant, and the words behind it."""
        if args == ["help"]:
            print(ctx.get_help())  # noqa: T201 - as --help does
            ctx.exit()
        return super().resolve_command(ctx, meant(args))
