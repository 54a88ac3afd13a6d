"""Options that several commands share are declared by one function and spliced into each of them.

A parameter of a command that is annotated `Annotated[T, Shared(make)]` stands for the parameters of
`make`: they become options of the command, and the command is given what `make` returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from operator import itemgetter
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Shared:
    """Stands for the parameters of a function."""

    make: Callable[..., Any]


def sharing(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command as typer is to see it: with every option in its own place."""
    options, call = _spliced(command)

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - whatever the options are
        call(given)

    vars(run)["__signature__"] = inspect.Signature(list(options.values()))
    run.__annotations__ = {name: one.annotation for name, one in options.items()}
    return run


def _spliced(
    function: Callable[..., Any],
) -> tuple[dict[str, inspect.Parameter], Callable[[Mapping[str, Any]], Any]]:
    """Return all options of a function, and what calls it with some values for them."""
    options: dict[str, inspect.Parameter] = {}
    makes: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    for parameter in _parameters(function):
        make = _made_by(parameter.annotation)
        if make is None:
            options.setdefault(parameter.name, parameter)
            makes[parameter.name] = itemgetter(parameter.name)
        else:
            inner, makes[parameter.name] = _spliced(make)
            options |= {name: one for name, one in inner.items() if name not in options}
    return options, lambda given: function(**{name: make(given) for name, make in makes.items()})


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function with their types, each to be given by name."""
    hints = get_type_hints(function, include_extras=True)
    return [
        one.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, one in inspect.signature(function).parameters.items()
    ]


def _made_by(hint: Any) -> Callable[..., Any] | None:  # noqa: ANN401 - any type
    if get_origin(hint) is not Annotated:
        return None
    return next((one.make for one in get_args(hint)[1:] if isinstance(one, Shared)), None)
