"""Tools that write: to branches of the agent alone, and never twice for one call."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final

from omnigraph.api.merges import MergeResult
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.api.writes import MutationResult
from omnigraph.errors import DeniedError
from omnigraph.mcp.answers import json_text, lines_text
from omnigraph.mcp.desk import Turn
from omnigraph.mcp.reading import diff_text
from omnigraph.mcp.tools import (
    KEY,
    MESSAGE,
    NAME,
    OWN_BRANCH,
    PARAMS,
    QUERY,
    Argument,
    Tool,
)

_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_TASK: Final = 40
_TOLD_CONFLICTS: Final = 10


def _name_of(task: str) -> str:
    """Return what the branch of a task is called; letters that are lost stay in a digest.

    >>> _name_of("Tidy up!"), _name_of("片付け")
    ('tidy-up', 'task-5a6aa2')
    """
    words = " ".join(task.lower().split())
    kept = _NO_WORD.sub("-", words).strip("-")
    name = kept[:_LONGEST_TASK].strip("-") or "task"
    if len(kept) <= _LONGEST_TASK and all(one.isascii() for one in words if one.isalnum()):
        return name
    return f"{name}-{sha256(words.encode(errors='surrogatepass')).hexdigest()[:6]}"


def start_work(turn: Turn) -> str:
    """Make a branch for a task, or return the one that was made for it before."""
    desk = turn.desk
    name = desk.rules.home + _name_of(turn.given["task"])
    known = name in desk.graph.branches.list()
    if not known:
        desk.graph.branches.create(name, source=turn.text("from") or DEFAULT_BRANCH)
    if desk.remembers:
        desk.current = name
    head = desk.graph.branch(name).snapshot().commit_id
    return json_text({"branch": name, "head": head, "is_new": not known})


def change(turn: Turn) -> str:
    """Run one mutation as one commit, or only compute it."""
    desk, given = turn.desk, turn.given
    branch = desk.own_branch(turn.text("branch"))
    query, name, params = turn.query, turn.text("name"), given.get("params")
    how: dict[str, Any] = (
        {"preview": True}
        if given.get("dry_run")
        else {
            "message": desk.message(turn.text("message")),
            "idempotency_key": desk.key(
                turn.text("key"), "change", branch, query.text, name, params
            ),
            "if_head": turn.text("if_head"),
        }
    )
    done = desk.graph.branch(branch).mutate(query, name, params, **how, **turn.how_to_write)
    return changed_text(done, is_preview=bool(given.get("dry_run")))


def changed_text(done: MutationResult, *, is_preview: bool) -> str:
    """Return what a write did, or would do."""
    told: dict[str, Any] = {
        "branch": done.branch,
        "affected_nodes": done.affected_nodes,
        "affected_edges": done.affected_edges,
    }
    if is_preview:
        return json_text(told | {"dry_run": True, "note": "checked; nothing was written"})
    told["commit"] = done.commit_id
    if done.replayed:
        told |= {"replayed": True, "note": "done before; pass another `key` to do it again"}
    return json_text(told)


def load(turn: Turn) -> str:
    """Load JSON lines as one commit."""
    desk, given = turn.desk, turn.given
    branch = desk.own_branch(turn.text("branch"))
    data, mode = given["data"], turn.text("mode") or "merge"
    done = desk.graph.branch(branch).load(
        data.encode(),
        mode,
        engine="inline",
        message=desk.message(turn.text("message")),
        idempotency_key=desk.key(turn.text("key"), "load", branch, data, mode),
    )
    rows = {one.table_key: one.rows_loaded for one in done.tables}
    told = {"branch": done.branch, "rows": rows, "commit": done.commit_id}
    return json_text(told | ({"replayed": True} if done.replayed else {}))


def propose(turn: Turn) -> str:
    """Say what merging a branch would bring and what is in the way; merge it if that is allowed."""
    desk = turn.desk
    branch = turn.text("branch") or desk.own_branch(None)
    into = turn.text("into") or DEFAULT_BRANCH
    merges = desk.graph.branches
    seen = merges.merge(branch, into, preview=True)
    lines = [*_preview_lines(seen), f"review: omnigraph branch merge {branch} --into {into}"]
    if turn.given.get("merge"):
        if seen.total_conflicts:
            lines.insert(1, "not merged: settle the conflicts first")
        else:
            message = desk.message(turn.text("message") or f"merge {branch}")
            try:
                done = merges.merge(branch, into, message=message)
            except DeniedError as error:
                error.hint = "a person merges it after a review; it stands as it is until then"
                raise
            lines[-1] = f"{done.outcome} into {into}, commit {done.commit_id}"
    else:
        lines += diff_text(turn, branch, into).split("\n")
    return lines_text(lines, turn.budget)


def _preview_lines(seen: MergeResult) -> list[str]:
    tables = ", ".join(
        f"{one.table_key} +{one.inserted} ~{one.updated} -{one.deleted}" for one in seen.tables
    )
    lines = [
        f"{seen.source} into {seen.target}: {seen.outcome}" + (f"; {tables}" if tables else "")
    ]
    if seen.total_conflicts:
        lines.append(f"{seen.total_conflicts} conflicts:")
        lines += [f"  {one}: {one.message}" for one in seen.conflicts[:_TOLD_CONFLICTS]]
    return lines


def writing(*, may_merge: bool) -> tuple[Tool, ...]:
    """Return the tools that write; `propose` only does where something could allow it."""
    into = Argument("into", "string", "main if none is named")
    merge = Argument("merge", "boolean", "merge now, if the policy lets you")
    taken = (OWN_BRANCH, into, *((merge, MESSAGE) if may_merge else ()))
    about = "Show what a branch would bring to main, and conflicts. "
    return (
        Tool(
            "start_work",
            "Make a branch of yours for a task; everything is written there. The same task again "
            "returns the same branch.",
            (
                Argument("task", "string", "a few words", required=True),
                Argument("from", "string", "main if none is named"),
            ),
            start_work,
            writes=True,
        ),
        Tool(
            "change",
            "Run one mutation on your branch: one commit, or nothing. The same call again writes "
            "nothing more.",
            (
                QUERY,
                NAME,
                PARAMS,
                OWN_BRANCH,
                MESSAGE,
                KEY,
                Argument("if_head", "string", "only if the branch is still at this commit"),
                Argument("dry_run", "boolean", "compute and check it, and write nothing"),
            ),
            change,
            writes=True,
            destroys=True,
        ),
        Tool(
            "propose",
            about + ("Merges if asked to and allowed." if may_merge else "A person merges it."),
            taken,
            propose,
            writes=may_merge,
            destroys=may_merge,
        ),
        Tool(
            "load",
            'Load rows into your branch: {"type": …, "data": {…}} a line, edges with from and to.',
            (
                Argument("data", "string", "JSON lines", required=True),
                Argument("mode", "string", "merge replaces rows by id", words=("merge", "append")),
                OWN_BRANCH,
                MESSAGE,
                KEY,
            ),
            load,
            group="more",
            writes=True,
            destroys=True,
        ),
    )
