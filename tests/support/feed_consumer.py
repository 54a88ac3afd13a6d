"""A consumer of a change feed that keeps a copy of the people of a graph in SQLite.

Each group and its cursor are stored in one transaction of SQLite, which is all there is to it. Run
as a program it follows a branch until it is killed.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable

import omnigraph
from tests.support.fast import FAST


def open_copy(path: str) -> sqlite3.Connection:
    copy = sqlite3.connect(path, isolation_level=None, timeout=60)
    copy.execute("create table if not exists person (id text primary key, age int)")
    copy.execute("create table if not exists place (only int primary key, cursor text)")
    copy.execute("create table if not exists told (op text, id text)")
    return copy


def consume(
    graph: omnigraph.Graph,
    path: str,
    *,
    follow: bool = False,
    step: Callable[[], None] = lambda: None,
) -> None:
    """Bring the copy up to the graph; `step` is called wherever the consumer could die."""
    copy = open_copy(path)
    try:
        found = copy.execute("select cursor from place").fetchone()
        since = None if found is None else found[0]
        step()
        for group in graph.changes(since=since, max_rows=2, follow=follow):
            step()
            copy.execute("begin immediate")
            for change in group.changes:
                copy.execute("insert into told values (?, ?)", (change.op, change.id))
                if change.op == "insert":  # fails if it is told twice
                    row = (change.id, change.after["age"])
                    copy.execute("insert into person values (?, ?)", row)
                elif change.op == "update":
                    row = (change.after["age"], change.id)
                    assert copy.execute("update person set age = ? where id = ?", row).rowcount == 1
                else:
                    gone = copy.execute("delete from person where id = ?", (change.id,))
                    assert gone.rowcount == 1
                step()
            copy.execute("insert or replace into place values (1, ?)", (group.cursor,))
            step()
            copy.execute("commit")
            step()
    finally:
        copy.close()  # what was not committed never was


def people_in(path: str) -> dict[str, int]:
    copy = open_copy(path)
    try:
        return dict(copy.execute("select id, age from person").fetchall())
    finally:
        copy.close()


if __name__ == "__main__":
    with omnigraph.connect(sys.argv[1], read_only=True, options=FAST) as followed:
        consume(followed, sys.argv[2], follow=True)
