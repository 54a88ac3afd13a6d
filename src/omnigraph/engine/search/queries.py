"""Text operands of `nearest` become vectors before a query runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from omnigraph.compiler.catalog.model import Catalog, NodeType
from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import Expand, NodeScan, ReadIr, iter_ops
from omnigraph.compiler.query.typed import Literal, Nearest, Param
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.search.embedder import Embedder, EmbeddingError, check_space
from omnigraph.engine.search.spaces import Filled, Stated, check_filled

_PREFIX = "~vector:"
"""Begins the names of parameters no text can declare."""

T = TypeVar("T")

_KEPT = 1_024
_known: dict[int, tuple[ReadIr, tuple[Nearest, ...]]] = {}


def text_operands(ir: ReadIr) -> tuple[Nearest, ...]:
    """Return the distances of a query whose operand is text, in order of appearance."""
    known = _known.get(id(ir))
    # By identity, because hashing a plan costs more than a point lookup; the plan is kept
    # beside the answer, so its identity cannot be given to another one.
    if known is not None and known[0] is ir:
        return known[1]
    found = tuple(dict.fromkeys(part for part in _walk(ir) if _is_text(part)))
    if len(_known) >= _KEPT:
        _known.clear()
    _known[id(ir)] = (ir, found)
    return found


def with_vectors(
    ir: ReadIr, bound: BoundQuery, embedder: Embedder | None, catalog: Catalog, snapshot: Stated
) -> tuple[ReadIr, BoundQuery]:
    """Return the query with every text operand replaced by its vector.

    Args:
        ir: the compiled query.
        bound: its parameter values.
        embedder: turns text into vectors.
        catalog: says which columns are pinned to a model.
        snapshot: says which model filled which column.

    Raises:
        EmbeddingError: there is no embedder, or it cannot serve the column.
        SpaceMismatchError: another embedder filled the column.
    """
    operands = text_operands(ir)
    if not operands:
        return ir, bound
    if embedder is None:
        raise EmbeddingError(
            f"nearest(${operands[0].var}.{operands[0].target.name}, …) was given text, "
            "and no embedder is configured",
            hint="pass a vector, or configure an embedder",
        )
    types = _types(ir)
    params = dict(bound.params)
    swap: dict[Nearest, Nearest] = {}
    for number, operand in enumerate(operands):
        _check(catalog.nodes[types[operand.var]], operand.target.name, embedder, snapshot)
        query = operand.query
        text = query.value if isinstance(query, Literal) else bound.params[query.name]
        dim = operand.target.type.dim
        assert dim is not None
        name = f"{_PREFIX}{number}"
        vector = None if text is None else embedder.embed_queries([str(text)], dim)[0]
        params[name] = None if vector is None else tuple(float(one) for one in vector)
        kind = PropType(Scalar.VECTOR, nullable=True, dim=dim)
        swap[operand] = replace(operand, query=Param(name, kind))
    return _swapped(ir, swap), replace(bound, params=params)


def _check(node: NodeType, prop: str, embedder: Embedder, snapshot: Stated) -> None:
    """Refuse to compare a question with vectors of another space."""
    embed = node.embeds.get(prop)
    if embed is not None and embed.model is not None:
        check_space(f"{node.name}.{prop}", embed.model, embedder)
    check_filled(snapshot, Filled(node, prop, embedder.space))


def _is_text(part: object) -> bool:
    return isinstance(part, Nearest) and part.query.type.scalar is Scalar.STRING


def _types(ir: ReadIr) -> dict[str, str]:
    types = {op.var: op.type_name for op in iter_ops(ir.ops) if isinstance(op, NodeScan)}
    return types | {op.dst: op.dst_type for op in iter_ops(ir.ops) if isinstance(op, Expand)}


def _walk(part: Any) -> Iterator[Any]:  # noqa: ANN401 - any part of an IR
    yield part
    if isinstance(part, tuple):
        for item in part:
            yield from _walk(item)
    elif is_dataclass(part) and not isinstance(part, PropType):
        for field in fields(part):
            yield from _walk(getattr(part, field.name))


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
