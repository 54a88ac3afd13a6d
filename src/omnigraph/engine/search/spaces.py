"""Which model filled a vector column: recorded with the commit that fills it, per branch.

A commit states files by name; a name of ours says everything (column, commit number, space) and its
content only repeats it, so branches that use different models never write one file differently.
The last record up to a snapshot counts. Two spaces in it mean that branches with different models
were merged: distances in such a column mean nothing until it is filled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote

from omnigraph.compiler.catalog.model import NodeType
from omnigraph.engine.search.embedder import EmbeddingError, SpaceMismatchError

_PREFIX = "_space"


class MixedVectorsError(EmbeddingError):
    """A model would put its vectors beside vectors of unknown origin."""

    def __init__(self, filled: Filled) -> None:
        self.column, self.space = filled.column, filled.space
        super().__init__(
            f"{filled.column} holds vectors that were given, and {filled.space} would put its own "
            "beside them; distances between the two mean nothing",
            hint="make all of them anew (embed --reembed-all), or let @embed say who made them: "
            'model="…", or model="given" to give every vector',
        )


class Stated(Protocol):
    """What is asked of a snapshot: the files it states, and the number of its commit."""

    @property
    def files(self) -> Mapping[str, str]:
        """Digests by name; a past snapshot may state files of later commits too."""
        ...

    @property
    def sequence(self) -> int:
        """The number of its commit on its branch."""
        ...


@dataclass(frozen=True, slots=True)
class Filled:
    """Vectors of one column made by one model; `replaces` if no committed ones are left."""

    node: NodeType
    prop: str
    space: str
    replaces: bool = False
    beside_given: bool = False
    """Whether the same write gives other vectors of the column by hand."""

    @property
    def column(self) -> str:
        """What messages call it."""
        return f"{self.node.name}.{self.prop}"


def spaces_of(snapshot: Stated, node: NodeType, prop: str) -> tuple[str, ...]:
    """Return the spaces of a column's vectors; none while nobody filled it."""
    stem = _stem(node, prop)
    found: dict[int, list[str]] = {}
    for name in snapshot.files:
        if name.startswith(stem):
            number, _, space = name[len(stem) :].partition(".")
            if int(number) <= snapshot.sequence:
                found.setdefault(int(number), []).append(unquote(space))
    return tuple(sorted(found[max(found)])) if found else ()


def check_filled(snapshot: Stated, filled: Filled) -> None:
    """Refuse vectors of another space beside those that are there.

    Raises:
        SpaceMismatchError: another model filled the column.
    """
    known = spaces_of(snapshot, filled.node, filled.prop)
    if known not in ((), (filled.space,)) and not filled.replaces:
        raise SpaceMismatchError(filled.column, " and ".join(known), filled.space)


def may_be_mixed(snapshot: Stated, filled: Filled) -> bool:
    """Whether nothing says who made the vectors that are there already, if there are any."""
    embed = filled.node.embeds[filled.prop]
    return (
        embed.model is None
        and not filled.replaces
        and not spaces_of(snapshot, filled.node, filled.prop)
    )


def record_of(base: Stated, filled: Filled) -> tuple[str, bytes] | None:
    """Return the file that records a fill on top of a snapshot, by name and content.

    None if it is recorded already.
    """
    if spaces_of(base, filled.node, filled.prop) == (filled.space,):
        return None
    name = record_name(filled.node, filled.prop, base.sequence + 1, filled.space)
    return name, record_text(filled.node, filled.prop, filled.space)


def record_name(node: NodeType, prop: str, sequence: int, space: str) -> str:
    """Return the file that says which space fills a column from a commit on."""
    return f"{_stem(node, prop)}{sequence}.{quote(space, safe='')}"


def record_text(node: NodeType, prop: str, space: str) -> bytes:
    """Return what it says to people."""
    return f"{node.name}.{prop} is filled by {space}\n".encode()


def _stem(node: NodeType, prop: str) -> str:
    """Ids survive renames, names do not."""
    return f"{_PREFIX}.{node.type_id}.{node.properties[prop].prop_id}."
