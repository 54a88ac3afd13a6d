"""Small graphs that the statements about reading speak of, and how to ask them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from omnigraph.base.budget import Budget
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.compile import CompiledQuery, compile_query, plan_by_schema
from omnigraph.compiler.ir.ops import ReadIr
from omnigraph.compiler.source import Source
from omnigraph.engine.read.prepare import Prepared, prepare
from omnigraph.engine.read.run import run_read
from tests.support.answers import plain_rows
from tests.support.graphs import as_table
from tests.support.memory_images import MemoryImages

Row = dict[str, Any]

SOCIAL = """
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Company
"""

LIBRARY = """
node Author { name: String @key }
node Doc {
  slug: String @key
  title: String
  body: String?
  status: String?
  vec: Vector(3)?
  alt: Vector(3)?
}
edge Wrote: Author -> Doc
edge Cites: Doc -> Doc { pages: I32? }
"""


class Fixture:
    """A schema with rows; rows without ids get those of their keys, edges a number."""

    def __init__(self, schema: str, **rows: list[Row]) -> None:
        self.catalog: Catalog = load_schema(Source(schema)).catalog
        self.rows: dict[str, list[Row]] = {}
        for kind in self.catalog.nodes.values():
            made = [_whole(kind.properties, one) for one in rows.get(kind.name, [])]
            key = kind.key[0] if kind.key else "id"
            self.rows[kind.table_key] = [{"id": str(one[key])} | one for one in made]
        for edge in self.catalog.edges.values():
            made = [_whole(edge.properties, one) for one in rows.get(edge.name, [])]
            self.rows[edge.table_key] = [
                {"id": f"{edge.name}-{at}"} | one for at, one in enumerate(made)
            ]

    @cached_property
    def images(self) -> MemoryImages:
        kinds = [*self.catalog.nodes.values(), *self.catalog.edges.values()]
        tables = {kind.table_key: as_table(kind, self.rows[kind.table_key]) for kind in kinds}
        return MemoryImages(self.catalog, tables)

    def planned(self, compiled: CompiledQuery) -> Prepared:
        """Return a compiled query as it would run on data of which nothing is known."""
        made = plan_by_schema(self.catalog, compiled)
        assert isinstance(made, ReadIr)
        return prepare(made)

    def table(self, body: str, budget: Budget | None = None, /, **params: Any) -> Any:
        """Run `query q(<declared>) { … }`; `body` is the whole text or what stands inside."""
        text = body if body.lstrip().startswith("query") else f"query q() {{ {body} }}"
        compiled = compile_query(self.catalog, text)
        bound = compiled.bind(params, now_ms=1_700_000_000_000)
        with budget or Budget() as current:
            return run_read(self.planned(compiled), self.images, bound, current).to_table()

    def ask(self, body: str, /, **params: Any) -> list[Row]:
        return plain_rows(self.table(body, **params))

    def values(self, body: str, /, **params: Any) -> list[Any]:
        """Return the only column of a query, or tuples of several."""
        rows = [tuple(row.values()) for row in self.ask(body, **params)]
        return [row[0] if len(row) == 1 else row for row in rows]


def _whole(properties: Any, row: Row) -> Row:
    return dict.fromkeys(properties) | row


def pairs(*found: str) -> list[Row]:
    """Return edges from `a>b` texts."""
    return [dict(zip(("src", "dst"), one.split(">"), strict=True)) for one in found]


def people(**ages: int | None) -> list[Row]:
    return [{"name": name, "age": age} for name, age in ages.items()]


def social(**changed: list[Row]) -> Fixture:
    """Return four people, two companies; Alice knows Bob and Charlie, Bob knows Diana."""
    rows: dict[str, list[Row]] = {
        "Person": people(Alice=30, Bob=25, Charlie=35, Diana=28),
        "Company": [{"name": "Acme"}, {"name": "Globex"}],
        "Knows": pairs("Alice>Bob", "Alice>Charlie", "Bob>Diana"),
        "WorksAt": pairs("Alice>Acme", "Bob>Globex"),
    }
    return Fixture(SOCIAL, **(rows | changed))


def library(**changed: list[Row]) -> Fixture:
    """Return five documents with texts and vectors, and who wrote and cites them."""
    docs = [
        ("dl", "Deep learning", "neural networks with many layers", "hit", [0, 1, 0], [1, 0, 0]),
        ("ml", "Machine learning", "learning from data", "hit", [1, 1, 0], [0, 1, 0]),
        ("nlp", "Language", "words and the meaning of words", "miss", [0, 0, 1], None),
        ("rl", "Reinforcement learning", "learning from rewards", "hit", [1, 0, 0], [0, 1, 1]),
        ("void", "Nothing", None, None, None, [0, 0, 0]),
    ]
    names = ("slug", "title", "body", "status", "vec", "alt")
    rows: dict[str, list[Row]] = {
        "Author": [{"name": "ann"}, {"name": "bob"}],
        "Doc": [dict(zip(names, one, strict=True)) for one in docs],
        "Wrote": pairs("ann>ml", "ann>rl", "bob>ml", "bob>nlp"),
        "Cites": pairs("ml>dl", "rl>ml", "rl>dl", "nlp>dl"),
    }
    return Fixture(LIBRARY, **(rows | changed))
