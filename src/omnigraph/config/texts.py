"""Schemas and queries as callers pass them: a text, a path, or a text with a name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraph.api.protocols import NamedText, Text
from omnigraph.compiler.query.bare import framed
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.errors import BadRequestError, NotFoundError


def read_query(given: Text, params: Mapping[str, Any] | None = None) -> Source:
    """Return the text of a query; a bare body is framed by a declaration of its own."""
    return framed(read_text(given), params)


def read_text(given: Text) -> Source:
    """Return a text as it is, a path as the text of its file."""
    if isinstance(given, Source):
        return given
    if isinstance(given, str) and ("{" in given or not given.rstrip().endswith((".gq", ".pg"))):
        return Source(given)
    if not isinstance(given, str | Path) and isinstance(given, NamedText):
        return Source(given.text, given.name)
    if not isinstance(given, str | Path):
        raise BadRequestError(f"expected a text or the path of a file, got {type(given).__name__}")
    path = Path(given)
    try:
        return decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise NotFoundError(f"file '{path}' not found") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadRequestError(f"file '{path}' cannot be read: {why}") from None
