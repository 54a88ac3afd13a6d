"""The catalog says what the schema means, and Arrow schemas follow from it."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from omnigraph.compiler.catalog.arrow import BLOB_METADATA, arrow_schema, find_pattern_error
from omnigraph.compiler.catalog.build import build_catalog, load_schema
from omnigraph.compiler.catalog.model import Cardinality, Catalog, Check, Embed, Range
from omnigraph.compiler.diagnostics import DiagnosticsError, Phase
from omnigraph.compiler.schema.parser import parse_schema
from omnigraph.compiler.source import Source


def load(text: str) -> Catalog:
    return load_schema(Source(text)).catalog


def test_an_inline_key_is_the_key_and_an_index() -> None:
    node = load("node A { slug: String @key other: I32 @index }").nodes["A"]
    assert node.key == ("slug",)
    assert node.indices == (("slug",), ("other",))


def test_composite_entries_stay_together() -> None:
    node = load("node A { a: String b: I32 c: I32 @unique(b, a) @index(c, a) }").nodes["A"]
    assert node.unique == (("a", "b"),)
    assert node.indices == (("a", "c"),)


def test_both_spellings_of_a_constraint_are_one_entry() -> None:
    node = load("node A { a: String @unique @unique(a) @key(a) @index(a) }").nodes["A"]
    assert node.unique == (("a",),)
    assert node.indices == (("a",),)


def test_open_ranges_are_open_on_the_side_that_is_missing() -> None:
    node = load("node A { a: I32 b: F32 @range(a, ..5) @range(b, -1.5..) }").nodes["A"]
    assert node.ranges == (Range("a", None, 5), Range("b", -1.5, None))


def test_embeds_name_target_source_and_model() -> None:
    text = (
        'interface T { text: String } node A implements T { v: Vector(3)? @embed(text, model="m") }'
    )
    node = load(text).nodes["A"]
    assert node.embeds == {"v": Embed("v", "text", "m")}
    assert list(node.properties) == ["v", "text"]


def test_edges_know_endpoints_and_cardinality_and_are_found_in_any_case() -> None:
    catalog = load("node A {} node B {} edge WorksAt: A -> B @card(1..2) edge Free: A -> A")
    edge = catalog.find_edge("worksAt")
    assert edge is catalog.edges["WorksAt"]
    assert (edge.from_type, edge.to_type, edge.cardinality) == ("A", "B", Cardinality(1, 2))
    assert catalog.edges["Free"].cardinality == Cardinality(0, None)
    assert catalog.find_edge("works_at") is None


def test_checks_are_kept_with_their_pattern() -> None:
    node = load('node A { a: String @check(a, "^\\\\d+$") }').nodes["A"]
    assert node.checks == (Check("a", r"^\d+$"),)


def test_arrow_types_of_every_scalar() -> None:
    text = """node A {
      s: String blob: Blob b: Bool i: I32 l: I64 u: U32 w: U64 f: F32 d: F64 day: Date at: DateTime
      v: Vector(3)? many: [Date]? e: enum(x)
    }"""
    schema = arrow_schema(load(text).nodes["A"])
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        ("id", pa.utf8(), False),
        ("s", pa.utf8(), False),
        ("blob", pa.large_binary(), False),
        ("b", pa.bool_(), False),
        ("i", pa.int32(), False),
        ("l", pa.int64(), False),
        ("u", pa.uint32(), False),
        ("w", pa.uint64(), False),
        ("f", pa.float32(), False),
        ("d", pa.float64(), False),
        ("day", pa.date32(), False),
        ("at", pa.date64(), False),
        ("v", pa.list_(pa.field("item", pa.float32(), nullable=True), 3), True),
        ("many", pa.list_(pa.field("item", pa.date32(), nullable=True)), True),
        ("e", pa.utf8(), False),
    ]
    assert schema.field("blob").metadata == BLOB_METADATA
    assert schema.field("v").type.value_field == pa.field("item", pa.float32(), nullable=True)


def test_edge_tables_start_with_id_and_endpoints() -> None:
    schema = arrow_schema(load("node A { k: I32 @key } edge E: A -> A { w: F64? }").edges["E"])
    assert schema.names == ["id", "src", "dst", "w"]
    assert all(schema.field(name) == pa.field(name, pa.utf8(), False) for name in schema.names[:3])


def test_a_key_property_called_id_is_the_id_column() -> None:
    node = load("node A { a: I32 id: String @key }").nodes["A"]
    assert node.key == ("id",)
    assert arrow_schema(node).names == ["id", "a"]


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"\1", "a**", "[z-a]", "a{1001}"])
def test_patterns_that_cannot_run_are_known_before_any_row(pattern: str) -> None:
    assert find_pattern_error(pattern)


@pytest.mark.parametrize("pattern", ["", "^a+$", r"\pL", "[[:alpha:]]", "(?i)x", r"\d{3}"])
def test_patterns_that_run_are_accepted(pattern: str) -> None:
    assert find_pattern_error(pattern) is None


def test_catalog_errors_are_of_the_catalog_phase() -> None:
    source = Source("node A {} node A {} edge E: A -> B")
    with pytest.raises(DiagnosticsError) as caught:
        build_catalog(parse_schema(source), source)
    found = caught.value.diagnostics
    assert [item.phase for item in found] == [Phase.CATALOG, Phase.CATALOG]
    assert str(caught.value).startswith("<input>:1:16: catalog error: C001: duplicate node type: A")


def test_errors_of_all_passes_are_reported_together() -> None:
    with pytest.raises(DiagnosticsError) as caught:
        load('node A { a: I32 @check(a, "x") } node A {} edge E: A -> B { a: String @key }')
    assert [found.code for found in caught.value.diagnostics] == ["S008", "C001", "C003", "S005"]
    assert sys.modules["lark"]
