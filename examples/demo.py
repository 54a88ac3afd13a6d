"""The journey `make demo` takes, embedded and offline: generate, load, ask, branch, look back."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generate

import omnigraph
from omnigraph import Graph, QueryResult

HERE = Path(__file__).parent
SCHEMA, QUERIES = HERE / "company.pg", HERE / "company.gq"
PLACE = HERE.parent / "demo-graph.omni"
WORK = HERE.parent / "demo-files"
PEOPLE = 1_500


def title(text: str) -> None:
    """Start a step."""
    sys.stdout.write(f"\n── {text}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Tell something about a step."""
    sys.stdout.write(f"  {text}\n")
    sys.stdout.flush()


def command(*arguments: str) -> None:
    """Run one `omnigraph` command and show it; a failing one ends the demo."""
    shown = " ".join(arguments).replace(f"{HERE}/", "examples/")
    sys.stdout.write(f"$ omnigraph {shown}\n")
    sys.stdout.flush()
    program = str(Path(sys.executable).parent / "omnigraph")
    subprocess.run([program, *arguments], check=True)  # noqa: S603 - our own command


def show(result: QueryResult) -> None:
    """Print rows as aligned columns."""
    rows = [{name: str(value) for name, value in row.items()} for row in result.to_json_rows()]
    widths = {name: max([len(name), *(len(row[name]) for row in rows)]) for name in result.columns}
    for row in [{name: name for name in result.columns}, *rows]:
        line = "  ".join(text.ljust(widths[name]) for name, text in row.items())
        say(line.rstrip())


def main() -> None:
    """Walk through what works today."""
    for place in (PLACE, WORK):
        shutil.rmtree(place, ignore_errors=True)
    WORK.mkdir()
    try:
        check()
        with omnigraph.init(str(PLACE), SCHEMA) as graph:
            load(graph)
            ask(graph)
            branch_and_look_back(graph)
            export(graph)
    finally:
        for place in (PLACE, WORK):
            shutil.rmtree(place, ignore_errors=True)
    sys.stdout.write("\nDone.\n")


def check() -> None:
    """Schemas and queries are compiled, type-checked and explained before there is any data."""
    title("Check the schema and the queries")
    command("schema", "check", "--schema", str(SCHEMA))
    command("query", "lint", "--query", str(QUERIES), "--schema", str(SCHEMA))
    command("explain", "--query", str(QUERIES), "--schema", str(SCHEMA), "--name", "why")


def load(graph: Graph) -> None:
    """The bulk on Spark, a small file inline; each is one commit, and vectors are made offline."""
    title("Load a generated company on Spark, then a small file inline")
    bulk = WORK / "company.jsonl"
    count = generate.write(bulk, PEOPLE)
    say(f"{bulk.name}: {count:,} records, {bulk.stat().st_size / 1e6:.1f} MB")
    for data, engine in ((bulk, "spark"), (HERE / "company.jsonl", "inline")):
        started = time.perf_counter()
        done = graph.load(data, "merge", engine=engine, actor="demo")
        nodes, edges = sum(done.nodes_loaded.values()), sum(done.edges_loaded.values())
        took = time.perf_counter() - started
        say(
            f"{done.engine}: {nodes:,} nodes, {edges:,} edges, {done.embedded:,} vectors "
            f"in {took:.1f} s, commit {done.commit_id}"
        )
    graph.ensure_indices()


def ask(graph: Graph) -> None:
    """Vectors, words and hops in one query."""
    title("Ask a question: vectors and words, fused, with the author one hop away")
    question = "how do we find texts that mean the same?"
    show(graph.query(QUERIES, "ask", {"question": question, "language": "en"}))
    title("Who knows about it, on which project, with which partner?")
    show(graph.query(QUERIES, "experts", {"question": question}))
    title("What did that cost? Every operator with its rows and time")
    found = graph.profile(QUERIES, "experts", {"question": question})
    for step in found.steps:
        say(f"{step.rows:>7,} rows {step.ms:8.2f} ms  {'  ' * step.depth}{step.operator}")


def branch_and_look_back(graph: Graph) -> None:
    """Changes on a branch stay there; the past stays readable; broken rules change nothing."""
    before = graph.snapshot().commit_id
    title("Hire someone on a branch; main does not know yet")
    graph.branches.create("hiring")
    newcomer = {
        "handle": "eve",
        "name": "Eve Sato",
        "team": "team-1",
        "joined": "2026-01-07",
        "boss": "mira",
    }
    graph.mutate(QUERIES, "hire", newcomer, branch="hiring", actor="demo")
    for branch in ("main", "hiring"):
        people = graph.query(QUERIES, "chain_of_command", {"handle": "eve"}, branch=branch)
        say(f"{branch}: {len(people)} people above eve")

    title("A write that breaks a rule changes nothing")
    try:
        graph.mutate(QUERIES, "hire", newcomer | {"boss": "nobody"})
    except omnigraph.OmniGraphError as error:
        say(f"refused: {error}")

    title("Look back, and check the books")
    graph.mutate(QUERIES, "record_meeting", {"subject": "Demo", "minutes": 5})
    meetings = "query q() { match { $m: Meeting } return { count($m) as meetings } }"
    for label, moment in (("then", before), ("now", None)):
        say(f"{label}: {graph.query(meetings, at=moment).to_dicts()[0]['meetings']} meetings")
    serious = [finding for finding in graph.verify() if not finding.harmless]
    say(f"verify: {serious or 'sound'}")


def export(graph: Graph) -> None:
    """What was exported loads back to an equal graph."""
    title("Export the branch; the file loads back to an equal graph")
    target = WORK / "hiring.jsonl.zst"
    done = graph.export(target, branch="hiring")
    rows = sum(table.rows for table in done.tables)
    say(f"{target.name}: {rows:,} rows, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
