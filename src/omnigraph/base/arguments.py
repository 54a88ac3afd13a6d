"""Arguments of public calls, checked before anything is done with them."""

from __future__ import annotations

from omnigraph.errors import BadRequestError


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
