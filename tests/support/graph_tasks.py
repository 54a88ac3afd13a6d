"""Tasks on a graph for child processes; each speaks through `say`."""

from __future__ import annotations

from typing import Any

import omnigraph
from omnigraph.errors import OmniGraphError
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  age: I32?
  email: String? @unique
}

edge Knows: Person -> Person
"""
OTHER_SCHEMA = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")\n  note: String?')
"""The same with a column called otherwise, and one more."""
BACK = SCHEMA.replace("age: I32?", 'age: I32? @rename_from("years")')


def mutate_each(say: Any, uri: str, queries: list[tuple[str, dict[str, Any]]]) -> None:
    """Run mutations one after another; say how each ended."""
    with omnigraph.connect(uri, options=FAST) as graph:
        say("ready")
        for text, params in queries:
            try:
                result = graph.mutate(text, params=params)
            except OmniGraphError as error:
                say(("refused", type(error).__name__))
            else:
                say(("done", result.commit_id))


def mutate_keyed(say: Any, uri: str, text: str, params: dict[str, Any], key: str) -> None:
    """Run one mutation under an idempotency key."""
    with omnigraph.connect(uri, options=FAST) as graph:
        say(("done", graph.mutate(text, params=params, idempotency_key=key).commit_id))


def load_keyed(say: Any, uri: str, lines: bytes, key: str) -> None:
    """Append JSON lines under an idempotency key."""
    with omnigraph.connect(uri, options=FAST) as graph:
        done = graph.load(lines, "append", engine="inline", idempotency_key=key)
        say((done.commit_id, done.replayed))


def merge_own_branch(say: Any, uri: str, name: str, rounds: int) -> None:
    """Write to a branch of one's own and merge it into main, again and again."""
    with omnigraph.connect(uri, options=FAST) as graph:
        graph.branches.create(name)
        say("ready")
        for number in range(rounds):
            for text in (
                f'insert Person {{ name: "{name}-{number}", age: {number} }}',
                f'update Person set {{ age: {number} }} where name = "of {name}"',
                f'insert Knows {{ from: "{name}-{number}", to: "of {name}" }}',
            ):
                graph.mutate(f"query q() {{ {text} }}", branch=name)
            say(("merged", graph.branches.merge(name, message=name).commit_id))
        graph.branches.merge("main", into=name)


def apply_each(say: Any, uri: str, schemas: list[str], branch: str = "main") -> None:
    """Apply schemas one after another; say what became of each."""
    with omnigraph.connect(uri, options=FAST) as graph:
        say("ready")
        for text in schemas:
            try:
                done = graph.apply_schema(text, branch=branch, allow_data_loss=True)
            except OmniGraphError as error:
                say(("refused", type(error).__name__))
            else:
                say(("done", done.graph_commit_id))


def load_each(say: Any, uri: str, name: str, rounds: int) -> None:
    """Append a few rows again and again, by files that are read whatever the schema is."""
    with omnigraph.connect(uri, options=FAST) as graph:
        say("ready")
        for number in range(rounds):
            line = f'{{"type": "Person", "data": {{"name": "{name}-{number}"}}}}\n'.encode()
            try:
                done = graph.load(line, "append", engine="inline")
            except OmniGraphError as error:
                say(("refused", type(error).__name__))
            else:
                say(("done", done.commit_id))


def branch_each(say: Any, uri: str, name: str, rounds: int) -> None:
    """Make branches from main and delete every other one."""
    with omnigraph.connect(uri, options=FAST) as graph:
        say("ready")
        for number in range(rounds):
            graph.branches.create(f"{name}-{number}")
            if number % 2:
                graph.branches.delete(f"{name}-{number}")
            say(("done", number))
