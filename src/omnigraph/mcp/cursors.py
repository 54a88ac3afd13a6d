"""Where the pages of an answer go on: a commit, an offset, and which request they are of."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Self

import orjson

from omnigraph.errors import BadRequestError


class CursorError(BadRequestError):
    """A cursor is none, or is one of another request."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="repeat the first call without a cursor")


def request_of(*asked: object) -> str:
    """Return a fingerprint of a request, whose pages know each other by it."""
    text = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(text).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of the next row."""

    commit: str
    offset: int
    request: str

    def text(self) -> str:
        """Return the cursor as it is given away."""
        said = orjson.dumps([self.commit, self.offset, self.request])
        return base64.urlsafe_b64encode(said).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, request: str) -> Self:
        """Return the cursor that a caller sends back.

        Raises:
            CursorError: it is none, or is one of another request.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            commit, offset, made_for = orjson.loads(base64.urlsafe_b64decode(padded))
        except (ValueError, TypeError, binascii.Error):
            raise CursorError("this is no cursor") from None
        if not isinstance(commit, str) or not isinstance(offset, int) or offset < 0:
            raise CursorError("this is no cursor")
        if made_for != request:
            raise CursorError("the cursor belongs to another request")
        return cls(commit, offset, request)
