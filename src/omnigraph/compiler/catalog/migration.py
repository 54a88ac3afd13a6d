"""From the accepted schema to a desired one: every difference becomes a step or is refused.

Pure: both schemas in, steps out, always in the same order (interfaces, nodes, edges; by name;
rename, header, metadata, properties, constraints; removed parts last). An empty plan means the
two schemas have the same meaning. What would lose or loosen data is refused unless the caller
allows it; what would need the rows to be rewritten by judgement is always refused. A rule that
existing rows may break is a step: whoever applies it looks at the rows first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.compiler.catalog.identity import match_parts
from omnigraph.compiler.catalog.model import ID, Annotation, Check, Range, default_in
from omnigraph.compiler.catalog.schema_ir import (
    Backfill,
    Index,
    IrConstraint,
    IrEdge,
    IrInterface,
    IrNode,
    IrProperty,
    IrType,
    Key,
    SchemaIr,
    TypeKind,
    Unique,
    constraint_columns,
    spell_constraint,
)
from omnigraph.compiler.catalog.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangePropertyType,
    DropConstraint,
    DropProperty,
    DropType,
    ExtendEnum,
    RelaxProperty,
    RenameProperty,
    RenameType,
    RequireProperty,
    Step,
    UnsupportedChange,
    UpdateCardinality,
    UpdateDefault,
    UpdateImplements,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    step_to_json,
)
from omnigraph.compiler.types import PropType, Scalar, widens

_METADATA = frozenset({"description", "instruction"})
_UPDATED = _METADATA | {"default"}
"""Annotations whose change is a step of its own."""
_PERMISSION = "allow it explicitly with allow_data_loss, or keep it in the schema"
_REPLACE = "add a new nullable property, copy the values over, then drop the old one"


@dataclass(frozen=True, slots=True)
class SchemaMigrationPlan:
    """The steps in the order they are applied; `supported` is False if any is refused."""

    steps: tuple[Step, ...]

    @property
    def supported(self) -> bool:
        """Whether every step can be applied."""
        return self.first_unsupported is None

    @property
    def first_unsupported(self) -> UnsupportedChange | None:
        """The first refused change, which is what an apply reports."""
        return next((step for step in self.steps if isinstance(step, UnsupportedChange)), None)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON-ready object."""
        return {"supported": self.supported, "steps": [step_to_json(step) for step in self.steps]}


def plan_schema_migration(
    accepted: SchemaIr, desired: SchemaIr, allow_data_loss: bool = False
) -> SchemaMigrationPlan:
    """Return the steps that turn the accepted schema into the desired one.

    Args:
        accepted: the graph's stored IR.
        desired: the IR of the new text.
        allow_data_loss: permit drops of types and properties, and the widening of enums.
    """
    nodes = match_parts(accepted.nodes, desired.nodes).pairs
    renamed = {old: new for new, old in nodes.items()}
    planner = _Planner(accepted, desired, allow_data_loss, renamed)
    return SchemaMigrationPlan(tuple(step for kind in TypeKind for step in planner.kind(kind)))


@dataclass(frozen=True, slots=True)
class _Planner:
    accepted: SchemaIr
    desired: SchemaIr
    allow_data_loss: bool
    node_names: Mapping[str, str]  # accepted name to the one it goes by now

    def kind(self, kind: TypeKind) -> Iterator[Step]:
        known = {found.name: found for found in self.accepted.of_kind(kind)}
        matching = match_parts(known.values(), self.desired.of_kind(kind))
        for found in self.desired.of_kind(kind):
            if problem := matching.problems.get(found.name):
                yield _refuse(_entity(kind, found.name), problem, "correct or remove @rename_from")
            elif before := known.get(matching.pairs.get(found.name, "")):
                yield from self.type(kind, before, found)
            else:
                yield AddType(kind, found.name)
        for name in sorted(set(known) - set(matching.pairs.values())):
            yield self.removed_type(kind, name)

    def removed_type(self, kind: TypeKind, name: str) -> Step:
        if kind is TypeKind.INTERFACE:
            return _refuse(
                _entity(kind, name),
                "removing an interface is not supported",
                "keep it, even unused",
            )
        if self.allow_data_loss:
            return DropType(kind, name)
        return _refuse(
            _entity(kind, name), f"removing {kind} type '{name}' would drop its rows", _PERMISSION
        )

    def type(self, kind: TypeKind, before: IrType, after: IrType) -> Iterator[Step]:
        if before.name != after.name:
            yield RenameType(kind, before.name, after.name)
        yield from self.header(kind, before, after)
        entity = _entity(kind, after.name)
        old, new = _metadata(before.annotations), _metadata(after.annotations)
        if old != new:
            yield UpdateTypeMetadata(kind, after.name, new)
        if _other(before.annotations) != _other(after.annotations):
            yield _refuse_annotations(entity)
        yield from _TypeDiff.of(self.allow_data_loss, kind, before, after).steps()

    def header(self, kind: TypeKind, before: IrType, after: IrType) -> Iterator[Step]:
        entity = _entity(kind, after.name)
        match before, after:
            case IrNode(), IrNode():
                if before.implements != after.implements:
                    yield UpdateImplements(kind, after.name, after.implements)
            case IrEdge(), IrEdge():
                now = self.node_names
                ends = (now.get(before.from_type), now.get(before.to_type))
                hint = "add a new edge type and copy the edges"
                if ends != (after.from_type, after.to_type):
                    yield _refuse(entity, "changing edge endpoints is not supported", hint)
                if before.cardinality != after.cardinality:
                    yield UpdateCardinality(kind, after.name, after.cardinality)
            case _:
                assert isinstance(before, IrInterface)


