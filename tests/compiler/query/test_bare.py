"""A body without a declaration is compiled with the parameters it mentions."""

import datetime as dt

import numpy as np
import pytest

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.query.bare import framed, is_body
from omnigraph.compiler.source import Source

CATALOG = load_schema(
    Source("node P { name: String @key age: I32? v: Vector(3)? at: DateTime? }")
).catalog


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("insert P { name: $x }", True),
        ("  // first\n insert P { name: 'a' }", True),
        ("query q() { }", False),
        ("// only this\n query q() { }", False),
        ("/* query */ match { $p: P }", True),
        ("qury q() { }", False),
        ("", False),
        ("// nothing", False),
    ],
)
def test_a_body_is_what_begins_with_no_declaration(text, body):
    assert is_body(text) is body
    assert (framed(Source(text)).written is not None) is (body and not text.startswith("query"))


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ("x", "String"),
        (None, "String?"),
        (True, "Bool"),
        (3, "I64"),
        (2**63, "U64"),
        (1.5, "F64"),
        (np.float32(1.5), "F64"),
        (dt.date(2024, 1, 1), "Date"),
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "DateTime"),
        ([1, 2], "[I64]"),
        (np.array([1.0, 2.0]), "[F64]"),
    ],
)
def test_parameters_are_declared_by_their_values(value, declared):
    found = framed(Source("match { $p: P $p.name = $x } return { $p.name }"), {"x": value, "y": 1})
    assert found.text.startswith(f"query inline($x: {declared}) {{\n")


def test_what_nearest_is_given_is_a_vector():
    text = "match { $p: P } return { $p.name } order { nearest($p.v, $near) } limit 1"
    compiled = compile_query(CATALOG, framed(Source(text), {"near": [1.0, 0.0, 0.0]}))
    assert str(compiled.params[0].type) == "Vector(3)"


def test_mistakes_are_shown_where_they_were_written():
    text = "match {\n  $p: P\n}\nreturn { $p.nope }"
    with pytest.raises(DiagnosticsError) as caught:
        compile_query(CATALOG, framed(Source(text, "<q>")))
    (found,) = caught.value.to_json()
    assert (found["line"], found["column"]) == (4, 10)
    assert str(caught.value).startswith("<q>:4:10: type error: T6")
    with pytest.raises(DiagnosticsError) as caught:
        compile_query(CATALOG, framed(Source("match { $p: P", "<q>")))
    assert caught.value.source.text == "match { $p: P"
