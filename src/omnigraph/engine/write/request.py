"""What a caller asks to be written, and when two requests are one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from omnigraph.compiler.query.typed import NOW_PARAM
from omnigraph.compiler.source import Source
from omnigraph.storage.commit.session import UNCONDITIONAL, Preconditions


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """A mutation as a caller asks for it, the same however often it is tried."""

    source: Source
    name: str | None = None
    params: Mapping[str, Any] | None = None
    branch: str = "main"
    actor: str | None = None
    message: str | None = None
    preconditions: Preconditions = UNCONDITIONAL
    """Without the hash of the request, which is known once its values are."""
    preview: bool = False
    """Whether everything is computed and checked, and nothing written."""


def request_hash(request: MutationRequest, name: str, bound: Mapping[str, Any]) -> str:
    """Return a fingerprint of a request: the same key must not stand for another one.

    Of bound values, so that every way to write one counts as the same; the moment of the request
    belongs to it only if the caller chose it. The commit a caller expects does not belong to it:
    who asks again has seen a later one.
    """
    values = {param: value for param, value in bound.items() if param != NOW_PARAM}
    now = (request.params or {}).get(NOW_PARAM)
    asked = [request.source.text, name, values, now, request.actor]
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()