@dataclass(frozen=True, slots=True)
class _TypeDiff:
    """The properties and constraints of one type, before and after."""

    allow_data_loss: bool
    kind: TypeKind
    name: str
    before: IrType
    after: IrType
    pairs: Mapping[str, str]
    problems: Mapping[str, str]

    @classmethod
    def of(cls, allow: bool, kind: TypeKind, before: IrType, after: IrType) -> _TypeDiff:
        matching = match_parts(before.properties, after.properties)
        return cls(allow, kind, after.name, before, after, matching.pairs, matching.problems)

    def steps(self) -> Iterator[Step]:
        known = {prop.name: prop for prop in self.before.properties}
        for prop in self.after.properties:
            if problem := self.problems.get(prop.name):
                yield _refuse(self.entity(prop.name), problem, "correct or remove @rename_from")
            elif before := known.get(self.pairs.get(prop.name, "")):
                yield from self.property(before, prop)
            else:
                yield self.added(prop)
        removed = sorted(set(known) - set(self.pairs.values()))
        for name in removed:
            yield self.removed(name)
        yield from self.constraints(set(removed))

    def entity(self, prop: str) -> str:
        return f"{_entity(self.kind, self.name)}.{prop}"

    def property(self, before: IrProperty, after: IrProperty) -> Iterator[Step]:
        if before.name != after.name:
            yield self.renamed(before.name, after.name)
        yield from self.retyped(after.name, before.name, before.type, after.type)
        old, new = _metadata(before.annotations), _metadata(after.annotations)
        if old != new:
            yield UpdatePropertyMetadata(self.kind, self.name, after.name, new)
        was, now = default_in(before.annotations), default_in(after.annotations)
        if was != now:
            yield UpdateDefault(self.kind, self.name, after.name, now)
        if self.follow_embeds(_other(before.annotations)) != _other(after.annotations):
            yield _refuse_annotations(self.entity(after.name))

    def renamed(self, old: str, new: str) -> Step:
        if self.kind is TypeKind.NODE and ID in (old, new):
            return _refuse(
                self.entity(new),
                "a property cannot become or stop being the `id` column",
                "add a new type and copy the rows",
            )
        return RenameProperty(self.kind, self.name, old, new)

    def retyped(self, name: str, was: str, old: PropType, new: PropType) -> Iterator[Step]:
        if old.nullable != new.nullable:
            step = RelaxProperty if new.nullable else RequireProperty
            yield step(self.kind, self.name, name)
        now = replace(old, nullable=new.nullable)
        if now == new:
            return
        reason = f"changing property type from {now} to {new} is not supported"
        added = _added_enum_values(now, new)
        if widens(now, new) and not (new.scalar is Scalar.F64 and self.is_key(was)):
            yield ChangePropertyType(self.kind, self.name, name, now, new)
        elif not added:
            yield _refuse(self.entity(name), reason, _REPLACE)
        elif self.allow_data_loss:
            yield ExtendEnum(self.kind, self.name, name, added)
        else:
            hint = "widening an enum cannot be undone: allow it explicitly with allow_data_loss"
            yield _refuse(self.entity(name), reason, hint)

    def added(self, prop: IrProperty) -> Step:
        fill = backfill_of(prop)
        if fill is not None and fill.is_property and fill.text not in self.pairs:
            return _refuse(
                self.entity(prop.name),
                f"'{fill.text}', named by @backfill, is new itself",
                "take the values from a property that is there already",
            )
        if prop.type.nullable or fill is not None:
            return AddProperty(self.kind, self.name, prop.name, prop.type, fill)
        return _refuse(
            self.entity(prop.name),
            f"adding required property '{prop.name}' requires a backfill",
            f"say what rows get with @default(…) or @backfill(…), or declare it {prop.type}?",
        )

    def is_key(self, name: str) -> bool:
        """Whether an accepted property names the rows, whose ids are made of it."""
        rules = self.before.constraints
        return any(isinstance(found, Key) and name in found.columns for found in rules)

    def removed(self, name: str) -> Step:
        if self.is_key(name):
            reason = f"property '{name}' is part of the key, which names the rows"
            return _refuse(self.entity(name), reason, "add a new type and copy the rows")
        if self.allow_data_loss:
            return DropProperty(self.kind, self.name, name)
        reason = f"removing property '{name}' would drop its values"
        return _refuse(self.entity(name), reason, f"{_PERMISSION}; to rename, use @rename_from")

    def constraints(self, removed: set[str]) -> Iterator[Step]:
        """Compare what is left of the old constraints, under new names, with the new ones."""
        now = {old: new for new, old in self.pairs.items()}
        old = {
            spell_constraint(found): found
            for found in (
                _with_names(found, now)
                for found in self.before.constraints
                if removed.isdisjoint(constraint_columns(found))  # goes with its column
            )
        }
        new = {spell_constraint(found): found for found in self.after.constraints}
        entity = _entity(self.kind, self.name)
        for spelled, found in new.items():
            if spelled in old:
                continue
            if isinstance(found, Key):
                hint = "the key names the rows: add a new type with it and copy the rows"
                yield _refuse(entity, f"adding {spelled} is not supported", hint)
            else:
                yield AddConstraint(self.kind, self.name, found)
        for spelled, found in old.items():
            if spelled in new:
                continue
            if isinstance(found, Key):
                yield _refuse(entity, f"removing {spelled} is not supported", "keep the constraint")
            else:
                yield DropConstraint(self.kind, self.name, found)

    def follow_embeds(self, annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
        """Return the annotations with the source of `@embed` under its new name."""
        now = {old: new for new, old in self.pairs.items()}
        return tuple(
            replace(found, value=now.get(found.value, found.value))
            if found.name == "embed" and found.value is not None
            else found
            for found in annotations
        )


def _with_names(found: IrConstraint, now: Mapping[str, str]) -> IrConstraint:
    """Return a constraint with renamed columns; `src` and `dst` keep their names."""
    match found:
        case Key():
            return Key(tuple(now.get(name, name) for name in found.columns))
        case Unique() | Index():
            return type(found)(tuple(sorted(now.get(name, name) for name in found.columns)))
        case Range() | Check():
            return replace(found, prop=now.get(found.prop, found.prop))


def backfill_of(prop: IrProperty) -> Backfill | None:
    """Return what rows that are there already get of a new property; None is null."""
    if prop.backfill is not None:
        return prop.backfill
    default = None if prop.type.nullable else default_in(prop.annotations)
    return None if default is None else Backfill(default)


def _added_enum_values(old: PropType, new: PropType) -> tuple[str, ...]:
    """Return what a pure widening adds; nothing for any other change of type."""
    if old.enum_values is None or new.enum_values is None:
        return ()
    if replace(old, enum_values=new.enum_values) != new:
        return ()
    if not set(old.enum_values) < set(new.enum_values):
        return ()
    return tuple(sorted(set(new.enum_values) - set(old.enum_values)))


def _metadata(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    return tuple(found for found in annotations if found.name in _METADATA)


def _other(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    return tuple(found for found in annotations if found.name not in _UPDATED)


def _entity(kind: TypeKind, name: str) -> str:
    return f"{kind}:{name}"


def _refuse(entity: str, reason: str, hint: str) -> UnsupportedChange:
    return UnsupportedChange(entity, reason, hint)


def _refuse_annotations(entity: str) -> UnsupportedChange:
    return _refuse(
        entity,
        "changing annotations beyond @description/@instruction is not supported",
        "keep the annotation as it was accepted",
    )
