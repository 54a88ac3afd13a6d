"""What a thread of the soak does: writes that sign their commit, reads that are noted."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from omnigraph.api.changes import EntityChange
from omnigraph.api.history import GraphCommit
from omnigraph.api.merges import STRATEGIES, MergeConflictError
from omnigraph.api.query import QueryResult
from omnigraph.api.visibility import RowRules
from omnigraph.errors import NotFoundError
from omnigraph.graph import Graph
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.soak.model import SCHEMA, WORDS, words_of

QUERIES = """
query put($k: String, $v: I64, $t: String) {
  insert P { k: $k, v: $v, words: $t }
  insert Q { k: $k, v: $v }
}
query update($k: String, $v: I64, $t: String) { update P set { v: $v, words: $t } where k = $k }
query delete($k: String) { delete P where k = $k }
query link($a: String, $b: String, $w: I64) { insert E { from: $a, to: $b, w: $w } }
query unlink($a: String) { delete E where from = $a }
query nodes() { match { $p: P } return { $p.k, $p.v } }
query others() { match { $q: Q } return { $q.k, $q.v } }
query edges() { match { $p: P  $p $e:e $o } return { $p.k, $o.k as other, $e.w } }
query lookup($k: String) { match { $p: P { k: $k } } return { $p.v } }
query above($v: I64) { match { $p: P  $p.v >= $v } return { $p.k, $p.v } }
query search($word: String) { match { $p: P  search($p.words, $word) } return { $p.k } }
query hops($k: String) {
  match { $p: P { k: $k }  $p e $m  $m e $o }
  return distinct { $o.k }
}
query missing() { match { $p: P  not { $p e $_ } } return { $p.k } }
"""
LONE = ("hops", "missing")
"""Questions whose answer is a list of keys, not of rows."""
KEYS = 40
NOTES = {"n0": "n0: String?", "n1": "n1: I64? @index", "n2": "n2: I64 @default(7)"}
"""Columns that come and go; what has a default is written into every row."""


@dataclass
class Turn:
    """One operation of one thread: what it is called, where, and what is told of it."""

    graph: Graph
    name: str
    branch: str
    dice: random.Random
    note: Callable[..., None]
    numbers: Iterator[int]
    facts: dict[str, Any] = field(default_factory=dict)

    def key(self) -> str:
        return f"k{self.dice.randrange(KEYS)}"

    def begin(self, operation: str, **args: Any) -> None:
        """Say what is about to be written; a killed process said at least that."""
        self.note("begin", self.name, operation=operation, branch=self.branch, args=args)


def mutate(turn: Turn, query: str, args: dict[str, Any], **more: Any) -> None:
    """Run a mutation under a key, some of them twice: a repeated request writes once."""
    turn.begin(query, **args)
    ask = {"branch": turn.branch, "actor": turn.name, "idempotency_key": turn.name}
    done = turn.graph.mutate(QUERIES, query, {**args, **more}, **ask)
    if turn.dice.random() < 0.1 and done.commit_id is not None:
        again = turn.graph.mutate(QUERIES, query, {**args, **more}, **ask)
        assert again.replayed, "a repeated request was written again"
        assert again.commit_id == done.commit_id, "a repeated request has another commit"
    turn.note("wrote", turn.name, commit=done.commit_id)


def put(turn: Turn) -> None:
    value = turn.dice.randrange(1000)
    mutate(turn, "put", {"k": turn.key(), "v": value}, t=words_of(value))


def update(turn: Turn) -> None:
    value = turn.dice.randrange(1000)
    mutate(turn, "update", {"k": turn.key(), "v": value}, t=words_of(value))


def delete(turn: Turn) -> None:
    mutate(turn, "delete", {"k": turn.key()})


def link(turn: Turn) -> None:
    mutate(turn, "link", {"a": turn.key(), "b": turn.key(), "w": next(turn.numbers)})


def unlink(turn: Turn) -> None:
    mutate(turn, "unlink", {"a": turn.key()})


def node(kind: str, key: str, value: int) -> dict[str, Any]:
    data = {"k": key, "v": value} | ({"words": words_of(value)} if kind == "P" else {})
    return {"type": kind, "data": data}


def load(
    turn: Turn, mode: str, lines: list[dict[str, Any]], progress: Any = None, /, **args: Any
) -> None:
    """Load some lines; `args` say what must come of it."""
    turn.begin(mode, **args)
    data = "\n".join(map(json.dumps, lines)).encode()
    ask = {"branch": turn.branch, "actor": turn.name, "idempotency_key": turn.name}
    done = turn.graph.load(data, mode, **ask, engine="inline", progress=progress)
    if turn.dice.random() < 0.1 and done.commit_id is not None:
        again = turn.graph.load(data, mode, **ask, engine="inline")
        assert again.replayed, "a repeated load was written again"
        assert again.commit_id == done.commit_id, "a repeated load has another commit"
    turn.note("wrote", turn.name, commit=done.commit_id)


def merge(turn: Turn) -> None:
    rows = {turn.key(): turn.dice.randrange(1000) for _ in range(turn.dice.randrange(1, 30))}
    keys = [*rows]
    edges = [
        [next(turn.numbers), turn.dice.choice(keys), turn.dice.choice(keys)]
        for _ in range(turn.dice.randrange(4))
    ]
    lines = [node("P", k, v) for k, v in rows.items()]
    lines += [{"edge": "E", "from": a, "to": b, "data": {"w": w}} for w, a, b in edges]
    load(turn, "merge", lines, p=rows, e=edges)


def append(turn: Turn) -> None:
    rows = {f"n{next(turn.numbers)}": 7 for _ in range(3)}
    load(turn, "append", [node("P", k, v) for k, v in rows.items()], p=rows, e=[])


def overwrite(turn: Turn) -> None:
    rows = {turn.key(): turn.dice.randrange(1000) for _ in range(10)}
    load(turn, "overwrite", [node("Q", k, v) for k, v in rows.items()], q=rows)


def a_question(turn: Turn) -> tuple[str, dict[str, Any]]:
    return turn.dice.choice(
        [
            ("nodes", {}),
            ("others", {}),
            ("edges", {}),
            ("lookup", {"k": turn.key()}),
            ("above", {"v": turn.dice.randrange(1000)}),
            ("search", {"word": turn.dice.choice(WORDS)}),
            ("hops", {"k": turn.key()}),
            ("missing", {}),
        ]
    )


def read(turn: Turn) -> None:
    """Ask something of a branch, now or at a commit of its past."""
    question, args = a_question(turn)
    at = None
    if turn.dice.random() < 0.2:
        commits = turn.graph.commits.list(turn.branch, all=True, reverse=True)
        at = turn.dice.choice(commits[-12:]).graph_commit_id
    ask(turn, question, args, at)


def read_some(turn: Turn) -> None:
    """Ask as somebody who sees the nodes from a value on, and the edges between them."""
    (question, args), least = a_question(turn), turn.dice.choice([100, 300, 600])
    rules = RowRules.of({"P": frozenset({f"$n.v >= {least}"}), "Q": None, "E": None})
    result = turn.graph.under(rules).query(QUERIES, question, args, branch=turn.branch)
    told(turn, result, question, args | {"least": least}, was_past=False)


def ask(turn: Turn, question: str, args: dict[str, Any], at: str | None = None) -> None:
    """Ask one thing and note the answer, with the commit it was given for."""
    result = turn.graph.query(QUERIES, question, args, branch=turn.branch, at=at)
    told(turn, result, question, args, was_past=at is not None)


def told(
    turn: Turn, result: QueryResult, question: str, args: dict[str, Any], *, was_past: bool
) -> None:
    rows = sorted(list(row) for row in result.to_tuples())
    answer = [row[0] for row in rows] if question in LONE else rows
    facts = {"question": question, "args": args, "answer": answer, "was_past": was_past}
    turn.note("read", turn.name, branch=turn.branch, commit=result.commit_id, **facts)


def stream(turn: Turn) -> None:
    for batch in turn.graph.stream(QUERIES, "edges", branch=turn.branch, batch_rows=5):
        assert len(batch) <= 5


def export(turn: Turn) -> None:
    commit = turn.graph.snapshot(turn.branch).commit_id
    out = io.BytesIO()
    turn.graph.export(out, branch=turn.branch, at=commit)
    turn.note("exported", turn.name, commit=commit, rows=out.getvalue().count(b"\n"))


def create_branch(turn: Turn) -> None:
    name = f"b{turn.dice.randrange(8)}"
    turn.graph.branches.create(name, source=turn.branch)


def delete_branch(turn: Turn) -> None:
    names = [name for name in turn.graph.branches.list() if name != "main"]
    if len(names) > 3:
        name = turn.dice.choice(names)
        turn.note("deleting", turn.name, branch=name)
        turn.graph.branches.delete(name)
        turn.note("deleted", turn.name, branch=name)


def merge_branch(turn: Turn) -> None:
    """Merge any other branch, whatever becomes of rows both changed; a conflict is an answer."""
    others = [name for name in turn.graph.branches.list() if name != turn.branch]
    if others:
        bring(turn, turn.dice.choice(others), turn.dice.choice(STRATEGIES))
    else:
        create_branch(turn)


def bring(turn: Turn, source: str, strategy: str) -> None:
    turn.begin("merge_branch", source=source, strategy=strategy)
    done = turn.graph.branches.merge(source, turn.branch, strategy=strategy, actor=turn.name)
    turn.note("wrote", turn.name, commit=done.commit_id)


def migrate(turn: Turn) -> None:
    """Give the branch another schema: columns come and go that no question is about."""
    notes = [name for name in NOTES if turn.dice.random() < 0.5]
    turn.begin("migrate")
    text = with_notes(notes)
    done = turn.graph.apply_schema(text, branch=turn.branch, allow_data_loss=True, actor=turn.name)
    assert turn.graph.at(done.manifest_version, branch=turn.branch).schema, "no schema"
    turn.note("wrote", turn.name, commit=done.graph_commit_id)


def with_notes(names: Iterable[str]) -> str:
    """Return the schema of the soak with some more columns in P and E."""
    columns = "".join(f"\n  {NOTES[name]}" for name in names)
    return SCHEMA.replace("v: I64", f"v: I64{columns}", 1).replace("w: I64", f"w: I64{columns}", 1)


def run(turn: Turn) -> None:
    """Write twice where nobody looks, and publish both writes together, or neither."""
    work = turn.graph.run(turn.branch)
    hidden = work.record.run_branch
    try:
        for number in range(2):
            name, value = f"{turn.name}-{number}", turn.dice.randrange(1000)
            args = {"k": turn.key(), "v": value}
            turn.note("begin", name, operation="put", branch=hidden, args=args)
            work.mutate(QUERIES, "put", {**args, "t": words_of(value)}, actor=name)
        turn.begin("merge_branch", source=hidden, strategy="fail")
        done = turn.graph.runs.publish(work.run_id, actor=turn.name)
    except MergeConflictError:
        work.abort()
        raise
    turn.note("wrote", turn.name, commit=done.published_snapshot_id)


def abort_runs(turn: Turn) -> None:
    """End what others left, or are still at."""
    for left in turn.graph.runs.list():
        if left.status in ("running", "failed"):
            turn.graph.runs.abort(left.run_id)


def revert(turn: Turn) -> None:
    """Undo something that was done on this branch lately."""
    again(turn, "revert", turn.branch)


def cherry_pick(turn: Turn) -> None:
    """Do once more what was done on some branch lately."""
    again(turn, "cherry_pick", turn.dice.choice(turn.graph.branches.list()))


def again(turn: Turn, operation: str, branch: str) -> None:
    commits = turn.graph.commits.list(branch, limit=12)
    apply(turn, operation, turn.dice.choice(commits), turn.dice.choice(STRATEGIES))


def apply(turn: Turn, operation: str, commit: GraphCommit, strategy: str) -> None:
    """Undo or repeat a commit, one of a merge against the line it is on."""
    if commit.parent_commit_id is None:
        return
    of, parent = commit.graph_commit_id, commit.parent_commit_id
    turn.begin(operation, commit=of, parent=parent, strategy=strategy)
    number = None if commit.merged_parent_commit_id is None else 1
    ask: dict[str, Any] = {"parent": number, "strategy": strategy, "actor": turn.name}
    done = getattr(turn.graph, operation)(of, branch=turn.branch, **ask)
    turn.note("wrote", turn.name, commit=done.commit_id)


def tag(turn: Turn) -> None:
    """Name a commit of the past: from then on it can be read until the name is taken away."""
    commits = turn.graph.commits.list(turn.branch, limit=12, all=True)
    name, at = f"t{turn.dice.randrange(6)}", turn.dice.choice(commits).graph_commit_id
    turn.graph.tags.create(name, at=at, branch=turn.branch, actor=turn.name)


def read_tag(turn: Turn) -> None:
    for one in turn.graph.tags.list():
        ask(turn, "nodes", {}, one.name)


def delete_tag(turn: Turn) -> None:
    tags = turn.graph.tags.list()
    if len(tags) > 2:
        turn.graph.tags.delete(turn.dice.choice(tags).name)


def optimize(turn: Turn) -> None:
    turn.graph.optimize(turn.branch)


def index(turn: Turn) -> None:
    turn.graph.ensure_indices(turn.branch)


def cleanup(turn: Turn) -> None:
    turn.note("cleaning", turn.name)
    turn.graph.store.cleanup(CleanupPolicy(keep_versions=8))


def verify(turn: Turn) -> None:
    deep = turn.dice.random() < 0.5
    wrong = [finding for finding in turn.graph.verify(deep=deep) if not finding.harmless]
    if wrong:
        turn.note("unsound", turn.name, findings=[str(finding) for finding in wrong])


def repair(turn: Turn) -> None:
    """Nobody else touches the files, so there is nothing to repair, whoever writes meanwhile."""
    done = turn.graph.repair(turn.branch)
    wrong = [str(one) for one in done if one.classification.value in ("suspicious", "unverifiable")]
    if wrong:
        turn.note("unsound", turn.name, findings=wrong)


def look_back(turn: Turn) -> None:
    commits = turn.graph.commits.list(turn.branch, all=True, reverse=True)
    commit = turn.dice.choice(commits).graph_commit_id
    key = turn.key()
    row = turn.graph.entity_at("node:P", key, commit)
    answer = [] if row is None else [[row["v"]]]
    turn.note("read", turn.name, commit=commit, question="lookup", args={"k": key}, answer=answer)


def compare(turn: Turn) -> None:
    """Take one state and what differs from another: that must be the other."""
    commits = turn.graph.commits.list(turn.branch, all=True, reverse=True)
    before, after = (turn.dice.choice(commits[-12:]).graph_commit_id for _ in range(2))
    found = values(turn, before)
    taken_over(found, turn.graph.diff(before, after, types=["P"], images="after"))
    tell_values(turn, found, after)


def catch_up(turn: Turn) -> None:
    """Take an old state and follow the feed from there: that must be the newest one told of."""
    commits = turn.graph.commits.list(turn.branch, all=True, reverse=True)
    at = turn.dice.choice(commits[-12:]).graph_commit_id
    found = values(turn, at)
    since = turn.graph.cursor(turn.branch, at=at)
    for group in turn.graph.changes(turn.branch, since=since, types=["P"], max_rows=5):
        taken_over(found, group.changes)
        at = group.commit.graph_commit_id if group.complete else ""
    tell_values(turn, found, at)


def values(turn: Turn, at: str) -> dict[str, int]:
    return dict(turn.graph.query(QUERIES, "nodes", branch=turn.branch, at=at).to_tuples())


def taken_over(found: dict[str, int], changes: Iterable[EntityChange]) -> None:
    for one in changes:
        assert (one.id in found) == (one.op != "insert"), f"{one} does not fit"
        if one.after is None:
            del found[one.id]
        else:
            found[one.id] = one.after["v"]


def tell_values(turn: Turn, found: dict[str, int], commit: str) -> None:
    answer = sorted([k, v] for k, v in found.items())
    turn.note("read", turn.name, commit=commit, question="nodes", args={}, answer=answer)


WRITES: dict[Callable[[Turn], None], int] = {
    put: 20,
    update: 8,
    delete: 4,
    link: 12,
    unlink: 3,
    merge: 5,
    append: 2,
    overwrite: 1,
    merge_branch: 8,
    run: 3,
    revert: 2,
    cherry_pick: 2,
    migrate: 2,
}
READS: dict[Callable[[Turn], None], int] = {
    read: 40,
    read_some: 4,
    stream: 4,
    export: 2,
    look_back: 4,
    compare: 3,
    catch_up: 3,
    read_tag: 2,
}
REST: dict[Callable[[Turn], None], int] = {
    create_branch: 5,
    delete_branch: 3,
    tag: 2,
    delete_tag: 1,
    abort_runs: 1,
    optimize: 1,
    index: 1,
    cleanup: 1,
    verify: 1,
    repair: 1,
}
ALL = {**WRITES, **READS, **REST}


def pick_branch(graph: Graph, dice: random.Random) -> str:
    """Return a branch to work on: main half of the time."""
    if dice.random() < 0.5:
        return "main"
    try:
        return dice.choice(graph.branches.list())
    except (NotFoundError, IndexError):
        return "main"
