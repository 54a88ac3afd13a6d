"""Every snippet in README and docs is true: schemas and queries compile, commands run as written.

A `gq` block is checked against the nearest `pg` block above it. The `omnigraph` commands of `sh`
blocks run one after another in a folder that holds the document's first blocks as `people.pg` and
`people.gq`, and its policy with cases. A fence with `broken` behind its language must fail to
compile.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import compile_file
from omnigraph.compiler.query.format import format_queries
from omnigraph.compiler.schema.format import format_schema
from omnigraph.compiler.source import Source
from omnigraph.errors import CompileError

ROOT = Path(__file__).parent.parent.parent
FENCE = re.compile(r"^```(\w+)( broken)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    broken: bool
    text: str
    schema: str

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found, schema = [], ""
    text = page.read_text()
    for match in FENCE.finditer(text):
        language, broken, body = match.group(1), bool(match.group(2)), match.group(3)
        if language == "pg" and not broken:
            schema = body
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(page, line, language, broken, body, schema))
    return found


EVERY = [block for page in PAGES for block in blocks(page)]


def of(*languages: str):
    return [pytest.param(block, id=block.name) for block in EVERY if block.language in languages]


@pytest.mark.parametrize("block", of("pg"))
def test_schemas_compile_and_are_in_the_standard_layout(block):
    source = Source(block.text, block.name)
    if block.broken:
        with pytest.raises(CompileError):
            load_schema(source)
        return
    load_schema(source)
    assert format_schema(source) == block.text


@pytest.mark.parametrize("block", of("gq"))
def test_queries_compile_and_are_in_the_standard_layout(block):
    catalog = load_schema(Source(block.schema, block.name)).catalog
    source = Source(block.text, block.name)
    if block.broken:
        with pytest.raises(CompileError):
            compile_file(catalog, source)
        return
    compile_file(catalog, source)
    assert format_queries(source) == block.text


def commands(page: Path) -> list[str]:
    """The `omnigraph` lines of a page, from top to bottom."""
    return [
        line
        for block in blocks(page)
        if block.language == "sh"
        for line in block.text.splitlines()
        if line.startswith("omnigraph ")
    ]


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name) for page in PAGES if commands(page)]
)
def test_commands_run_as_written_one_after_another(page, tmp_path):
    for suffix in ("pg", "gq"):
        texts = [one.text for one in blocks(page) if one.language == suffix and not one.broken]
        if texts:
            (tmp_path / f"people.{suffix}").write_text(texts[0])
    for one in blocks(page):
        if one.language == "yaml" and one.text.startswith("version: 1\n"):
            name = "policy.yaml" if "rules:" in one.text else "policy.tests.yaml"
            (tmp_path / name).write_text(one.text)
    for line in commands(page):
        command = line.split("#")[0]
        command = command.replace("omnigraph", f"{Path(sys.executable).parent}/omnigraph", 1)
        result = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, line + "\n" + result.stdout + result.stderr


def test_the_python_of_the_readme_runs_as_written(tmp_path):
    page = ROOT / "README.md"
    for one in blocks(page):
        if one.language in ("pg", "gq") and not one.broken:
            (tmp_path / f"people.{one.language}").write_text(one.text)
    (script,) = [one.text for one in blocks(page) if one.language == "python"]
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "'friend.name': 'Bo'" in result.stdout


def test_the_mistake_the_readme_shows_looks_like_that(tmp_path):
    page = (ROOT / "README.md").read_text()
    shown = page.split("```text\n")[1].split("```")[0]
    found = {one.language: one.text for one in blocks(ROOT / "README.md")}
    wrong = found["gq"].replace("$friend.age >=", "$friend.agee >=")
    (tmp_path / "people.pg").write_text(found["pg"])
    (tmp_path / "people.gq").write_text(wrong)
    own = f"{Path(sys.executable).parent}/omnigraph"
    command = [own, "explain", "--query", "people.gq", "--schema", "people.pg"]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stderr.strip() == shown.strip()


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
