"""Random valid schemas as syntax trees, and their texts in random layouts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from omnigraph.compiler.schema.ast import (
    Annotation,
    Cardinality,
    Check,
    Constraint,
    Declaration,
    EdgeDecl,
    Index,
    InterfaceDecl,
    Key,
    Name,
    NodeDecl,
    Property,
    Range,
    SchemaAst,
    Unique,
)
from omnigraph.compiler.source import Span
from omnigraph.compiler.syntax import quote
from omnigraph.compiler.types import PropType, Scalar

NOWHERE = Span(0, 0)

_PROPERTIES = [
    "node",
    "edge",
    "type",
    "implements",
    "enum",
    "name",
    "age",
    "_x",
    "camelCase",
    "to_",
]
_NODES = ["Person", "Company", "Node", "Edge_2", "String"]
_EDGES = ["Knows", "WorksAt", "Person", "Likes"]
_INTERFACES = ["Named", "Dated"]
_ENUM_VALUES = ["a", "in-review", "2nd", "-", "node", "_", "B"]
_SCALARS = [scalar for scalar in Scalar if scalar is not Scalar.VECTOR]
_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8) | (
    st.sampled_from(['quoted "x"', "back\\slash", "line\nbreak\ttab\r", "// no comment", "/* */"])
)
_LAYOUT = ["\n", "\n\n\n", "\t", "\r\n", " // note\n", " /* block */ ", "/* two\n lines */", "  "]


def name(text: str) -> Name:
    """Return a name whose place does not matter."""
    return Name(text, NOWHERE)


def _types() -> st.SearchStrategy[PropType]:
    plain = st.builds(PropType, st.sampled_from(_SCALARS), st.booleans())
    listed = st.builds(
        lambda scalar, nullable: PropType(scalar, nullable, is_list=True),
        st.sampled_from([scalar for scalar in _SCALARS if scalar is not Scalar.BLOB]),
        st.booleans(),
    )
    enums = st.builds(
        lambda values, nullable: PropType(
            Scalar.STRING, nullable, enum_values=tuple(sorted(values))
        ),
        st.sets(st.sampled_from(_ENUM_VALUES), min_size=1, max_size=4),
        st.booleans(),
    )
    vectors = st.builds(
        lambda width, nullable: PropType(Scalar.VECTOR, nullable, dim=width),
        st.sampled_from([1, 3, 256, 2_147_483_647]),
        st.booleans(),
    )
    return st.one_of(plain, plain, plain, listed, enums, vectors)


def _annotation(word: str, value: str | None, **kwargs: str) -> Annotation:
    return Annotation(word, value, tuple(sorted(kwargs.items())), NOWHERE)


@st.composite
def _header_annotations(draw) -> tuple[Annotation, ...]:
    found = []
    if draw(st.booleans()):
        found.append(_annotation("description", "d" + draw(_TEXTS)))
    if draw(st.booleans()):
        found.append(_annotation("owner", draw(st.none() | _TEXTS)))
    return tuple(draw(st.permutations(found)))


@st.composite
def _properties(draw, exclude: Sequence[str] = ()) -> tuple[Property, ...]:
    pool = [word for word in _PROPERTIES if word not in exclude]
    names = draw(st.lists(st.sampled_from(pool), unique=True, max_size=4))
    found = []
    for word in names:
        annotations = []
        if draw(st.integers(0, 3)) == 0:
            annotations.append(_annotation("description", "p" + draw(_TEXTS)))
        if draw(st.integers(0, 3)) == 0:
            annotations.append(_annotation("tag", draw(_TEXTS), level="3"))
        found.append(Property(name(word), draw(_types()), tuple(annotations)))
    return tuple(found)


def _single(found: PropType) -> bool:
    return not found.is_list and found.scalar not in (Scalar.VECTOR, Scalar.BLOB)


@st.composite
def _constraints(draw, properties: Sequence[Property], *, edge: bool) -> tuple[Constraint, ...]:
    """Constraints in the order `text_of` writes them: suffixes first, then the body."""
    inline: list[Constraint] = []
    body: list[Constraint] = []
    unique = [prop.name.text for prop in properties if _single(prop.type)]
    has_key = edge
    for prop in properties:
        column = (prop.name,)
        if _single(prop.type) and draw(st.integers(0, 3)) == 0:
            inline.append(Unique(column, NOWHERE))
        if not has_key and _single(prop.type) and not prop.type.nullable and draw(st.booleans()):
            has_key = True
            inline.append(Key(column, NOWHERE))
        if not edge and prop.type.is_numeric and draw(st.booleans()):
            low, high = sorted(draw(st.tuples(st.integers(-9, 9), st.integers(-9, 9))))
            open_side = draw(st.integers(0, 2))
            bounds = ((low, high), (None, high), (float(low), None))[open_side]
            body.append(Range(prop.name, *bounds, NOWHERE))
        if not edge and prop.type.scalar is Scalar.STRING and draw(st.integers(0, 4)) == 0:
            body.append(Check(prop.name, draw(st.sampled_from(["^a+$", '"', "\\."])), NOWHERE))
    columns = draw(st.lists(st.sampled_from(unique), unique=True, max_size=3)) if unique else []
    if edge and draw(st.booleans()):
        columns = ["src", *columns]
    if len(columns) > 1:
        body.append(draw(st.sampled_from([Unique, Index]))(tuple(map(name, columns)), NOWHERE))
    return (*inline, *draw(st.permutations(body)))


@st.composite
def schemas(draw) -> SchemaAst:
    """Return a valid schema of up to nine declarations over a small pool of names."""
    interfaces = []
    for at, word in enumerate(draw(st.lists(st.sampled_from(_INTERFACES), unique=True))):
        # Different names per interface: what one offers, the other must not contradict.
        owned = tuple(
            Property(name(f"i{at}_{number}"), draw(_types()), ())
            for number in range(draw(st.integers(0, 2)))
        )
        interfaces.append(InterfaceDecl(name(word), owned))
    nodes = []
    for word in draw(st.lists(st.sampled_from(_NODES), unique=True, max_size=3)):
        properties = draw(_properties())
        shared = [found.name for found in interfaces if draw(st.booleans())]
        constraints = draw(_constraints(properties, edge=False))
        header = draw(_header_annotations())
        nodes.append(NodeDecl(name(word), header, tuple(shared), properties, constraints))
    edges = []
    ends = [found.name for found in nodes]
    for word in draw(st.lists(st.sampled_from(_EDGES), unique=True, max_size=3)) if ends else []:
        properties = draw(_properties())
        low = draw(st.integers(0, 2))
        high = draw(st.none() | st.integers(low, 4))
        edges.append(
            EdgeDecl(
                name(word),
                draw(st.sampled_from(ends)),
                draw(st.sampled_from(ends)),
                Cardinality(low, high),
                draw(_header_annotations()),
                properties,
                draw(_constraints(properties, edge=True)),
            )
        )
    return SchemaAst(tuple(draw(st.permutations([*interfaces, *nodes, *edges]))))


def text_of(ast: SchemaAst, layout: random.Random | None = None, gap: str = " ") -> str:
    """Return a text that parses to `ast`; with `layout`, in a random arrangement."""
    pieces = [piece for found in ast.declarations for piece in _declaration(found)]
    if layout is None:
        return gap.join(pieces)
    gaps = (layout.choice(_LAYOUT) if layout.random() < 0.3 else " " for _ in pieces)
    out = "".join(gap + piece for gap, piece in zip(gaps, pieces, strict=True))
    return out + layout.choice(["", "\n", " // end", "\n/* end */\n\n"])


def _declaration(found: Declaration) -> Iterator[str]:
    match found:
        case InterfaceDecl():
            yield from ("interface", found.name.text)
        case NodeDecl():
            yield from ("node", found.name.text)
            yield from _annotations(found.annotations)
            for at, interface in enumerate(found.implements):
                yield from ("," if at else "implements", interface.text)
        case EdgeDecl():
            yield from ("edge", found.name.text, ":", found.from_type.text)
            yield from ("->", found.to_type.text)
            card = found.cardinality
            if card != Cardinality():
                high = () if card.max is None else (str(card.max),)
                yield from ("@card", "(", str(card.min), "..", *high, ")")
            yield from _annotations(found.annotations)
    yield "{"
    inline = [item for item in found.constraints if _is_inline(item)]
    for prop in found.properties:
        yield from (prop.name.text, ":", *_type(prop.type))
        for item in inline:
            if item.columns[0] == prop.name:
                yield f"@{type(item).__name__.lower()}"
        yield from _annotations(prop.annotations)
    for item in found.constraints:
        if not _is_inline(item):
            yield from _constraint(item)
    yield "}"


def _is_inline(item: Constraint) -> bool:
    return isinstance(item, Key | Unique | Index) and len(item.columns) == 1


def _constraint(item: Constraint) -> Iterator[str]:
    yield from (f"@{type(item).__name__.lower()}", "(")
    match item:
        case Range():
            low = () if item.min is None else (str(item.min),)
            high = () if item.max is None else (str(item.max),)
            yield from (item.prop.text, ",", *low, "..", *high)
        case Check():
            yield from (item.prop.text, ",", quote(item.pattern))
        case _:
            for at, column in enumerate(item.columns):
                yield from ((",", column.text) if at else (column.text,))
    yield ")"


def _type(found: PropType) -> Iterator[str]:
    if found.enum_values is not None:
        yield from ("enum", "(")
        for at, value in enumerate(reversed(found.enum_values)):
            yield from ((",", value) if at else (value,))
        yield ")"
    elif found.scalar is Scalar.VECTOR:
        yield from ("Vector", "(", str(found.dim), ")")
    elif found.is_list:
        yield from ("[", str(found.scalar), "]")
    else:
        yield str(found.scalar)
    if found.nullable:
        yield "?"


def _annotations(annotations: Sequence[Annotation]) -> Iterator[str]:
    for found in annotations:
        yield f"@{found.name}"
        if found.value is not None:
            yield from ("(", quote(found.value))
            for key, value in found.kwargs:
                yield from (",", key, "=", value)
            yield ")"
