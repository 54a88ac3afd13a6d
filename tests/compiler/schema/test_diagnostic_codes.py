"""Every code that can be reported is documented, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMPILER = ROOT / "src" / "omnigraph" / "compiler"


def emitted(prefix: str) -> set[str]:
    code = re.compile(rf'"({prefix}\d{{3}})"')
    return {
        found
        for path in COMPILER.rglob("*.py")
        for found in code.findall(path.read_text(encoding="utf-8"))
    }


def documented(prefix: str) -> set[str]:
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    return set(re.findall(rf"(?m)^\| ({prefix}\d{{3}}) \|", text))


@pytest.mark.parametrize("prefix", ["P", "S", "C"])
def test_codes_and_documentation_agree(prefix: str) -> None:
    assert emitted(prefix)
    assert documented(prefix) == emitted(prefix)
