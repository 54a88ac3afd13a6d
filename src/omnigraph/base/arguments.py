"""Arguments of public calls, checked before anything is done with them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from omnigraph.errors import BadRequestError

Word = TypeVar("Word", bound=str)


def shown(value: object) -> str:
    """Return a value as a message shows it: bounded, however long or deep it is."""
    return reprlib.repr(value)


def word_argument(value: object, known: Sequence[Word], what: str) -> Word:
    """Return the one of some known words that a value is.

    Raises:
        BadRequestError: it is none of them.
    """
    for word in known if isinstance(value, str) else ():
        if word == value:
            return word
    raise BadRequestError(f"unknown {what} {shown(value)}", hint=f"use {', '.join(known)}")


def text_argument(value: object, what: str) -> str:
    """Return a value that must be text and can be stored as such.

    Raises:
        BadRequestError: it is something else, or has a lone surrogate.
    """
    if not isinstance(value, str):
        raise BadRequestError(f"{what} must be text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequestError(f"{what} is no valid text: it has a lone surrogate") from None
    return value


def count_argument(value: object, what: str, hint: str | None = None, *, least: int = 1) -> int:
    """Return a value that must be a whole number from `least` on.

    Raises:
        BadRequestError: it is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadRequestError(f"{what} is a number from {least} on, not {shown(value)}", hint=hint)
    return value


def names_argument(names: object, what: str) -> tuple[str, ...]:
    """Return a list of names; a single one would be read letter by letter.

    Raises:
        BadRequestError: it is none.
    """
    if isinstance(names, str):
        raise BadRequestError(f"{what} is a list of names, not one text", hint=f"[{shown(names)}]")
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise BadRequestError(f"{what} is a list of names, not {type(names).__name__}")
    return tuple(text_argument(name, f"a name in {what}") for name in names)
