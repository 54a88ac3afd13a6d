"""A schema that nobody wrote is spelled so that it means what it is."""

import pytest
from hypothesis import given

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.ir_json import to_json
from omnigraph.compiler.catalog.spell import spell_schema
from omnigraph.compiler.source import Source
from tests.support.schemas import schemas, text_of


@pytest.mark.property
@given(schemas())
def test_what_is_spelled_compiles_to_the_same_schema(ast) -> None:
    ir = load_schema(Source(text_of(ast))).ir
    assert to_json(load_schema(Source(spell_schema(ir)), ir).ir) == to_json(ir)


def test_bounds_and_annotations_survive() -> None:
    text = """
    interface I { a: String @index }
    node N @x(5, y=true) @description("say \\"hi\\"") implements I {
      k: String @key
      f: F64 @deep("a b")
      g: F64?
      @range(f, -0.000001..100000.5)
      @range(g, 1..)
      @check(k, "^\\\\d+$")
      @unique(f, g)
    }
    edge E: N -> N @card(1..) { @unique(src, dst) }
    """
    ir = load_schema(Source(text)).ir
    assert to_json(load_schema(Source(spell_schema(ir)), ir).ir) == to_json(ir)
