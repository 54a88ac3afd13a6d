"""Bodies without a declaration: `match { … } return { … }`, `insert Person { … }`.

A body is framed by a declaration whose parameters have the types of the values they are given.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import tokens

BARE_NAME = "inline"
"""What a query is called that has no name."""
_DECLARATION = "query"
_FIRST_WORDS = ("match", "insert", "update", "delete")
_COMMENTS = ("line_comment", "block_comment")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_LARGEST_I64 = 2**63 - 1


def framed(source: Source, params: Mapping[str, Any] | None = None) -> Source:
    """Return declarations as they are, and a body inside a declaration of its own.

    Of `params` those are declared that the body mentions.
    """
    if source.text.startswith(_DECLARATION) or not is_body(source.text):
        return source
    body = source.text.rstrip().removesuffix(";")
    given = params or {}
    used = [name for name in dict.fromkeys(_VARIABLE.findall(body)) if name in given]
    declared = ", ".join(f"${name}: {_type_of(name, given[name], body)}" for name in used)
    head = f"{_DECLARATION} {BARE_NAME}({declared}) {{\n"
    return Source(f"{head}{body}\n}}", source.name, source, len(head))


def is_body(text: str) -> bool:
    """Whether a text begins as the body of a query or mutation does."""
    first = next((token for token in tokens(text) if token.kind not in _COMMENTS), None)
    return first is not None and first.text in _FIRST_WORDS


def _type_of(name: str, value: object, body: str) -> str:
    if hasattr(value, "tolist"):  # numbers and arrays of NumPy
        value = value.tolist()
    match value:
        case None:
            return "String?"
        case bool():
            return "Bool"
        case int():
            return "U64" if value > _LARGEST_I64 else "I64"
        case float():
            return "F64"
        case dt.datetime():
            return "DateTime"
        case dt.date():
            return "Date"
        case [*items] if re.search(rf"nearest\s*\([^()]*,\s*\${name}\b", body):
            return f"Vector({len(items)})"
        case [first, *_]:
            return f"[{_type_of(name, first, body)}]"
        case _:
            return "String"
