"""Every golden change of the social schema has the plan beside it."""

from __future__ import annotations

import pytest

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.migration import plan_schema_migration
from omnigraph.compiler.catalog.steps import UnsupportedChange, describe
from omnigraph.compiler.source import Source
from tests.support.cases import Case, cases


def plan(case: Case) -> str:
    accepted_text = case.sibling(case.headers["accepted"]).read_text(encoding="utf-8")
    accepted = load_schema(Source(accepted_text)).ir
    desired = load_schema(Source(case.text, case.path.name), accepted).ir
    allow = case.headers.get("allow-data-loss") == "yes"
    found = plan_schema_migration(accepted, desired, allow_data_loss=allow)
    lines = [f"supported: {str(found.supported).lower()}"]
    for step in found.steps:
        lines.append(describe(step))
        if isinstance(step, UnsupportedChange):
            lines.append(f"  hint: {step.hint}")
    return "\n".join(lines)


@pytest.mark.parametrize("case", cases("schema/migration", ".pg"))
def test_migration_case(case: Case, golden) -> None:
    golden(case, {"plan": lambda: plan(case)})
