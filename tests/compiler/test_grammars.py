"""The tables beside each grammar are those of its text, and are used."""

import json
from pathlib import Path

import lark
import pytest

from omnigraph.compiler import grammars
from omnigraph.compiler.grammars import TABLES, parser_of, tables_of
from omnigraph.compiler.query import parser as queries
from omnigraph.compiler.schema import parser as schemas

BOTH = pytest.mark.parametrize("parser", [queries, schemas], ids=["query", "schema"])


@BOTH
def test_the_tables_match_the_grammar(parser, request):
    where, options = parser.grammar()
    file = Path(parser.__file__).with_name(TABLES)
    wanted = json.loads(tables_of(*where, **options))
    held = json.loads(file.read_text("ascii")) if file.is_file() else {"made_of": None}
    if request.config.getoption("--update-cases") and held["made_of"] != wanted["made_of"]:
        file.write_text(tables_of(*where, **options), "ascii")
        held = wanted
    # States are numbered in the order of sets, so no two runs write the same file.
    assert held["made_of"] == wanted["made_of"], "run this with --update-cases, commit the file"
    for part in ("options", "rules"):
        assert len(held["data"][part]) == len(wanted["data"][part])
    states = [one["data"]["parser"]["parser"]["states"] for one in (held, wanted)]
    assert len(states[0]) == len(states[1])


@BOTH
def test_a_parser_of_tables_needs_no_grammar(parser, monkeypatch):
    where, options = parser.grammar()
    monkeypatch.setattr(lark.Lark, "__init__", lambda *_, **__: pytest.fail("built from the text"))
    assert isinstance(parser_of(*where, **options), lark.Lark)


@BOTH
@pytest.mark.parametrize("broken", ["missing", "of another text"])
def test_without_fitting_tables_the_parser_is_built_from_the_text(parser, broken, monkeypatch):
    (package, replaced), options = parser.grammar()
    if broken == "missing":
        monkeypatch.setattr(grammars, "TABLES", "nothing.json")
    else:
        text = grammars._text(package, replaced)
        monkeypatch.setattr(grammars, "_text", lambda *_: text + "\n// another\n")
    monkeypatch.setattr(
        lark.Lark, "_load_from_dict", lambda *_, **__: pytest.fail("loaded what does not fit")
    )
    assert isinstance(parser_of(package, replaced, **options), lark.Lark)
