"""Every code a query can be reported with is documented, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
QUERY = ROOT / "src" / "omnigraph" / "compiler" / "query"
CASES = ROOT / "tests" / "cases"


def emitted(pattern: str) -> set[str]:
    code = re.compile(rf'"({pattern})"')
    return {found for path in QUERY.glob("*.py") for found in code.findall(path.read_text("utf-8"))}


@pytest.mark.parametrize("pattern", [r"T\d+", r"[QL]\d{3}"])
def test_codes_and_documentation_agree(pattern):
    text = (ROOT / "docs" / "diagnostics.md").read_text("utf-8")
    assert emitted(pattern)
    assert set(re.findall(rf"(?m)^\| ({pattern}) \|", text)) == emitted(pattern)


def test_every_type_error_has_a_golden_case():
    shown = {
        found
        for path in CASES.glob("*/*.gq")
        for found in re.findall(r"(?m)^error\[(T\d+)\]", path.read_text("utf-8"))
    }
    assert shown == emitted(r"T\d+")
