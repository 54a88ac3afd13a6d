"""What commands are called and how their help shows them, for the whole tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

_OF_QUERIES = ("lint", "check", "-h", "--help")
"""What may stand behind `query` itself; anything else is a read."""

F = TypeVar("F", bound=Callable[..., Any])
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


class PlainCommand(TyperCommand):
    """A command whose flags are shown without a value, since they take none."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - typer keeps its types to itself
        """Return the options, those of help included."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same for a family of commands."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - as above
        """Return the options, those of help included."""
        return _plain(super().get_params(ctx))


def _plain(params: list[Any]) -> list[Any]:
    for one in params:
        if getattr(one, "is_bool_flag", False) and one.metavar is None:
            one.metavar = ""
    return params


class Commands(typer.Typer):
    """A family of commands, each shown like all others."""

    def __init__(self, **how: Any) -> None:  # noqa: ANN401 - as above
        super().__init__(**{"cls": PlainGroup, "no_args_is_help": True, **how})

    def command(
        self,
        name: str | None = None,
        **how: Any,  # noqa: ANN401 - as above
    ) -> Callable[[F], F]:
        """Declare a command."""
        return super().command(name, **{"cls": PlainCommand, **how})


class NamedCommands(PlainGroup):
    """The command tree, whose commands also answer to their other names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps its types to itself
        """Return the command that is meant, and the words behind it."""
        if args == ["help"]:
            print(ctx.get_help())  # noqa: T201 - as --help does
            ctx.exit()
        return super().resolve_command(ctx, meant(args))
