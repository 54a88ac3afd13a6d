"""Golden cases: a source text and, behind `=== section` lines, what it must turn into.

    // schema: social.pg
    query adults($min: I32) { … }
    === diagnostics
    error[T6] 2:50 Person has no property `agee`

The source is everything before the first section line, headers included, so that the line
numbers in the expected text are those of the file. Headers are the `// key: value` lines at the
very top. A file lists the sections it wants checked; `pytest --update-cases` fills them in.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

CASES = Path(__file__).parent.parent / "cases"

_HEADER = re.compile(r"//\s*([a-z][a-z0-9-]*):\s*(.*?)\s*")
_SECTION = re.compile(r"(?m)^=== ([a-z][a-z0-9-]*)[ \t]*\n?")


@dataclass(frozen=True, slots=True)
class Case:
    """One golden file. `text` is the source under test; `sections` the expected outputs."""

    path: Path
    text: str
    headers: Mapping[str, str]
    sections: Mapping[str, str]

    @property
    def name(self) -> str:
        """The file's name without its suffix: a short sentence about the behaviour."""
        return self.path.stem

    def sibling(self, name: str) -> Path:
        """Return the file a header names, looked up beside the case and then in `cases/`."""
        for folder in (self.path.parent, CASES, CASES / "schema"):
            if (folder / name).is_file():
                return folder / name
        raise FileNotFoundError(f"{self.path} names {name!r}, which does not exist")

    def check(self, outputs: Mapping[str, Callable[[], str]], *, update: bool) -> None:
        """Compare every section of the file with its output, or rewrite the file.

        Only the sections the file lists are computed; a file without any checks nothing, so it
        is refused.
        """
        assert self.sections, f"{self.path} has no `=== section`: it would check nothing"
        unknown = sorted(set(self.sections) - set(outputs))
        assert not unknown, f"{self.path}: unknown sections {unknown}; known: {sorted(outputs)}"
        actual = {name: _normal(outputs[name]()) for name in self.sections}
        if update:
            write_case(replace(self, sections=actual))
            return
        for name, expected in self.sections.items():
            if actual[name] != expected:
                pytest.fail(_difference(self, name, expected, actual[name]), pytrace=False)


def read_case(path: Path) -> Case:
    """Return the parsed golden file."""
    whole = path.read_bytes().decode("utf-8")  # bytes: a CRLF in a source must survive
    text, *rest = _SECTION.split(whole)
    sections = {name: _normal(body) for name, body in zip(rest[::2], rest[1::2], strict=True)}
    assert len(sections) == len(rest) // 2, f"{path} repeats a section"
    return Case(path, text, _headers(text), sections)


def write_case(case: Case) -> None:
    """Write the case with its present sections; the source stays byte for byte."""
    blocks = "".join(f"=== {name}\n{body}" for name, body in case.sections.items())
    case.path.write_bytes((case.text + blocks).encode("utf-8"))


def cases(folder: str, suffix: str) -> list[object]:
    """Return the cases of `tests/cases/<folder>` as pytest parameters, sorted by name."""
    paths = sorted((CASES / folder).glob(f"*{suffix}"))
    found = [path for path in paths if _SECTION.search(path.read_bytes().decode("utf-8"))]
    assert found, f"no golden cases in {CASES / folder}"
    return [pytest.param(read_case(path), id=path.stem) for path in found]


def _headers(text: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in text.splitlines():
        found = _HEADER.fullmatch(line)
        if found is None:
            break
        headers[found[1]] = found[2]
    return headers


def _normal(body: str) -> str:
    """One trailing newline, or nothing at all; blank lines at the end do not count."""
    stripped = body.rstrip("\n")
    return f"{stripped}\n" if stripped else ""


def _difference(case: Case, section: str, expected: str, actual: str) -> str:
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm=""
    )
    shown = "\n".join(lines)
    return f"{case.path}: section `{section}` differs (--update-cases rewrites it)\n{shown}"
