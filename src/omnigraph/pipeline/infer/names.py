"""Names of properties from the names of columns: `Customer ID` becomes `customer_id`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from omnigraph.compiler.catalog.model import ID
from omnigraph.compiler.catalog.names import EDGE_COLUMNS, SUBSTRATE_COLUMNS

_PROPERTY = re.compile(r"[a-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Z][A-Za-z0-9_]*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "ø": "o", "đ": "d", "ł": "l"})


def is_property(name: str, *, of_edge: bool) -> bool:
    """Whether a column may keep its name."""
    reserved = {ID, *SUBSTRATE_COLUMNS, *(EDGE_COLUMNS if of_edge else ())}
    return _PROPERTY.fullmatch(name) is not None and name not in reserved


def snake_case(text: str) -> str:
    """Return the words of a text in small letters and digits; empty if it has none.

    >>> snake_case("Customer ID"), snake_case("Größe (cm)"), snake_case("customerID")
    ('customer_id', 'grosse_cm', 'customer_id')
    """
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    plain = "".join(one for one in plain if not unicodedata.combining(one))
    return "_".join(re.findall(r"[a-z0-9]+", _HUMP.sub(" ", plain).lower()))


def property_name(column: str, type_name: str, taken: Collection[str], *, of_edge: bool) -> str:
    """Return what a column is called in a schema: as it is if it can be, else cleaned.

    Reserved words get the type in front of them, words that are taken a number behind them.
    """
    if is_property(column, of_edge=of_edge) and column not in taken:
        return column
    name = snake_case(column) or "column"
    if name[0].isdecimal():
        name = f"n{name}"
    if not is_property(name, of_edge=of_edge):
        name = f"{snake_case(type_name)}_{name}"
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def type_name(stem: str) -> str:
    """Return the name of a type for the rows of a file.

    >>> type_name("daily-thing"), type_name("2024 orders"), type_name("WorksAt")
    ('DailyThing', 'T2024Orders', 'WorksAt')
    """
    if _TYPE.fullmatch(stem):
        return stem
    plain = unicodedata.normalize("NFKD", stem.translate(_LETTERS))
    plain = "".join(one for one in plain if not unicodedata.combining(one))
    words = re.findall(r"[A-Za-z0-9]+", plain)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"T{name}"
