"""How long text takes to become IR: cold start, one query, a cached one, a file of 200.

Run with `python -m bench.compile`. Prints medians; nothing is asserted.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import CompileCache, compile_file
from omnigraph.compiler.ir.facts import facts_of
from omnigraph.compiler.ir.lower import lower
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.compiler.query.format import format_queries
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.query.typecheck import typecheck
from omnigraph.compiler.source import Source

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "examples" / "company.pg"
QUERIES = ROOT / "examples" / "company.gq"

ORDINARY = """
query {name}($level: Date, $team: String) {{
  match {{
    $p: Person
    $t: Team {{ slug: $team }}
    $p memberOf $t
    $p.joined_on >= $level
    $p.name != "Nobody"
  }}
  return {{ $p.handle, $p.name, $t.name as team }}
  order {{ $p.joined_on desc }}
  limit 10
}}
"""


def timed(work: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of one call."""
    taken: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def show(what: str, seconds: float) -> None:
    unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    print(f"{what:<52} {seconds * factor:9.2f} {unit}")


def bench_parts() -> None:
    """One ordinary query: two bindings, a traversal, two filters, three columns, order, limit."""
    catalog = load_schema(Source(SCHEMA.read_text(encoding="utf-8"))).catalog
    facts = facts_of(catalog)
    source = Source(ORDINARY.format(name="q"))

    started = time.perf_counter()
    parsed = parse_queries(source).queries[0]
    show("first parse, grammar loaded", time.perf_counter() - started)
    typed = typecheck(catalog, source, parsed)
    plain = lower(typed)
    show("one query: parse", timed(lambda: parse_queries(source), 500))
    show("one query: type-check", timed(lambda: typecheck(catalog, source, parsed), 500))
    show("one query: lower", timed(lambda: lower(typed), 500))
    show("one query: rewrite", timed(lambda: optimize(plain, facts), 500))
    show("one query: text to IR", timed(lambda: compile_file(catalog, source), 500))
    cache = CompileCache(64)
    cache.compile(catalog, source.text)
    show("one query: cached", timed(lambda: cache.compile(catalog, source.text), 5_000))

    whole = Source("".join(ORDINARY.format(name=f"q{number}") for number in range(200)))
    show("200 queries: text to IR", timed(lambda: compile_file(catalog, whole), 7))
    show("200 queries: format", timed(lambda: format_queries(whole), 7))


def bench_commands() -> None:
    """Cold start of the command line, process and all."""
    omnigraph = str(Path(sys.executable).parent / "omnigraph")
    lint = [omnigraph, "query", "lint", "-q", str(QUERIES), "-s", str(SCHEMA)]
    for what, command in (
        ("omnigraph --help", [omnigraph, "--help"]),
        ("omnigraph query lint", lint),
    ):

        def run(command: list[str] = command) -> None:
            subprocess.run(command, check=True, capture_output=True)

        show(f"cold start: {what}", timed(run, 7))


def main() -> None:
    """Print every measurement."""
    bench_parts()
    bench_commands()


if __name__ == "__main__":
    main()
