"""The rule that one mutation either adds and changes or deletes; checked before it runs."""

from __future__ import annotations

from omnigraph.compiler.ir.ops import Delete, MutationIr
from omnigraph.errors import BadRequestError


class MixedMutationError(BadRequestError):
    """A mutation deletes and also inserts or updates."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"mutation '{name}' on the same query mixes inserts/updates and deletes; "
            "split into separate mutations: (1) inserts and updates, then (2) deletes"
        )


def check_mutation_mix(ir: MutationIr) -> None:
    """Refuse a mutation whose outcome would depend on what deletes see of its own writes."""
    deletes = sum(isinstance(statement, Delete) for statement in ir.statements)
    if 0 < deletes < len(ir.statements):
        raise MixedMutationError(ir.name)
