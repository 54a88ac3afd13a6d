"""The page of documents that says what was measured: made of what benches say of themselves."""

from __future__ import annotations

import ast
from pathlib import Path

_HERE = Path(__file__).parent
_HEAD = """# Benchmarks

Speed is measured beside peers, in one run and on one machine: ratios hold where milliseconds do
not. Results are compared before anything is timed, contenders take turns, and what is told is a
median over rounds. `make bench` runs all of it, `make bench BENCH=read` one; peers are pinned in
`requirements-bench.lock`. A time is never asserted in a test.

This page is what the files in `bench/` say of themselves; `python -m bench --page` prints it.
"""


def page() -> str:
    """Return the page."""
    files = sorted(path for path in _HERE.glob("*.py") if not path.stem.startswith("_"))
    return "\n".join([_HEAD, *(_section(path) for path in files)])


def _section(path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    title, _, rest = told.partition("\n")
    lines = [f"## {path.stem}", "", _sentence(title), ""]
    in_code = False
    for line in rest.strip("\n").splitlines():
        is_code = line.startswith("    ") or (in_code and not line)
        if is_code != in_code:
            lines += ["```"] if in_code else ["```text"]
            in_code = is_code
            if not is_code and line:
                lines.append("")
        lines.append(line.removeprefix("    ") if is_code else line)
    if in_code:
        lines.append("```")
    text = "\n".join(lines).replace("\n\n```\n", "\n```\n")
    return text.rstrip("\n") + "\n"


def _sentence(title: str) -> str:
    """Return the first line of a bench, a colon at its end set right."""
    return title if title.endswith((".", ":")) else f"{title}."
