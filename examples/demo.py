"""The journey `make demo` takes, embedded and offline.

Generate, load, ask, branch, merge, change the schema, look back, serve it to a person and an agent.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generate

import omnigraph
from omnigraph import Graph, QueryResult
from omnigraph.api.merges import MergeConflictError

HERE = Path(__file__).parent
SCHEMA, QUERIES = HERE / "company.pg", HERE / "company.gq"
PLACE = HERE.parent / "demo-graph.omni"
WORK = HERE.parent / "demo-files"
PROGRAM = str(Path(sys.executable).parent / "omnigraph")
PEOPLE = 1_500


def title(text: str) -> None:
    """Start a step."""
    sys.stdout.write(f"\n── {text}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Tell something about a step."""
    sys.stdout.write(f"  {text}\n")
    sys.stdout.flush()


def with_mine(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment of this process with some more in it."""
    return {**os.environ, **variables}  # noqa: TID251 - for a child process


def command(*arguments: str, **variables: str) -> None:
    """Run one `omnigraph` command and show it; a failing one ends the demo."""
    shown = " ".join(arguments).replace(f"{HERE}/", "examples/")
    sys.stdout.write(f"$ omnigraph {shown}\n")
    sys.stdout.flush()
    subprocess.run([PROGRAM, *arguments], check=True, env=with_mine(variables))  # noqa: S603


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
            review_and_merge(graph)
            evolve(graph)
            export(graph)
        serve()
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


def review_and_merge(graph: Graph) -> None:
    """What an agent did is looked at, and a conflict is settled, before it is in main."""
    title("An agent works on a branch; what it did is a diff")
    graph.branches.create("agent")
    promote = """query promote($handle: String, $title: String) {
      update Person set { title: $title } where handle = $handle
    }"""

    def titled(handle: str, name: str, branch: str, actor: str) -> None:
        given = {"handle": handle, "title": name}
        graph.mutate(promote, params=given, branch=branch, actor=actor, message="titles")

    titled("mira", "Head of everything", "agent", "act-agent")
    titled("jonas", "Staff engineer", "agent", "act-agent")
    command("diff", "main...agent", str(PLACE))
    title("Meanwhile main changed the same row: a conflict, with both sides")
    titled("mira", "Chief of staff", "main", "act-mira")
    try:
        graph.branches.merge("agent")
    except MergeConflictError as error:
        for one in error.conflicts:
            ours, theirs = one.ours or {}, one.theirs or {}
            say(f"{one.table_key} {one.row_id}: ours {ours['title']!r}, theirs {theirs['title']!r}")
    settled = {"node:Person": {"mira": "ours"}}
    merged = graph.branches.merge("agent", resolve=settled, actor="act-mira", message="reviewed")
    say(f"{merged.outcome}: mira keeps her title, jonas has a new one")


def evolve(graph: Graph) -> None:
    """A schema changes as one commit; the past keeps its own."""
    title("Add a required property with a default, on main, as one commit")
    before = graph.snapshot().commit_id
    text = SCHEMA.read_text().replace(
        "  mission: String?\n", '  mission: String?\n  site: String @default("Zurich")\n', 1
    )
    done = graph.apply_schema(text, message="teams have a site")
    say(f"applied {len(done.steps)} step; every team has it:")
    show(graph.query("match { $t: Team } return { $t.slug, $t.site } order { $t.slug } limit 2"))
    say(f"before: {'site' in graph.at(before).schema}, now: {'site' in graph.schema}")


def serve() -> None:
    """The same graph over HTTP, for a person who may merge and an agent who may only propose."""
    title("Serve it: tokens say who asks, a policy what they may do")
    tokens = {"act-mira": "token-of-mira", "act-agent": "token-of-the-agent"}
    with server(tokens) as address:
        say(f"serving at {address}")
        as_agent = {"OMNIGRAPH_BEARER_TOKEN": tokens["act-agent"]}
        as_mira = {"OMNIGRAPH_BEARER_TOKEN": tokens["act-mira"]}
        hire = 'query q() { insert Team { slug: "team-x", name: "The X" } }'
        with omnigraph.connect(address, token=tokens["act-agent"]) as graph:
            try:
                graph.mutate(hire)
            except omnigraph.OmniGraphError as error:
                say(f"the agent on main: {error}")
        command("branch", "create", "proposal", address, **as_agent)
        command("change", address, "--branch", "proposal", "-e", hire, **as_agent)
        command("diff", "main...proposal", address, **as_mira)
        command("branch", "merge", "proposal", address, "-m", "approved", **as_mira)
        command("commit", "list", address, "--limit", "1", **as_mira)


@contextlib.contextmanager
def server(tokens: dict[str, str]) -> Iterator[str]:
    """Run `omnigraph serve` on a free port until the block ends."""
    settings = WORK / "omnigraph.yaml"
    settings.write_text(f"policy:\n  file: {HERE / 'policy.yaml'}\n")
    variables = with_mine({"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens)})
    words = ["serve", str(PLACE), "--bind", "127.0.0.1:0", "--config", str(settings)]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [PROGRAM, *words],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("OMNIGRAPH_LISTEN_ADDR="):
                yield f"http://{line.strip().partition('=')[2]}"
                break
        else:
            raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait(60)


def export(graph: Graph) -> None:
    """What was exported loads back to an equal graph."""
    title("Export the branch; the file loads back to an equal graph")
    target = WORK / "hiring.jsonl.zst"
    done = graph.export(target, branch="hiring")
    rows = sum(table.rows for table in done.tables)
    say(f"{target.name}: {rows:,} rows, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
