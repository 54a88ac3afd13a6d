"""Parsers from tables that were made in advance: building them takes a hundred milliseconds.

`grammar.json` beside a `grammar.lark` is what Lark makes of that text, as JSON: nothing in it can
run. It is part of the package, is never written where the package is used, and names the text and
the Lark it was made with; for any other the parser is built from the text, which gives the same. A
test holds the file against the text, and `pytest --update-cases` writes it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lark import Lark

TEXT, TABLES = "grammar.lark", "grammar.json"
_LEXER = ("lexer", "lexer_type")
_AT_LOAD = frozenset({"transformer", "propagate_positions"})
"""Options that are no part of the tables."""


def parser_of(package: str, replaced: Mapping[str, str], **options: Any) -> Lark:  # noqa: ANN401
    """Return the parser of the grammar of a package.

    Args:
        package: where the grammar is.
        replaced: what stands for what in its text.
        options: those of Lark.
    """
    from lark import Lark  # here, because help and version output must not wait for it

    text = _text(package, replaced)
    tables = _kept(package)
    if tables is None or tables["made_of"] != _made_of(text, options):
        return Lark(text, parser="lalr", **options)
    data = _with_lexer(tables["data"], options["lexer"])
    given = {name: value for name, value in options.items() if name in _AT_LOAD}
    loaded: Lark = Lark._load_from_dict(data, tables["memo"], **given)  # type: ignore[no-untyped-call]
    return loaded


def tables_of(package: str, replaced: Mapping[str, str], **options: Any) -> str:  # noqa: ANN401
    """Return what the file of a package should hold."""
    from lark import Lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    text = _text(package, replaced)
    built = Lark(text, parser="lalr", **options)
    data, memo = built.memo_serialize([TerminalDef, Rule])
    data["options"] = {k: v for k, v in data["options"].items() if k not in _AT_LOAD}
    found = {"made_of": _made_of(text, options), "data": _with_lexer(data, None), "memo": memo}
    return json.dumps(found, separators=(",", ":"), sort_keys=True, ensure_ascii=True) + "\n"


def _text(package: str, replaced: Mapping[str, str]) -> str:
    text = resources.files(package).joinpath(TEXT).read_text(encoding="utf-8")
    for short, long in replaced.items():
        text = text.replace(short, long)
    return text


def _kept(package: str) -> dict[str, Any] | None:
    file = resources.files(package).joinpath(TABLES)
    if not file.is_file():
        return None
    # JSON has no numbers as keys, which states and terminals are.
    read: dict[str, Any] = json.loads(file.read_text(encoding="ascii"), object_hook=_numbered)
    return read


def _numbered(found: dict[str, Any]) -> dict[Any, Any]:
    return {int(key) if key.isdecimal() else key: value for key, value in found.items()}


def _made_of(text: str, options: Mapping[str, Any]) -> str:
    import lark

    said = [lark.__version__, text]
    for name, value in sorted(options.items()):
        if name not in _AT_LOAD:
            said.append(f"{name}={value.__qualname__ if isinstance(value, type) else value}")
    return hashlib.sha256("\0".join(said).encode()).hexdigest()


def _with_lexer(data: Any, lexer: object) -> Any:  # noqa: ANN401 - nested plain values
    """Return tables with a lexer in every place that names it; a class is no JSON."""
    if isinstance(data, dict):
        return {
            key: lexer if key in _LEXER else _with_lexer(value, lexer)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [_with_lexer(value, lexer) for value in data]
    return data
