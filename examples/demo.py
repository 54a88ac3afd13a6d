"""The journey `make demo` takes, embedded and offline: compile, write, ask, branch, look back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import omnigraph
from omnigraph import QueryResult

HERE = Path(__file__).parent
SCHEMA, QUERIES, SEED = HERE / "company.pg", HERE / "company.gq", HERE / "seed.gq"
GRAPH = HERE.parent / "demo-graph.omni"


def title(text: str) -> None:
    """Start a step."""
    sys.stdout.write(f"\n── {text}\n")
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
        sys.stdout.write(f"  {line.rstrip()}\n")


def main() -> None:
    """Walk through what works today."""
    title("Check the schema and the queries")
    command("schema", "check", "--schema", str(SCHEMA))
    command("query", "lint", "--query", str(QUERIES), "--schema", str(SCHEMA))
    command("explain", "--query", str(QUERIES), "--schema", str(SCHEMA), "--name", "why")

    shutil.rmtree(GRAPH, ignore_errors=True)
    with omnigraph.init(str(GRAPH), SCHEMA) as graph:
        title("Write a small company: two mutations, two commits, vectors made offline")
        for name in ("people", "work"):
            done = graph.mutate(SEED, name, actor="demo")
            sys.stdout.write(
                f"  {name}: {done.affected_nodes} nodes, {done.affected_edges} edges\n"
            )
        before = graph.snapshot().commit_id

        title("Who works with Ada?")
        show(graph.query(QUERIES, "colleagues", {"handle": "ada"}))
        title("Ask a question: vectors and words, fused, with the author one hop away")
        question = {
            "question": "what happens when two people edit the same thing?",
            "language": "en",
        }
        show(graph.query(QUERIES, "ask", question))
        title("Why is the project as it is?")
        show(graph.query(QUERIES, "why", {"project": "branches"}))

        title("Hire someone on a branch; main does not know yet")
        graph.store.branches.create("hiring")
        newcomer = {
            "handle": "eve",
            "name": "Eve Sato",
            "team": "core",
            "joined": "2026-01-07",
            "boss": "ada",
        }
        graph.mutate(QUERIES, "hire", newcomer, branch="hiring", actor="demo")
        for branch in ("main", "hiring"):
            people = graph.query(QUERIES, "colleagues", {"handle": "bo"}, branch=branch)
            sys.stdout.write(f"  {branch}: {len(people)} colleagues of bo\n")

        title("A write that breaks a rule changes nothing")
        try:
            graph.mutate(QUERIES, "hire", newcomer | {"boss": "nobody"})
        except omnigraph.OmniGraphError as error:
            sys.stdout.write(f"  refused: {error}\n")

        title("Look back, and check the books")
        graph.mutate(QUERIES, "record_meeting", {"subject": "Demo", "minutes": 5})
        then = graph.query(QUERIES, "voting_record", at=before)
        sys.stdout.write(
            f"  at {before}: {len(then)} votes; now {len(graph.store.commits())} commits\n"
        )
        serious = [finding for finding in graph.verify() if not finding.harmless]
        sys.stdout.write(f"  verify: {serious or 'sound'}\n")
    shutil.rmtree(GRAPH)
    sys.stdout.write("\nDone.\n")


if __name__ == "__main__":
    main()
