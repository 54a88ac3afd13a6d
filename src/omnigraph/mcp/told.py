"""Errors as an agent is told them: what is wrong, where, and what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from omnigraph.errors import ErrorKind, OmniGraphError
from omnigraph.mcp.answers import Budget, clipped

_TOLD: Final = 10
_OF_FILES: Final = frozenset(
    {ErrorKind.STORAGE, ErrorKind.FORMAT, ErrorKind.CORRUPT, ErrorKind.INTERNAL}
)
_FAILED: Final = "the server could not finish this; its log has more"


def error_text(error: OmniGraphError, secrets: Sequence[str], budget: Budget) -> str:
    """Return an error as text.

    Args:
        error: what went wrong.
        secrets: texts that must not be told; if there are any, neither is what files say.
        budget: what an answer may be.
    """
    if secrets and error.kind in _OF_FILES:
        return f"{error.kind}: {_FAILED}"
    text = _text(error)
    for one in secrets:
        text = text.replace(one, "<graph>") if one else text
    return clipped(text, budget)


def _text(error: OmniGraphError) -> str:
    render = getattr(error, "render", None)
    if render is not None and hasattr(error, "source"):  # with its place in the text
        return str(render())
    lines = [f"{error.kind}: {error.message}"]
    details: Sequence[object] = getattr(error, "violations", ())
    if len(details) > 1:
        total = getattr(error, "total", len(details))
        lines = [f"{error.kind}: {total} rules of the schema are broken; nothing was written"]
        lines += [f"- {one}" for one in details[:_TOLD]]
        if total > _TOLD:
            lines.append(f"…(+{total - _TOLD} more)")
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines)
