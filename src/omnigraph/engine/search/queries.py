"""Text operands of `nearest` become vectors before a query runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from omnigraph.compiler.catalog.model import Catalog, NodeType
from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import ReadIr
from omnigraph.compiler.ir.reads import Reads
from omnigraph.compiler.query.typed import Literal, Nearest, Param
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.search.embedder import Embedder, EmbeddingError, Matrix, check_space
from omnigraph.engine.search.spaces import Filled, Stated, check_filled

_PREFIX = "~vector:"
"""Begins the names of parameters no text can declare."""

T = TypeVar("T")


def with_vector_params(ir: ReadIr, texts: tuple[Nearest, ...]) -> ReadIr:
    """Return the query with every text operand replaced by a parameter that is its vector."""
    if not texts:
        return ir
    return _swapped(ir, {one: _to_vector(one, number) for number, one in enumerate(texts)})


def _to_vector(operand: Nearest, number: int) -> Nearest:
    kind = PropType(Scalar.VECTOR, nullable=True, dim=operand.target.type.dim)
    return replace(operand, query=Param(f"{_PREFIX}{number}", kind))


def with_vectors(
    reads: Reads, bound: BoundQuery, embedder: Embedder | None, catalog: Catalog, snapshot: Stated
) -> BoundQuery:
    """Return the values of a run with the vectors of its text operands.

    Args:
        reads: what the compiled query touches.
        bound: its parameter values.
        embedder: turns text into vectors.
        catalog: says which columns are pinned to a model.
        snapshot: says which model filled which column.

    Raises:
        EmbeddingError: there is no embedder, or it cannot serve the column.
        SpaceMismatchError: another embedder filled the column.
    """
    if not reads.texts:
        return bound
    if embedder is None:
        first = reads.texts[0]
        raise EmbeddingError(
            f"nearest(${first.var}.{first.target.name}, …) was given text, "
            "and no embedder is configured",
            hint="pass a vector, or configure an embedder",
        )
    params = dict(bound.params)
    for number, operand in enumerate(reads.texts):
        node = catalog.nodes[reads.nodes[operand.var]]
        _check(node, operand.target.name, embedder, snapshot)
        query = operand.query
        text = query.value if isinstance(query, Literal) else bound.params[query.name]
        dim = operand.target.type.dim
        assert dim is not None
        vector = None if text is None else _vector(str(text), embedder, dim)
        found = None if vector is None else tuple(float(one) for one in vector)
        params[f"{_PREFIX}{number}"] = found
    return replace(bound, params=params)


def _check(node: NodeType, prop: str, embedder: Embedder, snapshot: Stated) -> None:
    """Refuse to compare a question with vectors of another space."""
    embed = node.embeds.get(prop)
    if embed is not None and embed.by_hand:
        raise EmbeddingError(
            f"the vectors of {node.name}.{prop} are given by hand; no text compares with them",
            hint="pass a vector of the same model",
        )
    if embed is not None and embed.model is not None:
        check_space(f"{node.name}.{prop}", embed.model, embedder)
    check_filled(snapshot, Filled(node, prop, embedder.space))


def _vector(text: str, embedder: Embedder, dim: int) -> Matrix:
    if not text.strip():
        raise EmbeddingError("nearest was given a text without words", hint="ask for something")
    return cast("Matrix", embedder.embed_queries([text], dim)[0])


def _swapped(part: T, swap: Mapping[Nearest, Nearest]) -> T:
    """Return an IR part with some distances replaced; parts without one are shared."""
    if isinstance(part, Nearest):
        return swap.get(part, part)  # type: ignore[return-value] # a Nearest for a Nearest
    if isinstance(part, tuple):
        return tuple(_swapped(item, swap) for item in part)  # type: ignore[return-value] # a tuple
    if is_dataclass(part) and not isinstance(part, type | PropType):
        changed = {
            field.name: after
            for field in fields(part)
            if (after := _swapped(before := getattr(part, field.name), swap)) is not before
        }
        return replace(part, **changed) if changed else part
    return part
