"""What a caller attaches to a write: words that must be words, and who it is."""

from __future__ import annotations

from omnigraph.base.arguments import count_argument
from omnigraph.errors import BadRequestError

_NAMES = {
    "branch": "branch",
    "actor": "actor",
    "message": "message",
    "if_head": "expected commit",
    "idempotency_key": "idempotency key",
    "operation_hash": "hash of the operation",
}


def check_labels(**given: object) -> None:
    """Return only if everything that is given can be kept with a commit.

    An empty word is refused: it is what an unset variable gives, and would make all requests one.

    Raises:
        BadRequestError: one is not text, empty, or not Unicode.
    """
    for argument, word in given.items():
        if word is None and argument != "branch":
            continue
        name = _NAMES[argument]
        if not isinstance(word, str):
            raise BadRequestError(f"the {name} must be text, not {type(word).__name__}")
        if not word.strip():
            raise BadRequestError(f"the {name} is empty", hint="leave it out or give one")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadRequestError(f"the {name} is not Unicode text") from None


def check_limit(limit: object) -> None:
    """Return only if a list can have so many entries at most.

    Raises:
        BadRequestError: it is no number from 1 on.
    """
    if limit is not None:
        count_argument(limit, "a limit", "or leave it out")


def who_writes(handle: str | None, given: str | None) -> str | None:
    """Return who does something through a handle.

    Raises:
        BadRequestError: the handle is somebody's, and somebody else is named.
    """
    if handle is not None and given not in (None, handle):
        raise BadRequestError(
            f"this handle is {handle}'s, not {given}'s", hint="take one with graph.as_actor"
        )
    return given if handle is None else handle
