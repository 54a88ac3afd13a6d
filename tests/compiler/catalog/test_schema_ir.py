"""The schema IR: canonical, hashed by meaning, stored and read back with every field checked."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.catalog.build import build_catalog, catalog_of, load_schema
from omnigraph.compiler.catalog.ir_json import from_json, schema_hash, to_json
from omnigraph.compiler.catalog.schema_ir import IR_VERSION, SchemaIr
from omnigraph.compiler.schema.ast import SchemaAst
from omnigraph.compiler.schema.parser import parse_schema
from omnigraph.compiler.source import Source
from omnigraph.errors import FormatError
from tests.support.schemas import schemas, text_of

SOCIAL = """
interface Named { name: String @index }
node Person @description("d") implements Named {
  handle: String @key
  age: I32? @range(age, 0..150)
  v: Vector(3)? @embed("name", model = "m")
}
edge Knows: Person -> Person @card(0..3) { since: Date @unique(src, since) }
"""


def load(text: str, accepted: SchemaIr | None = None):
    return load_schema(Source(text), accepted)


def shuffled(ast: SchemaAst, seed: int) -> SchemaAst:
    """Return the same schema with declarations, properties and annotations in another order."""
    pick = random.Random(seed)

    def mix(items):
        return tuple(pick.sample(items, len(items)))

    def each(found):
        changes = {"properties": mix(found.properties), "constraints": mix(found.constraints)}
        if hasattr(found, "annotations"):
            changes["annotations"] = mix(found.annotations)
        if hasattr(found, "implements"):
            changes["implements"] = mix(found.implements)
        return replace(found, **changes)

    return SchemaAst(mix([each(found) for found in ast.declarations]))


@pytest.mark.property
@given(schemas(), st.integers(0, 2**32))
def test_order_and_layout_do_not_change_the_hash(ast, seed) -> None:
    first = load(text_of(ast))
    second = load(text_of(shuffled(ast, seed), random.Random(seed)))
    assert second.ir == first.ir
    assert schema_hash(second.ir) == schema_hash(first.ir)


@pytest.mark.property
@given(schemas())
def test_a_stored_ir_reads_back_to_the_same_catalog(ast) -> None:
    loaded = load(text_of(ast))
    stored = to_json(loaded.ir)
    again = from_json(stored)
    assert again == loaded.ir
    assert to_json(again) == stored
    assert catalog_of(again) == loaded.catalog
    for found, same in zip(
        catalog_of(again).nodes.values(), loaded.catalog.nodes.values(), strict=True
    ):
        assert list(found.properties) == list(same.properties)


@pytest.mark.property
@given(schemas(), st.integers(0, 2**32))
def test_columns_of_an_accepted_schema_never_move(ast, seed) -> None:
    accepted = load(text_of(ast))
    again = load(text_of(shuffled(ast, seed)), accepted.ir)
    for name, node in again.catalog.nodes.items():
        assert list(node.properties) == list(accepted.catalog.nodes[name].properties)


def test_new_columns_come_last_in_declaration_order() -> None:
    accepted = load("node A { b: String a: String }")
    later = load("node A { z: I32? a: String c: I32? b: String }", accepted.ir)
    assert list(later.catalog.nodes["A"].properties) == ["b", "a", "z", "c"]


def test_hash_is_of_the_meaning() -> None:
    base = schema_hash(load(SOCIAL).ir)
    assert base.startswith("sha256:")
    assert len(base) == len("sha256:") + 64
    for change in (
        ("0..150", "0..151"),
        ("@card(0..3)", "@card(0..4)"),
        ('"d"', '"e"'),
        ("since: Date", "since: Date?"),
        ("@index", "@unique"),
        ('model = "m"', 'model = "n"'),
    ):
        assert schema_hash(load(SOCIAL.replace(*change)).ir) != base, change
    assert schema_hash(load("// note\n" + SOCIAL).ir) == base


def test_whole_and_decimal_bounds_are_different_meanings() -> None:
    whole = load("node A { a: F64 @range(a, 0..1) }").ir
    decimal = load("node A { a: F64 @range(a, 0.0..1.0) }").ir
    assert schema_hash(whole) != schema_hash(decimal)


def test_key_order_is_part_of_the_meaning() -> None:
    first = load("node A { a: String b: String @key(a, b) }")
    second = load("node A { a: String b: String @key(b, a) }")
    assert first.catalog.nodes["A"].key == ("a", "b")
    assert schema_hash(first.ir) != schema_hash(second.ir)


def test_the_catalog_of_a_tree_is_the_catalog_of_its_text() -> None:
    source = Source(SOCIAL)
    assert build_catalog(parse_schema(source), source) == load(SOCIAL).catalog


def damaged(*path, value=None, drop=False) -> str:
    document = json.loads(to_json(load(SOCIAL).ir))
    target = document
    for step in path[:-1]:
        target = target[step]
    if drop:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("", "not JSON", id="empty"),
        pytest.param("{", "not JSON", id="torn"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        pytest.param("[]", "schema IR is not an object", id="list"),
        pytest.param("{}", "ir_version is not present", id="nothing"),
        pytest.param(damaged("ir_version", value=2), "version 2", id="newer"),
        pytest.param(damaged("ir_version", value="1"), "ir_version", id="version text"),
        pytest.param(damaged("ir_version", value=True), "ir_version", id="version true"),
        pytest.param(damaged("nodes", drop=True), ".nodes is not present", id="no nodes"),
        pytest.param(damaged("nodes", value={}), ".nodes is not a list", id="nodes object"),
        pytest.param(damaged("extra", value=1), ".extra is not a known field", id="extra"),
        pytest.param(damaged("nodes", 0, "type_id", value=0), "nodes[0].type_id", id="zero id"),
        pytest.param(damaged("nodes", 0, "type_id", value=2**32), "nodes[0].type_id", id="big id"),
        pytest.param(damaged("nodes", 0, "name", value=3), "nodes[0].name", id="name"),
        pytest.param(damaged("nodes", 0, "name", value="\ud800"), "nodes[0].name", id="surrogate"),
        pytest.param(
            damaged("nodes", 0, "properties", 1, "prop_type", "scalar", value="Strng"),
            "nodes[0].properties[1].prop_type.scalar",
            id="scalar",
        ),
        pytest.param(
            damaged("nodes", 0, "properties", 1, "prop_type", "scalar", value={"Vector": 0}),
            "prop_type.scalar.Vector",
            id="width",
        ),
        pytest.param(
            damaged("nodes", 0, "properties", 1, "prop_type", "nullable", value=1),
            "prop_type.nullable",
            id="nullable",
        ),
        pytest.param(
            damaged("nodes", 0, "properties", 0, "ordinal", drop=True), "ordinal", id="ordinal"
        ),
        pytest.param(
            damaged("nodes", 0, "constraints", 0, value={"Kee": []}), "constraints[0]", id="kind"
        ),
        pytest.param(
            damaged("nodes", 0, "constraints", 0, value={"Key": ["nope"]}), "'nope'", id="column"
        ),
        pytest.param(
            damaged("nodes", 0, "constraints", 0, value={"Key": []}), "Key", id="empty key"
        ),
        pytest.param(
            damaged("nodes", 0, "constraints", 1, value={"Key": ["age"]}), "one key", id="two keys"
        ),
        pytest.param(damaged("edges", 0, "to_type", value="Nope"), "'Nope'", id="endpoint"),
        pytest.param(damaged("nodes", 0, "implements", value=["Nope"]), "'Nope'", id="interface"),
        pytest.param(
            damaged("edges", 0, "cardinality", "max", value=-1), "cardinality.max", id="card"
        ),
        pytest.param(
            damaged("nodes", 0, "annotations", 0, "value", value=1), "annotations[0].value", id="a"
        ),
    ],
)
def test_a_damaged_ir_is_refused_by_the_field(text: str, named: str) -> None:
    with pytest.raises(FormatError) as caught:
        from_json(text)
    assert named in caught.value.message


def test_the_order_in_a_stored_file_does_not_matter() -> None:
    ir = load("node A { a: String b: String } node B {} edge E: A -> B").ir
    document = json.loads(to_json(ir))
    document["nodes"].reverse()
    document["nodes"][1]["properties"].reverse()
    assert from_json(json.dumps(document)) == ir


def test_two_types_cannot_share_an_id() -> None:
    document = json.loads(to_json(load("node A {} node B {}").ir))
    document["nodes"][1]["type_id"] = document["nodes"][0]["type_id"]
    with pytest.raises(FormatError, match="type ids are not distinct"):
        from_json(json.dumps(document))


@pytest.mark.property
@given(st.data())
def test_any_torn_field_is_a_format_error_or_harmless(data) -> None:
    document = json.loads(to_json(load(SOCIAL).ir))
    junk = st.sampled_from([None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"a": {}}])

    def tear(value, depth=0):
        if isinstance(value, dict) and value and depth < 9 and data.draw(st.integers(0, 5)):
            key = data.draw(st.sampled_from(sorted(value)))
            return {**value, key: tear(value[key], depth + 1)}
        if isinstance(value, list) and value and depth < 9 and data.draw(st.integers(0, 5)):
            at = data.draw(st.integers(0, len(value) - 1))
            return [*value[:at], tear(value[at], depth + 1), *value[at + 1 :]]
        return copy.deepcopy(data.draw(junk))

    try:
        found = from_json(json.dumps(tear(document)))
    except FormatError:
        return
    assert isinstance(found, SchemaIr)
    catalog_of(found)


def test_the_version_is_one() -> None:
    assert IR_VERSION == 1
    assert json.loads(to_json(SchemaIr()))["ir_version"] == 1
