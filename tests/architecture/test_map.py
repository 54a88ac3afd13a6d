"""The map is complete: every module has its place in a text that a newcomer reads."""

import re
from pathlib import Path

import pytest
from bench._page import page

from omnigraph.errors import ErrorKind

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "omnigraph"
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "__init__.py"]


def _names(path: Path) -> set[str]:
    return set(re.findall(r"[a-z_0-9]+", path.read_text()))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_named_by_its_package_or_by_the_map(module):
    named = _names(module.parent / "__init__.py") | _names(ROOT / "ARCHITECTURE.md")
    assert module.stem in named, f"say in {module.parent.name}/__init__.py what {module.stem} is"


@pytest.mark.parametrize("kind", ErrorKind)
def test_a_kind_of_error_is_documented(kind):
    text = (ROOT / "docs" / "python-api.md").read_text()
    assert f"`{kind.value}`" in text, f"say in docs/python-api.md what {kind.value} means"


def test_the_page_of_benchmarks_is_what_they_say_of_themselves():
    told = (ROOT / "docs" / "benchmarks.md").read_text()
    assert told == page(), "run `python -m bench --page > docs/benchmarks.md`"
