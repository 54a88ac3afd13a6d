"""Ids live in the accepted IR: they survive renames and are never given twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base.hashing import fnv1a32
from omnigraph.compiler.catalog import identity
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.ir_json import from_json, schema_hash, to_json
from omnigraph.compiler.catalog.migration import plan_schema_migration
from omnigraph.compiler.catalog.schema_ir import SchemaIr
from omnigraph.compiler.catalog.steps import RenameProperty, RenameType
from omnigraph.compiler.schema.ast import Annotation, EdgeDecl, NodeDecl, SchemaAst
from omnigraph.compiler.source import Source
from tests.support.schemas import NOWHERE, name, schemas, text_of


def load(text: str, accepted: SchemaIr | None = None):
    return load_schema(Source(text), accepted)


def test_first_ids_are_hashes_of_kind_and_name() -> None:
    catalog = load("interface I { a: String } node A implements I {} edge A: A -> A").catalog
    assert catalog.nodes["A"].type_id == fnv1a32("node:A")
    assert catalog.edges["A"].type_id == fnv1a32("edge:A")
    assert catalog.interfaces["I"].type_id == fnv1a32("interface:I")
    assert catalog.nodes["A"].properties["a"].prop_id == fnv1a32("node:A:a")
    assert catalog.interfaces["I"].properties["a"].prop_id == fnv1a32("interface:I:a")


def test_a_rename_keeps_ids_and_column_places() -> None:
    before = load("node Person { name: String @key age: I32? } edge Knows: Person -> Person")
    text = """
    node Human @rename_from("Person") { years: I32? @rename_from("age") name: String @key }
    edge Met: Human -> Human @rename_from("Knows")
    """
    after = load(text, before.ir)
    old, new = before.catalog.nodes["Person"], after.catalog.nodes["Human"]
    assert new.type_id == old.type_id
    assert new.properties["years"].prop_id == old.properties["age"].prop_id
    assert list(new.properties) == ["name", "years"]
    assert after.catalog.edges["Met"].type_id == before.catalog.edges["Knows"].type_id


def test_the_accepted_text_compiles_to_the_accepted_ir() -> None:
    before = load("node Person { name: String }").ir
    text = 'node Human @rename_from("Person") { title: String @rename_from("name") }'
    accepted = load(text, before).ir
    stored = from_json(to_json(accepted))
    again = load(text, stored).ir
    assert again == stored
    assert schema_hash(again) == schema_hash(stored)
    # Taking the hint out once it has done its work changes nothing either.
    assert load("node Human { title: String }", stored).ir == stored


def test_a_name_freed_by_a_rename_gets_a_new_id() -> None:
    first = load("node Person {}").ir
    second = load('node Human @rename_from("Person") {}', first).ir
    third = load("node Human {} node Person {}", second).catalog
    assert third.nodes["Human"].type_id == fnv1a32("node:Person")
    assert third.nodes["Person"].type_id == fnv1a32("node:Person") + 1


def test_the_id_of_a_dropped_part_is_retired() -> None:
    first = load("node A { x: String y: String } node B {}").ir
    second = load("node A { x: String }", first).ir
    third = load("node A { x: String y: I32? } node B {}", second)
    old = {found.type_id for found in first.nodes}
    assert third.catalog.nodes["B"].type_id not in old
    assert third.catalog.nodes["A"].properties["y"].prop_id != fnv1a32("node:A:y")
    assert set(third.ir.retired_ids) == {fnv1a32("node:B"), fnv1a32("node:A:y")}
    assert load("node A { x: String y: I32? } node B {}", third.ir).ir == third.ir


def test_names_with_the_same_hash_get_different_ids(monkeypatch) -> None:
    monkeypatch.setattr(identity, "fnv1a32", lambda _text: 0)
    catalog = load("node B { y: String x: String } node A {} edge C: A -> B").catalog
    assert catalog.nodes["A"].type_id == 1  # an id is never 0
    assert catalog.nodes["B"].type_id == 2
    assert catalog.edges["C"].type_id == 3
    assert [prop.prop_id for prop in catalog.nodes["B"].properties.values()] == [2, 1]


def test_ids_wrap_around_at_the_top(monkeypatch) -> None:
    monkeypatch.setattr(identity, "fnv1a32", lambda _text: 2**32 - 1)
    catalog = load("node A {} node B {}").catalog
    assert [node.type_id for node in catalog.nodes.values()] == [2**32 - 1, 1]


def renamed(ast: SchemaAst, old: str, new: str) -> SchemaAst:
    """Return the schema with a node type renamed everywhere, and the hint for it."""

    def each(found):
        if isinstance(found, NodeDecl) and found.name.text == old:
            hint = Annotation("rename_from", old, (), NOWHERE)
            kept = tuple(item for item in found.annotations if item.name != "rename_from")
            return replace(found, name=name(new), annotations=(*kept, hint))
        if isinstance(found, EdgeDecl):
            ends = {
                end: name(new) if getattr(found, end).text == old else getattr(found, end)
                for end in ("from_type", "to_type")
            }
            return replace(found, **ends)
        return found

    return SchemaAst(tuple(each(found) for found in ast.declarations))


def property_renamed(ast: SchemaAst, owner: str, old: str, new: str) -> SchemaAst:
    """Return the schema with a property of a node renamed; its constraints are left out."""

    def each(found):
        if not isinstance(found, NodeDecl) or found.name.text != owner:
            return found
        hint = Annotation("rename_from", old, (), NOWHERE)
        properties = tuple(
            replace(prop, name=name(new), annotations=(hint,)) if prop.name.text == old else prop
            for prop in found.properties
        )
        return replace(found, properties=properties)

    return SchemaAst(tuple(each(found) for found in ast.declarations))


def bare(ast: SchemaAst) -> SchemaAst:
    """Return the schema without constraints and property annotations."""

    def each(found):
        properties = tuple(replace(prop, annotations=()) for prop in found.properties)
        return replace(found, properties=properties, constraints=())

    return SchemaAst(tuple(each(found) for found in ast.declarations))


@pytest.mark.property
@given(schemas(), st.data())
def test_ids_survive_any_chain_of_renames(ast, data) -> None:
    ast = bare(ast)
    accepted = load(text_of(ast)).ir
    first = accepted
    names = {node.name.text: node.name.text for node in ast.nodes()}  # now -> at first
    columns: dict[str, dict[str, str]] = {
        node.name.text: {prop.name.text: prop.name.text for prop in node.properties}
        for node in ast.nodes()
    }
    for step in range(data.draw(st.integers(1, 4)) if names else 0):
        target = data.draw(st.sampled_from(sorted(names)))
        props = columns[names[target]]
        if props and data.draw(st.booleans()):
            old = data.draw(st.sampled_from(sorted(props)))
            # Sometimes a name that was used before: the past must not leak into identity.
            new = data.draw(st.sampled_from([f"p{step}", "again"]))
            if new in props:
                continue
            ast = property_renamed(ast, target, old, new)
            props[new] = props.pop(old)
            expected = [RenameProperty]
        else:
            new = data.draw(st.sampled_from([f"T{step}", "Again"]))
            if new in names:
                continue
            ast = renamed(ast, target, new)
            names[new] = names.pop(target)
            expected = [RenameType]
        desired = load(text_of(ast), accepted).ir
        steps = plan_schema_migration(accepted, desired).steps
        assert [type(found) for found in steps] == expected
        accepted = from_json(to_json(desired))
        assert load(text_of(ast), accepted).ir == accepted
    origin = {node.name: node for node in first.nodes}
    for node in accepted.nodes:
        before = origin[names[node.name]]
        assert node.type_id == before.type_id
        ids = {prop.name: prop.prop_id for prop in before.properties}
        own = columns[names[node.name]]
        for prop in node.properties:
            assert prop.prop_id == ids[own.get(prop.name, prop.name)]
    assert accepted.retired_ids == ()
