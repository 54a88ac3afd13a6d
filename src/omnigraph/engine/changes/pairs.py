"""Which type and which property of one state is which of another: by id, whatever they are called.

Each state is read by its own contract, so that a rename between them changes no row, and a type
that was dropped and made again is another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import pyarrow as pa

from omnigraph.api.words import EntityKind
from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.catalog.model import (
    DST,
    EDGE_SYSTEM_COLUMNS,
    ID,
    SRC,
    Catalog,
    EdgeType,
    NodeType,
)
from omnigraph.compiler.types import widens
from omnigraph.errors import NotFoundError
from omnigraph.storage.delta.side import ColumnPair
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.manifest.snapshot import Snapshot

GraphType: TypeAlias = NodeType | EdgeType
Kind = TypeVar("Kind", NodeType, EdgeType)


@dataclass(frozen=True, slots=True)
class State:
    """A snapshot and what its schema means."""

    snapshot: Snapshot
    catalog: Catalog

    def table(self, kind: GraphType | None) -> TableVersion | None:
        """Return where the rows of a type are."""
        return None if kind is None else self.snapshot.tables.get(TableKey(kind.table_key))


@dataclass(frozen=True, slots=True)
class TypePair:
    """One type as two states have it; at least one does."""

    before: GraphType | None
    after: GraphType | None

    @property
    def shown(self) -> GraphType:
        """Return the type by its later name."""
        found = self.after or self.before
        assert found is not None, "a pair has a side"
        return found

    @property
    def kind(self) -> EntityKind:
        """Return whether its rows are nodes or edges."""
        return "edge" if isinstance(self.shown, EdgeType) else "node"

    @property
    def columns(self) -> list[ColumnPair]:
        """Return which column is which, by their later names."""
        ends = EDGE_SYSTEM_COLUMNS if self.kind == "edge" else ()
        pairs = [ColumnPair(name, name, name) for name in ends if name != ID]
        was = {} if self.before is None else _by_id(self.before)
        now = {} if self.after is None else _by_id(self.after)
        pairs += [
            ColumnPair(name, was.get(prop), name, self._common(was.get(prop), name))
            for prop, name in now.items()
        ]
        taken = set(now.values())
        pairs += [
            ColumnPair(f"{name} (dropped)" if name in taken else name, name, None)
            for prop, name in was.items()
            if prop not in now
        ]
        return pairs

    def _common(self, was: str | None, name: str) -> pa.DataType | None:
        """Return the type that holds the values of both sides, if one of them was widened.

        In several steps as well, or each side in another way: to a list here, to more bits there.
        """
        if was is None or self.before is None or self.after is None:
            return None
        old, new = self.before.properties[was].type, self.after.properties[name].type
        if arrow_type(old) == arrow_type(new):
            return None
        is_list = old.is_list or new.is_list
        old, new = (replace(one, is_list=is_list, enum_values=None) for one in (old, new))
        return arrow_type(new if widens(old, new) else old)


def paired_types(
    before: State,
    after: State,
    types: Sequence[str] | None = None,
    kinds: Collection[EntityKind] | None = None,
) -> list[TypePair]:
    """Return the types of two states, sorted by table key.

    Args:
        before: the earlier state.
        after: the later one.
        types: words for types of either state; all if None.
        kinds: only nodes, or only edges.

    Raises:
        NotFoundError: neither state has a type that is asked for.
    """
    old, new = before.catalog, after.catalog
    found: list[TypePair] = []
    if kinds is None or "node" in kinds:
        found += _pairs(old.nodes.values(), new.nodes.values())
    if kinds is None or "edge" in kinds:
        found += _pairs(old.edges.values(), new.edges.values())
    if types is not None:
        wanted = {key for word in types for key in _meant(word, old, new)}
        found = [pair for pair in found if wanted & set(_keys(pair))]
    return sorted(found, key=lambda pair: (pair.shown.table_key, pair.after is not None))


def _pairs(old: Collection[Kind], new: Collection[Kind]) -> Iterator[TypePair]:
    were, are = ({one.type_id: one for one in types} for types in (old, new))
    for type_id in were.keys() | are.keys():
        yield TypePair(were.get(type_id), are.get(type_id))


def _keys(pair: TypePair) -> Iterator[str]:
    for one in (pair.before, pair.after):
        if one is not None:
            yield one.table_key


def _meant(word: str, old: Catalog, new: Catalog) -> Iterator[str]:
    found = (*new.types_named(word), *old.types_named(word))
    if not found:
        known = ", ".join(sorted({*old.nodes, *old.edges, *new.nodes, *new.edges}))
        raise NotFoundError(f"neither state has a type '{word}'", hint=f"there are {known}")
    yield from (one.table_key for one in found)


def _by_id(kind: GraphType) -> dict[int, str]:
    """Return the names of properties by id; a node's `id` property is the id itself."""
    system = (ID, SRC, DST) if isinstance(kind, EdgeType) else (ID,)
    return {prop.prop_id: name for name, prop in kind.properties.items() if name not in system}
