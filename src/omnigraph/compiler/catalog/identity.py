"""Who is who across schema versions: which accepted type or property a new one continues.

An id is derived from the name once, when the part is first accepted, and then lives in the
accepted IR: a rename keeps it, and the id of a dropped part is retired for good. So a text is
always compiled *against the accepted IR*; compiling the stored text again then reproduces the
accepted IR exactly, whatever renames it went through.

Rules of continuation, per kind of type and per type's properties:
1. the same name is the same thing; a `@rename_from` on it has done its work and is ignored;
2. otherwise `@rename_from("old")` continues `old`, if `old` is accepted, is gone from the new
   text, and nobody else claims it;
3. anything else is new. Its id is the hash of its name, or the next free number after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph.base.hashing import fnv1a32
from omnigraph.compiler.catalog.schema_ir import (
    IrProperty,
    IrType,
    SchemaIr,
    TypeKind,
    kind_of,
)

_MAX_ID = 2**32 - 1
_AnyType = TypeVar("_AnyType", bound=IrType)


@dataclass(frozen=True, slots=True)
class Matching:
    """`pairs` maps a new name to the accepted one it continues; `problems` are refused hints."""

    pairs: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)


def match_parts(
    accepted: Iterable[IrType] | Iterable[IrProperty],
    desired: Sequence[IrType] | Sequence[IrProperty],
) -> Matching:
    """Return which desired part continues which accepted one."""
    known = {part.name for part in accepted}
    wanted = {part.name for part in desired}
    pairs = {name: name for name in sorted(wanted & known)}
    claims: dict[str, list[str]] = {}
    for part in desired:
        if part.name not in known and part.renamed_from is not None:
            claims.setdefault(part.renamed_from, []).append(part.name)
    problems: dict[str, str] = {}
    for old, claimants in sorted(claims.items()):
        if old not in known:
            reason = f"'{old}', named by @rename_from, does not exist in the accepted schema"
        elif old in wanted:
            reason = f"'{old}', named by @rename_from, is still declared"
        elif len(claimants) > 1:
            reason = f"@rename_from('{old}') is claimed by {' and '.join(sorted(claimants))}"
        else:
            pairs[claimants[0]] = old
            continue
        problems |= dict.fromkeys(claimants, reason)
    return Matching(pairs, problems)


def assign_ids(draft: SchemaIr, accepted: SchemaIr | None) -> SchemaIr:
    """Return the draft with every id and column place settled; the draft's own ids are ignored."""
    accepted = accepted or SchemaIr()
    ancestors: dict[tuple[TypeKind, str], IrType] = {}
    for kind in TypeKind:
        by_name = {found.name: found for found in accepted.of_kind(kind)}
        pairs = match_parts(accepted.of_kind(kind), draft.of_kind(kind)).pairs
        ancestors |= {(kind, new): by_name[old] for new, old in pairs.items()}
    retired = set(accepted.retired_ids) | _dropped_ids(accepted, ancestors.values())
    taken = retired | {found.type_id for found in ancestors.values()}

    def identified(found: _AnyType) -> _AnyType:
        kind = kind_of(found)
        ancestor = ancestors.get((kind, found.name))
        type_id = ancestor.type_id if ancestor else _free_id(f"{kind}:{found.name}", taken)
        properties, dropped = _settle_properties(found, ancestor, retired)
        retired.update(dropped)
        return replace(found, type_id=type_id, properties=properties)

    return SchemaIr(
        tuple(identified(found) for found in draft.interfaces),
        tuple(identified(found) for found in draft.nodes),
        tuple(identified(found) for found in draft.edges),
        tuple(sorted(retired)),
    )


def with_renames(accepted: SchemaIr, later: SchemaIr) -> SchemaIr:
    """Return a later accepted IR that says of its parts what they were called before.

    Accepted IRs know who is who by ids alone; what a plan is made from says so by names.
    """

    def told(found: _AnyType) -> _AnyType:
        before = known.get((kind_of(found), found.type_id))
        if before is None:
            return found
        were = {prop.prop_id: prop.name for prop in before.properties}
        properties = tuple(
            replace(prop, renamed_from=_other_name(were.get(prop.prop_id), prop.name))
            for prop in found.properties
        )
        renamed_from = _other_name(before.name, found.name)
        return replace(found, properties=properties, renamed_from=renamed_from)

    known = {(kind, one.type_id): one for kind in TypeKind for one in accepted.of_kind(kind)}
    return replace(
        later,
        interfaces=tuple(map(told, later.interfaces)),
        nodes=tuple(map(told, later.nodes)),
        edges=tuple(map(told, later.edges)),
    )


def _other_name(before: str | None, now: str) -> str | None:
    return before if before != now else None


def _settle_properties(
    found: IrType, ancestor: IrType | None, retired: set[int]
) -> tuple[tuple[IrProperty, ...], set[int]]:
    """Return the properties with ids and places, and the ids of those that are gone."""
    known = {prop.name: prop for prop in ancestor.properties} if ancestor else {}
    pairs = match_parts(known.values(), found.properties).pairs
    kept = {new: known[old] for new, old in pairs.items()}
    dropped = {prop.prop_id for prop in known.values()} - {prop.prop_id for prop in kept.values()}
    taken = retired | dropped | {prop.prop_id for prop in kept.values()}
    last = max((prop.ordinal for prop in known.values()), default=-1)
    fresh = sorted(
        (prop for prop in found.properties if prop.name not in kept), key=lambda prop: prop.ordinal
    )
    places = {prop.name: last + 1 + at for at, prop in enumerate(fresh)}
    settled: list[IrProperty] = []
    for prop in found.properties:  # sorted by name, so that new ids do not depend on layout
        if before := kept.get(prop.name):
            settled.append(replace(prop, prop_id=before.prop_id, ordinal=before.ordinal))
        else:
            prop_id = _free_id(f"{kind_of(found)}:{found.name}:{prop.name}", taken)
            settled.append(replace(prop, prop_id=prop_id, ordinal=places[prop.name]))
    return tuple(settled), dropped


def _dropped_ids(accepted: SchemaIr, kept: Iterable[IrType]) -> set[int]:
    """Return the ids of accepted types that nothing continues, and of their properties."""
    kept_ids = {found.type_id for found in kept}
    gone = [
        found
        for kind in TypeKind
        for found in accepted.of_kind(kind)
        if found.type_id not in kept_ids
    ]
    return {found.type_id for found in gone} | {
        prop.prop_id for found in gone for prop in found.properties
    }


def _free_id(name: str, taken: set[int]) -> int:
    """Take the hash of the name, or the next number nobody has; 0 is never an id."""
    candidate = fnv1a32(name) or 1
    while candidate in taken:
        candidate = candidate + 1 if candidate < _MAX_ID else 1
    taken.add(candidate)
    return candidate
