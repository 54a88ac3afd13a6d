"""Which type and property of one schema is which of another."""

import pytest

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.source import Source
from omnigraph.engine.changes.pairs import State, paired_types
from omnigraph.errors import NotFoundError

BEFORE = """
node Human { name: String @key  age: I32?  note: String? }
node Pet { id: String @key  age: I32? }
edge Owns: Human -> Pet { since: I32? }
"""
RENAMED = """
node Person @rename_from("Human") {
  name: String @key  years: I32? @rename_from("age")  city: String?
}
node Pet { id: String @key  age: I32? }
edge Has: Person -> Pet @rename_from("Owns") { since: I32? }
"""


def states(*texts):
    """Return one state per text, each accepted after the ones before."""
    found, accepted = [], None
    for text in texts:
        loaded = load_schema(Source(text, "s.pg"), accepted)
        accepted = loaded.ir
        found.append(State(None, loaded.catalog))
    return found[0], found[-1]


def pairs(before, after, *given):
    return {
        pair.shown.table_key: (
            None if pair.before is None else pair.before.name,
            None if pair.after is None else pair.after.name,
            [(one.name, one.before, one.after) for one in pair.columns],
        )
        for pair in paired_types(before, after, *given)
    }


def test_types_and_properties_are_matched_whatever_they_are_called():
    assert pairs(*states(BEFORE, RENAMED)) == {
        "edge:Has": (
            "Owns",
            "Has",
            [("src", "src", "src"), ("dst", "dst", "dst"), ("since", "since", "since")],
        ),
        "node:Person": (
            "Human",
            "Person",
            [
                ("name", "name", "name"),
                ("years", "age", "years"),
                ("city", None, "city"),
                ("note", "note", None),
            ],
        ),
        "node:Pet": ("Pet", "Pet", [("age", "age", "age")]),
    }


def test_what_was_dropped_and_made_again_is_another_thing():
    without = "node Pet { id: String @key }"
    again = "node Pet { id: String @key  age: I32? }\nnode Human { name: String @key }"
    found = paired_types(*states(BEFORE, without, again), kinds=["node"])
    assert [
        (pair.before and pair.before.name, pair.after and pair.after.name) for pair in found
    ] == [("Human", None), (None, "Human"), ("Pet", "Pet")]
    columns = [(one.name, one.before, one.after) for one in found[-1].columns]
    assert columns == [("age", None, "age"), ("age (dropped)", "age", None)]


@pytest.mark.parametrize("word", ["Human", "node:Human", "Person", "node:Person"])
def test_a_type_can_be_asked_for_by_any_of_its_names(word):
    assert list(pairs(*states(BEFORE, RENAMED), [word])) == ["node:Person"]


def test_a_type_that_neither_state_has_is_told():
    with pytest.raises(NotFoundError, match="neither state has a type 'Tree'"):
        paired_types(*states(BEFORE, RENAMED), ["Tree"])
