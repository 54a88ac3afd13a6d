"""What a graph of the soak should hold, in plain dictionaries; shares no code with the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

SCHEMA = """
node P {
  k: String @key
  v: I64 @index
  words: String @index
}

node Q {
  k: String @key
  v: I64
}

edge E: P -> P {
  w: I64 @unique
}
"""

WORDS = ("amber", "birch", "cedar", "delta", "ember")
Args = Mapping[str, Any]
Key = tuple[str, Any]
Rows = Mapping[Key, Any]


class ModelError(AssertionError):
    """A commit did what its operation cannot have been allowed to do."""


def words_of(value: int) -> str:
    """Return the text a node with this value has."""
    return f"{WORDS[value % len(WORDS)]} tree number {value}"


@dataclass
class State:
    """All rows at one commit: values of nodes by key, ends of edges by number."""

    p: dict[str, int] = field(default_factory=dict)
    q: dict[str, int] = field(default_factory=dict)
    e: dict[int, tuple[str, str]] = field(default_factory=dict)

    def apply(self, operation: str, args: Args) -> None:
        """Do what an operation that was committed here must have done.

        Raises:
            ModelError: it should have been refused.
        """
        getattr(self, f"_{operation}")(args)

    def _put(self, args: Args) -> None:
        self.p[args["k"]] = self.q[args["k"]] = args["v"]

    def _migrate(self, args: Args) -> None:
        """Columns came and went that nobody asks for."""

    def _update(self, args: Args) -> None:
        _require(args["k"] in self.p, "updated a node that was not there")
        self.p[args["k"]] = args["v"]

    def _delete(self, args: Args) -> None:
        _require(args["k"] in self.p, "deleted a node that was not there")
        del self.p[args["k"]]
        self.e = {w: ends for w, ends in self.e.items() if args["k"] not in ends}

    def _link(self, args: Args) -> None:
        _require(args["a"] in self.p and args["b"] in self.p, "linked a node that was not there")
        _require(args["w"] not in self.e, "a unique number was given twice")
        self.e[args["w"]] = (args["a"], args["b"])

    def _unlink(self, args: Args) -> None:
        gone = [w for w, (a, _) in self.e.items() if a == args["a"]]
        _require(bool(gone), "deleted edges that were not there")
        for w in gone:
            del self.e[w]

    def _merge(self, args: Args) -> None:
        self.p.update(args["p"])
        for w, a, b in args["e"]:
            self._link({"a": a, "b": b, "w": w})

    def _append(self, args: Args) -> None:
        for k in args["p"]:
            _require(k not in self.p, "appended a key that was there")
        self._merge(args)

    def _overwrite(self, args: Args) -> None:
        self.q = dict(args["q"])

    def answer(self, question: str, args: Args) -> Any:
        """Return what a read must have answered; with `least`, who sees some nodes only."""
        if "least" in args:
            rest = {name: value for name, value in args.items() if name != "least"}
            return self.seen(args["least"]).answer(question, rest)
        match question:
            case "nodes":
                return sorted([k, v] for k, v in self.p.items())
            case "others":
                return sorted([k, v] for k, v in self.q.items())
            case "edges":
                return sorted([a, b, w] for w, (a, b) in self.e.items())
            case "lookup":
                return [[v] for k, v in self.p.items() if k == args["k"]]
            case "above":
                return sorted([k, v] for k, v in self.p.items() if v >= args["v"])
            case "search":
                word = args["word"]
                return sorted([k] for k, v in self.p.items() if words_of(v).startswith(word))
            case "hops":
                firsts = {b for a, b in self.e.values() if a == args["k"]}
                return sorted({b for a, b in self.e.values() if a in firsts})
            case "missing":
                linked = {a for a, _ in self.e.values()}
                return sorted(k for k in self.p if k not in linked)
            case _:
                raise ModelError(f"nobody can ask {question}")

    def seen(self, least: int) -> State:
        """Return what is there for who sees nodes from a value on, and edges between them."""
        found = self.copy()
        found.p = {k: v for k, v in self.p.items() if v >= least}
        found.e = {w: (a, b) for w, (a, b) in self.e.items() if a in found.p and b in found.p}
        return found

    def copy(self) -> State:
        return State(dict(self.p), dict(self.q), dict(self.e))

    def flat(self) -> dict[Key, Any]:
        """Return all rows by table and key, as merges see them."""
        tables: dict[str, dict[Any, Any]] = {"P": self.p, "Q": self.q, "E": self.e}
        return {(name, key): row for name, rows in tables.items() for key, row in rows.items()}

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Return the state that has these rows.

        Raises:
            ModelError: edges would lead from or to nothing.
        """
        p, q, e = ({key: row for (kind, key), row in rows.items() if kind == one} for one in "PQE")
        lost = [w for w, ends in e.items() if not p.keys() >= {*ends}]
        _require(not lost, f"the edges {lost[:5]} have no end")
        return cls(p, q, e)

    def rows(self) -> int:
        """Return how many lines an export has."""
        return len(self.p) + len(self.q) + len(self.e)


def three_way(
    base: Callable[[Key], Any], theirs: Rows, ours: Rows, strategy: str, where: Iterable[Key]
) -> State:
    """Return `ours` with what `theirs` changed since the base, of which one row is asked at a time.

    Raises:
        ModelError: that should have been refused.
    """
    merged = dict(ours)
    for key in sorted(where, key=str):
        mine, here = theirs.get(key), ours.get(key)
        if mine == here:
            continue
        began = base(key)
        if mine == began:
            continue
        if here != began:
            _require(strategy != "fail", f"merged {key}: {began}, {mine} there, {here} here")
            if strategy == "ours":
                continue
        merged.pop(key, None)
        if mine is not None:
            merged[key] = mine
    return State.of(merged)


def _require(condition: bool, wrong: str) -> None:
    if not condition:
        raise ModelError(wrong)
