"""Conditions on one row, as rules of a policy say them: a piece of a `match` about `$n` alone."""

from __future__ import annotations

from omnigraph.compiler.query import ast
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError

ROW = "n"
_HEAD = f"query rule() {{ match {{ ${ROW}: Row\n"


def condition(text: str) -> str:
    """Return a condition as queries write it: text in single quotes stands in double ones there.

    Raises:
        DiagnosticsError: it is none.
        BadRequestError: it is about more than the row.
    """
    written = text.strip() if '"' in text else text.strip().replace("'", '"')
    found = parse_queries(Source(f"{_HEAD}{written}\n}} return {{ ${ROW}.id }} }}", "<rule>"))
    (query, *more) = found.queries
    body = query.body
    if more or not isinstance(body, ast.ReadBody) or body.order or body.limit or body.offset:
        raise _wrong()
    first, *asked = body.match
    if not isinstance(first, ast.Binding) or not asked:
        raise _wrong()
    if not all(isinstance(one, ast.Filter | ast.NullTest | ast.TextMatch) for one in asked):
        raise _wrong()
    return written


def _wrong() -> BadRequestError:
    return BadRequestError(
        f"a rule asks for properties of ${ROW} alone", hint=f"${ROW}.visibility = 'public'"
    )
