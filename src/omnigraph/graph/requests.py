"""What a caller attaches to a write: words that must be words, and when two requests are one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from omnigraph.compiler.query.typed import NOW_PARAM
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError

_NAMES = {
    "branch": "branch",
    "actor": "actor",
    "if_head": "expected commit",
    "idempotency_key": "idempotency key",
}


def check_words(**given: object) -> None:
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


def request_hash(
    text: Source,
    name: str,
    bound: Mapping[str, Any],
    given: Mapping[str, Any] | None,
    actor: str | None,
) -> str:
    """Return a fingerprint of a request: the same key must not stand for another one.

    Of bound values, so that every way to write one counts as the same; the moment of the request
    belongs to it only if the caller chose it. The commit a caller expects does not belong to it:
    who asks again has seen a later one.
    """
    values = {param: value for param, value in bound.items() if param != NOW_PARAM}
    request = [text.text, name, values, (given or {}).get(NOW_PARAM), actor]
    return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()
