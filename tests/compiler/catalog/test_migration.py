"""Migration plans: complete, deterministic, and honest about what they cannot do."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.ir_json import schema_hash
from omnigraph.compiler.catalog.migration import plan_schema_migration
from omnigraph.compiler.catalog.schema_ir import SchemaIr
from omnigraph.compiler.catalog.steps import UnsupportedChange, describe
from omnigraph.compiler.source import Source
from tests.support.schemas import schemas, text_of


def load(text: str, accepted: SchemaIr | None = None) -> SchemaIr:
    return load_schema(Source(text), accepted).ir


def plan(before: str, after: str, *, allow: bool = False):
    accepted = load(before)
    return plan_schema_migration(accepted, load(after, accepted), allow_data_loss=allow)


@pytest.mark.property
@given(schemas())
def test_a_schema_needs_no_migration_to_itself(ast) -> None:
    ir = load(text_of(ast))
    assert plan_schema_migration(ir, ir).steps == ()
    assert plan_schema_migration(ir, load(text_of(ast), ir)).steps == ()


@pytest.mark.property
@given(schemas(), schemas(), st.booleans())
def test_a_plan_is_empty_exactly_when_the_hash_stays(before, after, allow) -> None:
    accepted = load(text_of(before))
    desired = load(text_of(after), accepted)
    found = plan_schema_migration(accepted, desired, allow_data_loss=allow)
    assert (found.steps == ()) == (schema_hash(accepted) == schema_hash(desired))
    assert found.supported == (not any(isinstance(step, UnsupportedChange) for step in found.steps))
    again = plan_schema_migration(accepted, load(text_of(after), accepted), allow_data_loss=allow)
    assert again == found
    json.dumps(found.to_json())
    assert all("\n" not in describe(step) for step in found.steps)


@pytest.mark.property
@given(schemas(), schemas())
def test_permission_only_ever_allows_more(before, after) -> None:
    accepted = load(text_of(before))
    desired = load(text_of(after), accepted)

    def refused(allow: bool) -> set[UnsupportedChange]:
        steps = plan_schema_migration(accepted, desired, allow_data_loss=allow).steps
        return {step for step in steps if isinstance(step, UnsupportedChange)}

    assert refused(True) <= refused(False)


@pytest.mark.property
@given(schemas())
def test_any_schema_can_be_reached_from_nothing(ast) -> None:
    desired = load(text_of(ast), SchemaIr())
    found = plan_schema_migration(SchemaIr(), desired)
    assert found.supported
    assert len(found.steps) == len(ast.declarations)


def test_steps_have_their_documented_json() -> None:
    before = """
    interface I { a: String }
    node A { k: String @key old: I32? e: enum(x)? gone: String }
    node Gone {}
    """
    after = """
    interface I { a: String }
    node B @rename_from("A") @description("d") {
      k: String @key @description("p") new: I32? @rename_from("old") e: enum(x, y)?
      v: Vector(4)? @index l: enum(b, a)?
    }
    node Fresh {}
    """
    assert plan(before, after, allow=True).to_json() == {
        "supported": True,
        "steps": [
            {"kind": "rename_type", "type_kind": "node", "from": "A", "to": "B"},
            {
                "kind": "update_type_metadata",
                "type_kind": "node",
                "name": "B",
                "annotations": [{"name": "description", "value": "d"}],
            },
            {
                "kind": "extend_enum",
                "type_kind": "node",
                "type_name": "B",
                "property_name": "e",
                "added_values": ["y"],
            },
            {
                "kind": "update_property_metadata",
                "type_kind": "node",
                "type_name": "B",
                "property_name": "k",
                "annotations": [{"name": "description", "value": "p"}],
            },
            {
                "kind": "add_property",
                "type_kind": "node",
                "type_name": "B",
                "property_name": "l",
                "property_type": {
                    "scalar": "String",
                    "nullable": True,
                    "list": False,
                    "enum_values": ["a", "b"],
                },
            },
            {
                "kind": "rename_property",
                "type_kind": "node",
                "type_name": "B",
                "from": "old",
                "to": "new",
            },
            {
                "kind": "add_property",
                "type_kind": "node",
                "type_name": "B",
                "property_name": "v",
                "property_type": {
                    "scalar": {"Vector": 4},
                    "nullable": True,
                    "list": False,
                    "enum_values": None,
                },
            },
            {
                "kind": "drop_property",
                "type_kind": "node",
                "type_name": "B",
                "property_name": "gone",
            },
            {
                "kind": "add_constraint",
                "type_kind": "node",
                "type_name": "B",
                "constraint": {"Index": ["v"]},
            },
            {"kind": "add_type", "type_kind": "node", "name": "Fresh"},
            {"kind": "drop_type", "type_kind": "node", "name": "Gone"},
        ],
    }


def test_an_unsupported_change_says_what_to_do_instead() -> None:
    found = plan("node A { a: I64 }", "node A { a: I32 }")
    assert not found.supported
    assert found.first_unsupported is not None
    assert "changing property type" in found.first_unsupported.reason
    assert found.to_json()["steps"] == [
        {
            "kind": "unsupported_change",
            "entity": "node:A.a",
            "reason": "changing property type from I64 to I32 is not supported",
            "hint": "add a new nullable property, copy the values over, then drop the old one",
        }
    ]


def test_an_enum_is_described_by_its_values() -> None:
    found = plan("node A {}", "node A { a: enum(y, x)? b: [I32]? }")
    assert [describe(step) for step in found.steps] == [
        "add property 'A.a' (Enum(x|y)?) on node 'A'",
        "add property 'A.b' ([I32]?) on node 'A'",
    ]


def test_reordering_key_columns_is_refused() -> None:
    before = "node A { a: String b: String @key(a, b) }"
    assert not plan(before, before.replace("(a, b)", "(b, a)")).supported


def test_a_renamed_key_keeps_its_place_among_the_key_columns() -> None:
    before = "node A { a: String b: String @key(a, b) }"
    after = 'node A { z: String @rename_from("a") b: String @key(z, b) }'
    assert [describe(step) for step in plan(before, after).steps] == [
        "rename property 'A.a' -> 'A.z' on node 'A'"
    ]
    assert not plan(before, after.replace("(z, b)", "(b, z)")).supported


def test_the_id_column_cannot_be_renamed_in_or_out() -> None:
    keyed = "node A { id: String @key }"
    out = 'node A { slug: String @rename_from("id") @key }'
    found = plan(keyed, out).first_unsupported
    assert found is not None
    assert "`id` column" in found.reason
    back = plan(
        "node A { slug: String @key }", 'node A { id: String @rename_from("slug") @key }'
    ).first_unsupported
    assert back is not None
    assert "`id` column" in back.reason


def test_a_composite_constraint_goes_with_its_dropped_column() -> None:
    before = "node A { a: String b: String c: String @unique(a, b) @index(b, c) @index(a, c) }"
    after = "node A { a: String c: String @index(a, c) }"
    assert [describe(step) for step in plan(before, after, allow=True).steps] == [
        "drop property 'A.b' on node 'A'"
    ]
