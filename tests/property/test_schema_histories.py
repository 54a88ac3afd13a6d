"""Random histories of schemas and rows on two branches, beside a model of plain dictionaries.

The model knows who is who by numbers of its own and migrates dictionaries; it merges schemas part
by part and rows whole, by the book. Everything is compared after every step, the past at the end.
"""

from __future__ import annotations

import copy
import itertools
import random
from typing import Any

import pytest

import omnigraph
from omnigraph.api.merges import MergeConflictError
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.graph import Graph
from tests.support.fast import FAST

Part = dict[str, Any]
STEPS = 14
GONE = object()


def a_property(name: str) -> Part:
    """A property that rows may lack."""
    return {"name": name, "type": "I32", "nullable": True, "indexed": False, "default": None}


class State:
    """A schema and its rows: types and properties by number, rows by key."""

    def __init__(self) -> None:
        self.types: dict[int, Part] = {}
        """name, props: number to {name, type, nullable, indexed, default}"""
        self.rows: dict[int, dict[str, dict[int, Any]]] = {}

    def text(self, old: State | None = None) -> str:
        """The schema as a text that says what was called otherwise in `old`."""
        return "\n".join(self._type(number, old) for number in sorted(self.types))

    def _type(self, number: int, old: State | None) -> str:
        one = self.types[number]
        was = None if old is None else old.types.get(number)
        lines = ["  key: String @key"]
        for prop_number, prop in one["props"].items():
            before = None if was is None else was["props"].get(prop_number)
            words = [f"  {prop['name']}: {prop['type']}{'?' if prop['nullable'] else ''}"]
            words += [] if prop["default"] is None else [f"@default({prop['default']})"]
            words += ["@index"] if prop["indexed"] else []
            if before is not None and before["name"] != prop["name"]:
                words.append(f'@rename_from("{before["name"]}")')
            lines.append(" ".join(words))
        hint = (
            "" if was is None or was["name"] == one["name"] else f' @rename_from("{was["name"]}")'
        )
        return f"node {one['name']}{hint} {{\n" + "\n".join(lines) + "\n}"

    def shown(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Rows by names, as the graph shows them."""
        return {
            one["name"]: {
                key: {prop["name"]: row.get(at) for at, prop in one["props"].items()}
                for key, row in self.rows[number].items()
            }
            for number, one in self.types.items()
        }


class ClashError(Exception):
    """The sides do not go together."""


def agreed(base: Any, mine: Any, here: Any) -> Any:
    """One part of three states."""
    if mine in (here, base):
        return here
    if here == base:
        return mine
    raise ClashError


def merged(base: State, mine: State, here: State) -> State:
    """What a merge of `mine` into `here` gives, by the book."""
    found = State()
    for number in {**here.types, **mine.types}:
        sides = [state.types.get(number) for state in (base, mine, here)]
        if None in sides[1:]:
            there = sides[1] or sides[2]
            if sides[0] is None:
                found.types[number] = copy.deepcopy(there)
            elif there != sides[0]:
                raise ClashError
            elif (mine if sides[2] is None else here).rows[number] != {
                key: row
                for key, row in base.rows[number].items()
                if key in (mine if sides[2] is None else here).rows[number]
            }:
                raise ClashError  # rows that would be lost
            continue
        props = {}
        began, theirs, ours = ({} if one is None else one["props"] for one in sides)
        for at in {**ours, **theirs}:
            three = [began.get(at), theirs.get(at), ours.get(at)]
            if None in three:
                kept = agreed(*map(_without_old_index, three, [three[0]] * 3))
                if kept is not None:
                    props[at] = kept
                elif three[0] is not None:
                    _refuse_lost(base, mine if three[2] is None else here, number, at)
                continue
            props[at] = {name: agreed(*(one[name] for one in three)) for name in three[0]}
        was = GONE if sides[0] is None else sides[0]["name"]
        name = agreed(was, sides[1]["name"], sides[2]["name"])
        found.types[number] = {"name": name, "props": props}
    _refuse_equal_names(found)
    for number, one in found.types.items():
        found.rows[number] = _rows(number, one, base, mine, here)
    return found


def _without_old_index(part: Part | None, base: Part | None) -> Part | None:
    """An index that is gone with its property was nobody's change of the property."""
    if part is None or base is None:
        return part
    return part | {"indexed": part["indexed"] and not base["indexed"]}


def _refuse_lost(base: State, side: State, number: int, at: int) -> None:
    for key, row in side.rows[number].items():
        value = row.get(at)
        if value is not None and value != base.rows[number].get(key, {}).get(at):
            raise ClashError


def _refuse_equal_names(found: State) -> None:
    names = [one["name"] for one in found.types.values()]
    if len(set(names)) != len(names):
        raise ClashError
    for one in found.types.values():
        names = [prop["name"] for prop in one["props"].values()]
        if len(set(names)) != len(names):
            raise ClashError


def _rows(
    number: int, one: Part, base: State, mine: State, here: State
) -> dict[str, dict[int, Any]]:
    def images(state: State) -> dict[str, dict[int, Any]]:
        rows = state.rows.get(number, {})
        known = state.types[number]["props"] if number in state.types else {}
        return {
            key: {at: row[at] if at in known else _missing(one["props"][at]) for at in one["props"]}
            for key, row in rows.items()
        }

    was, theirs, ours = images(base), images(mine), images(here)
    found = {}
    for key in {**ours, **theirs}:
        row = agreed(was.get(key), theirs.get(key), ours.get(key))
        if row is not None:
            found[key] = row
    return found


def _missing(prop: Part) -> int | None:
    """What a property is on a side that knows nothing of it."""
    return None if prop["nullable"] else prop["default"]


class Play:
    """One graph and its model, changed side by side."""

    def __init__(self, graph: Graph, seed: int, first: State) -> None:
        self.graph, self.dice = graph, random.Random(seed)
        self.numbers = itertools.count(100)
        self.states = {"main": first, "dev": copy.deepcopy(first)}
        self.base = copy.deepcopy(first)
        self.past: list[tuple[str, State]] = []
        graph.branches.create("dev")

    def step(self) -> None:
        branch = self.dice.choice(["main", "dev"])
        (self.write, self.write, self.migrate, self.migrate, self.merge)[self.dice.randrange(5)](
            branch
        )
        for name in self.states:
            self.compare(name)

    def compare(self, branch: str, at: str | None = None, state: State | None = None) -> None:
        state = state or self.states[branch]
        taken = self.graph._state.snapshot(branch, at)
        found = {
            str(key).removeprefix("node:"): {
                row.pop("id"): {name: value for name, value in row.items() if name != "key"}
                for row in taken.open(key).scan().to_pylist()
            }
            for key in taken.tables
        }
        for kind in self.graph._state.catalog(taken).nodes.values():
            assert taken.open(kind.table_key).schema.names == arrow_schema(kind).names
        assert found == state.shown()
        view = self.graph.branch(branch) if at is None else self.graph.at(at, branch=branch)
        assert set(view.catalog.nodes) == {one["name"] for one in state.types.values()}
        for one in state.types.values():  # and by a query, through images
            names = [prop["name"] for prop in one["props"].values()]
            shown = ", ".join(f"$n.{name} as {name}" for name in ("key", *names))
            rows = view.query(f"query q() {{ match {{ $n: {one['name']} }} return {{ {shown} }} }}")
            expected = state.shown()[one["name"]]
            assert {row.pop("key"): row for row in rows.to_dicts()} == expected

    def write(self, branch: str) -> None:
        state = self.states[branch]
        if not state.types:
            return
        number = self.dice.choice(sorted(state.types))
        one, rows = state.types[number], state.rows[number]
        key = self.dice.choice("abcd")
        if key in rows and self.dice.random() < 0.3:
            text = f'delete {one["name"]} where key = "{key}"'
            del rows[key]
        else:
            chosen = {
                at: self.dice.randrange(3)
                for at, prop in one["props"].items()
                if (not prop["nullable"] and prop["default"] is None) or self.dice.random() < 0.6
            }
            words = [f"{one['props'][at]['name']}: {value}" for at, value in chosen.items()]
            text = f"insert {one['name']} {{ " + ", ".join([f'key: "{key}"', *words]) + " }"
            rows[key] = {at: chosen.get(at, prop["default"]) for at, prop in one["props"].items()}
        done = self.graph.mutate(f"query q() {{ {text} }}", branch=branch)
        self.note(branch, done.commit_id)

    def note(self, branch: str, commit: str | None) -> None:
        if commit is not None:
            self.past.append((commit, copy.deepcopy(self.states[branch])))

    def migrate(self, branch: str) -> None:
        before = self.states[branch]
        after = copy.deepcopy(before)
        for _ in range(self.dice.randint(1, 3)):
            self.change(after, before)
        if not after.types:
            return
        try:
            _refuse_equal_names(after)
        except ClashError:
            return
        if any(self._takes_a_name(before, after)):
            return
        for number, one in after.types.items():
            was = before.types.get(number, {"props": {}})["props"]
            for at, prop in one["props"].items():
                if at not in was:  # it may have been relaxed since it was thought of
                    for row in after.rows[number].values():
                        row[at] = _missing(prop)
        done = self.graph.apply_schema(after.text(before), branch=branch, allow_data_loss=True)
        assert done.applied == (before.types != after.types)
        self.states[branch] = after
        self.note(branch, done.graph_commit_id)

    @staticmethod
    def _takes_a_name(before: State, after: State) -> Any:
        """A text cannot say that a name is another's now: the same name is the same thing."""
        for number, one in after.types.items():
            yield one["name"] in {b["name"] for n, b in before.types.items() if n != number}
            was = before.types.get(number, {"props": {}})["props"]
            for at, prop in one["props"].items():
                yield prop["name"] in {b["name"] for n, b in was.items() if n != at}

    def change(self, state: State, before: State) -> None:  # noqa: C901 - a list of changes
        dice, types = self.dice, state.types
        kind = dice.randrange(8)
        if kind == 0 or not types:
            number = next(self.numbers)
            types[number] = {"name": f"T{dice.randrange(30)}", "props": {}}
            state.rows[number] = {}
            return
        number = dice.choice(sorted(types))
        one = types[number]
        if kind == 1:
            one["name"] = f"T{dice.randrange(30)}"
            return
        if kind == 2 and len(types) > 1:
            del types[number], state.rows[number]
            return
        if kind in (3, 4) or not one["props"]:
            at = next(self.numbers)
            prop = a_property(f"p{dice.randrange(30)}")
            if dice.random() < 0.4:
                prop |= {"nullable": False, "default": dice.randrange(3)}
            one["props"][at] = prop
            for row in state.rows[number].values():
                row[at] = _missing(prop)
            return
        at = dice.choice(sorted(one["props"]))
        prop = one["props"][at]
        rows = state.rows[number].values()
        match kind:
            case 5:
                prop["name"] = f"p{dice.randrange(30)}"
                if dice.random() < 0.5:
                    prop["type"] = "I64"
            case 6:
                del one["props"][at]
                for row in rows:
                    row.pop(at, None)
            case _:
                was = before.types.get(number, {"props": {}})["props"]
                filled = all(row.get(at) is not None for row in rows)
                if prop["nullable"] and filled and (at in was or not before.types.get(number)):
                    prop["nullable"] = False
                elif dice.random() < 0.5:
                    prop["nullable"] = True
                else:
                    prop["indexed"] = not prop["indexed"]

    def merge(self, target: str) -> None:
        source = "dev" if target == "main" else "main"
        try:
            expected = merged(self.base, self.states[source], self.states[target])
            for number, one in expected.types.items():
                for at, prop in one["props"].items():
                    if not prop["nullable"]:
                        rows = expected.rows[number].values()
                        if any(row[at] is None for row in rows):
                            raise ClashError
        except ClashError:
            before = self.graph.snapshot(target)
            tried = self.graph.branches.merge(source, into=target, preview=True)
            assert tried.conflicts
            with pytest.raises(MergeConflictError):
                self.graph.branches.merge(source, into=target)
            assert self.graph.snapshot(target) == before
            return
        tried = self.graph.branches.merge(source, into=target, preview=True)
        assert tried.conflicts == ()
        done = self.graph.branches.merge(source, into=target)
        if done.outcome == "already_up_to_date":
            assert expected.shown() == self.states[target].shown()
            return
        self.states[target] = expected
        self.base = copy.deepcopy(self.states[source])
        self.note(target, done.commit_id)


@pytest.mark.property
@pytest.mark.parametrize(
    "seed",
    [
        *range(8),
        *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(8, 200)),
    ],
)
def test_a_random_history_is_what_the_model_says(seed, tmp_path):
    first = State()
    first.types[1] = {"name": "A", "props": {2: a_property("x")}}
    first.rows[1] = {}
    with omnigraph.init(tmp_path / "g", first.text(), options=FAST) as graph:
        play = Play(graph, seed, first)
        for _ in range(STEPS):
            play.step()
        for commit, state in play.past[:: max(len(play.past) // 6, 1)]:
            branch = graph.commits.get(commit).manifest_branch or "main"
            play.compare(branch, commit, state)
        assert not [found for found in graph.verify() if not found.harmless]
    with omnigraph.connect(tmp_path / "g", options=FAST) as graph:
        play.graph = graph
        for branch in play.states:
            play.compare(branch)
