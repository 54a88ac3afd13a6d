"""Two schemas put together: laws that hold for any, and what exactly stands in the way."""

import pytest
from hypothesis import given

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.ir_json import schema_hash
from omnigraph.compiler.catalog.reconcile import reconcile
from omnigraph.compiler.catalog.schema_ir import SchemaIr
from omnigraph.compiler.catalog.spell import spell_schema
from omnigraph.compiler.source import Source
from tests.support.schemas import schemas, text_of


def load(text: str, accepted: SchemaIr | None = None) -> SchemaIr:
    return load_schema(Source(text), accepted).ir


@pytest.mark.property
@given(schemas(), schemas(), schemas())
def test_what_one_side_changed_is_taken_and_repeating_a_merge_changes_nothing(one, two, three):
    base = load(text_of(one))
    mine, here = load(text_of(two), base), load(text_of(three), base)
    for theirs, ours, expected in ((mine, base, mine), (base, here, here), (mine, mine, mine)):
        found = reconcile([base], theirs, ours)
        assert found.conflicts == ()
        assert schema_hash(found.ir) == schema_hash(expected)
        assert schema_hash(load(spell_schema(found.ir), found.ir)) == schema_hash(expected)
    both = reconcile([base], mine, here)
    swapped = reconcile([base], here, mine)
    assert bool(both.conflicts) == bool(swapped.conflicts)
    if not both.conflicts:
        assert schema_hash(both.ir) == schema_hash(swapped.ir)
        again = reconcile([base], mine, both.ir)
        assert again.conflicts == ()
        assert schema_hash(again.ir) == schema_hash(both.ir)
        ordinals = [prop.ordinal for node in both.ir.nodes for prop in node.properties]
        assert len(ordinals) == sum(len({p.ordinal for p in n.properties}) for n in both.ir.nodes)


BASE = """
interface Named { name: String }
node A implements Named { k: String @key  name: String  a: I32?  b: I32? @index
  @range(a, 0..9) @unique(a, b) }
node B { k: String @key }
edge E: A -> B @card(0..3) { w: I32? }
"""


INDEX = "b: I32? @index\n"
PARTS = [
    (("@card(0..3)", "@card(0..4)"), ("@card(0..3)", "@card(0..5)"), ["the cardinality"]),
    (("0..9", "0..10"), ("0..9", "0..11"), ["@range of node:A"]),
    ((INDEX, "b: I32?\n"), ("w: I32?", 'v: I32? @rename_from("w")'), []),
    (("a: I32?", "a: I32"), ("a: I32?", "a: I64?"), []),
    (("node B {", 'node B @x("1") {'), ("node B {", 'node B @x("2") {'), ["@x of node:B"]),
    ((INDEX, f"{INDEX} c: I32?"), (INDEX, f"{INDEX} c: String?"), ["the type of node:A.c"]),
    ((" implements Named", ""), ("node B {", "node B implements Named { name: String "), []),
]


@pytest.mark.parametrize(("theirs", "ours", "told"), PARTS)
def test_parts_are_agreed_on_one_by_one(theirs, ours, told):
    base = load(BASE)
    sides = []
    for old, new in (theirs, ours):
        assert old in BASE
        sides.append(load(BASE.replace(old, new, 1), base))
    found = reconcile([base], *sides)
    assert len(found.conflicts) == len(told)
    for one, words in zip(found.conflicts, told, strict=True):
        assert words in one.message


def test_bases_that_disagree_settle_only_what_both_sides_say():
    base = load(BASE)
    other = load(BASE.replace("0..9", "0..8"), base)
    wider = load(BASE.replace("0..9", "0..10"), base)
    assert reconcile([base, other], wider, base).conflicts != ()
    assert reconcile([base, other], wider, wider).conflicts == ()
    assert reconcile([base, base], wider, base).conflicts == ()
