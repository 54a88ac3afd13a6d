"""Random mutations give the same graph, the same counts and the same refusals as a plain model."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.engine.write.violations import ConstraintError
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  age: I32?
  email: String? @unique

  @range(age, 0..99)
}

node Company {
  name: String @key
}

edge Knows: Person -> Person {
  weight: I32?
}

edge WorksAt: Person -> Company @card(0..1)

edge Backs: Person -> Company @card(2..3)
"""

names = st.sampled_from(["ann", "bob", "cat", "dan"])
firms = st.sampled_from(["acme", "globex"])
ages = st.none() | st.integers(-1, 101)
emails = st.sampled_from([None, "a@x", "b@x"])


@dataclass
class Model:
    """The graph as dicts and lists, and its rules as loops."""

    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    firms: set[str] = field(default_factory=set)
    knows: list[tuple[str, str, int | None]] = field(default_factory=list)
    works: list[tuple[str, str]] = field(default_factory=list)
    backs: list[tuple[str, str]] = field(default_factory=list)

    def state(self) -> tuple[Any, ...]:
        people = sorted((n, p["age"], p["email"]) for n, p in self.people.items())
        knows = sorted(self.knows, key=repr)
        return people, sorted(self.firms), knows, sorted(self.works), sorted(self.backs)


@dataclass
class Effect:
    """What one query did to a model: counts, rows it touched, rules it broke."""

    nodes: int = 0
    edges: int = 0
    touched: set[str] = field(default_factory=set)
    new_knows: list[tuple[str, str]] = field(default_factory=list)
    new_works: list[tuple[str, str]] = field(default_factory=list)
    new_backs: list[tuple[str, str]] = field(default_factory=list)
    backers: set[str] = field(default_factory=set)
    """Who got or lost a `Backs`."""


def run_model(model: Model, statements: list[tuple[Any, ...]]) -> Effect:
    effect = Effect()
    for kind, *args in statements:
        STEPS[kind](model, effect, *args)
    return effect


def insert_person(model, effect, name, age, email):
    model.people[name] = {"age": age, "email": email}
    effect.nodes += 1
    effect.touched.add(name)


def insert_firm(model, effect, name):
    model.firms.add(name)
    effect.nodes += 1


def insert_knows(model, effect, a, b, weight):
    model.knows.append((a, b, weight))
    effect.new_knows.append((a, b))
    effect.edges += 1


def insert_works(model, effect, a, firm):
    model.works.append((a, firm))
    effect.new_works.append((a, firm))
    effect.edges += 1


def insert_backs(model, effect, a, first, second):
    for firm in (first, second):
        model.backs.append((a, firm))
        effect.new_backs.append((a, firm))
    effect.backers.add(a)
    effect.edges += 2


def update_by_name(model, effect, name, age):
    if name in model.people:
        model.people[name]["age"] = age
        effect.nodes += 1
        effect.touched.add(name)


def update_older(model, effect, least, age, email):
    for name, person in model.people.items():
        if person["age"] is not None and person["age"] > least:
            person.update(age=age, email=email)
            effect.nodes += 1
            effect.touched.add(name)


def update_knows(model, effect, a, weight):
    hits = [edge for edge in model.knows if edge[0] == a]
    model.knows = [(x, y, weight) if x == a else (x, y, w) for x, y, w in model.knows]
    effect.edges += len(hits)


def delete_person(model, effect, name):
    gone = {name} & set(model.people)
    _drop(model, effect, gone)


def delete_older(model, effect, least):
    _drop(
        model,
        effect,
        {n for n, p in model.people.items() if p["age"] is not None and p["age"] > least},
    )


def delete_firm(model, effect, name):
    if name not in model.firms:
        return
    before = len(model.works) + len(model.backs)
    effect.backers |= {a for a, firm in model.backs if firm == name}
    model.firms.remove(name)
    model.works = [e for e in model.works if e[1] != name]
    model.backs = [e for e in model.backs if e[1] != name]
    effect.nodes += 1
    effect.edges += before - len(model.works) - len(model.backs)


def delete_backs(model, effect, a, firm):
    gone = [e for e in model.backs if e == (a, firm)]
    model.backs = [e for e in model.backs if e != (a, firm)]
    effect.backers |= {a for a, _ in gone}
    effect.edges += len(gone)


def _drop(model, effect, gone):
    before = len(model.knows) + len(model.works) + len(model.backs)
    model.people = {n: p for n, p in model.people.items() if n not in gone}
    model.knows = [e for e in model.knows if e[0] not in gone and e[1] not in gone]
    model.works = [e for e in model.works if e[0] not in gone]
    model.backs = [e for e in model.backs if e[0] not in gone]
    effect.nodes += len(gone)
    effect.edges += before - len(model.knows) - len(model.works) - len(model.backs)


def delete_knows(model, effect, a):
    before = len(model.knows)
    model.knows = [e for e in model.knows if e[0] != a]
    effect.edges += before - len(model.knows)


STEPS = {
    "insert_person": insert_person,
    "insert_firm": insert_firm,
    "insert_knows": insert_knows,
    "insert_works": insert_works,
    "insert_backs": insert_backs,
    "update_by_name": update_by_name,
    "update_older": update_older,
    "update_knows": update_knows,
    "delete_person": delete_person,
    "delete_older": delete_older,
    "delete_knows": delete_knows,
    "delete_firm": delete_firm,
    "delete_backs": delete_backs,
}


def broken_rules(model: Model, effect: Effect) -> list[str]:
    """Return the rules the touched rows break, sorted."""
    broken = []
    for name in effect.touched & set(model.people):
        age = model.people[name]["age"]
        if age is not None and not 0 <= age <= 99:
            broken.append("range")
    by_email: dict[str, list[str]] = {}
    for name, person in model.people.items():
        if person["email"] is not None:
            by_email.setdefault(person["email"], []).append(name)
    for sharing in by_email.values():
        mine = [name for name in sharing if name in effect.touched]
        others = len(sharing) - len(mine)
        # Of the new rows all but the first repeat it; each also meets a row that stays.
        broken += ["unique"] * (max(len(mine) - 1, 0) + (len(mine) if others else 0))
    for a, b in effect.new_knows:
        broken += ["endpoint"] * ((a not in model.people) + (b not in model.people))
    for a, firm in effect.new_works + effect.new_backs:
        broken += ["endpoint"] * ((a not in model.people) + (firm not in model.firms))
    for a in {a for a, _ in effect.new_works}:
        if sum(1 for x, _ in model.works if x == a) > 1:
            broken.append("cardinality")
    deleted = effect.backers - set(model.people) - {a for a, _ in effect.new_backs}
    for a in effect.backers - deleted:
        if not 2 <= sum(1 for x, _ in model.backs if x == a) <= 3:
            broken.append("cardinality")
    return sorted(broken)


def text_of(statements: list[tuple[Any, ...]]) -> tuple[str, dict[str, Any]]:
    """Return the query that means the statements; values travel as parameters."""
    params: dict[str, Any] = {}
    numbers = itertools.count()

    def put(value: Any) -> str:
        name = f"p{next(numbers)}"
        params[name] = value
        return f"${name}"

    lines = []
    for kind, *args in statements:
        v = [put(arg) for arg in args]
        lines.append(
            {
                "insert_person": "insert Person {{ name: {0}, age: {1}, email: {2} }}",
                "insert_firm": "insert Company {{ name: {0} }}",
                "insert_knows": "insert Knows {{ from: {0}, to: {1}, weight: {2} }}",
                "insert_works": "insert WorksAt {{ from: {0}, to: {1} }}",
                "insert_backs": "insert Backs {{ from: {0}, to: {1} }} "
                "insert Backs {{ from: {0}, to: {2} }}",
                "update_by_name": "update Person set {{ age: {1} }} where name = {0}",
                "update_older": "update Person set {{ age: {1}, email: {2} }} where age > {0}",
                "update_knows": "update Knows set {{ weight: {1} }} where from = {0}",
                "delete_person": "delete Person where name = {0}",
                "delete_older": "delete Person where age > {0}",
                "delete_knows": "delete Knows where from = {0}",
                "delete_firm": "delete Company where name = {0}",
                "delete_backs": "delete Backs where from = {0} and to = {1}",
            }[kind].format(*v)
        )
    kinds = {str: "String", int: "I64", type(None): "I64?"}
    declared = ", ".join(f"${n}: {_declared(n, v, lines, kinds)}" for n, v in params.items())
    return f"query m({declared}) {{ {' '.join(lines)} }}", params


def _declared(name: str, value: Any, lines: list[str], kinds: dict[type, str]) -> str:
    if value is None and any(f"email: ${name} " in line for line in lines):
        return "String?"
    return kinds[type(value)]


constructive = st.lists(
    st.one_of(
        st.tuples(st.just("insert_person"), names, ages, emails),
        st.tuples(st.just("insert_firm"), firms),
        st.tuples(st.just("insert_knows"), names, names, st.none() | st.integers(0, 5)),
        st.tuples(st.just("insert_works"), names, firms),
        st.tuples(st.just("insert_backs"), names, firms, firms),
        st.tuples(st.just("update_by_name"), names, ages),
        st.tuples(st.just("update_older"), st.integers(0, 60), ages, emails),
        st.tuples(st.just("update_knows"), names, st.none() | st.integers(0, 5)),
    ),
    min_size=1,
    max_size=4,
)
destructive = st.lists(
    st.one_of(
        st.tuples(st.just("delete_person"), names),
        st.tuples(st.just("delete_older"), st.integers(0, 60)),
        st.tuples(st.just("delete_knows"), names),
        st.tuples(st.just("delete_firm"), firms),
        st.tuples(st.just("delete_backs"), names, firms),
    ),
    min_size=1,
    max_size=3,
)
sound_start = [
    ("insert_person", "ann", 30, "a@x"),
    ("insert_person", "bob", None, None),
    ("insert_firm", "acme"),
    ("insert_knows", "ann", "bob", 1),
    ("insert_works", "ann", "acme"),
    ("insert_firm", "globex"),
    ("insert_backs", "ann", "acme", "globex"),
    ("insert_backs", "bob", "globex", "globex"),
]


def stored(graph) -> tuple[Any, ...]:
    def rows(text, *columns):
        found = graph.query(f"query q() {{ match {{ {text} }} return {{ {', '.join(columns)} }} }}")
        return [tuple(row.values()) for row in found]

    return (
        sorted(rows("$p: Person", "$p.name", "$p.age", "$p.email"), key=repr),
        sorted(name for (name,) in rows("$c: Company", "$c.name")),
        sorted(rows("$a $k:knows $b", "$a", "$b", "$k.weight as w"), key=repr),
        sorted(rows("$a $w:worksAt $b", "$a", "$b")),
        sorted(rows("$a $w:backs $b", "$a", "$b")),
    )


@pytest.mark.property
@settings(max_examples=25)
@given(st.lists(constructive | destructive, max_size=6))
def test_engine_and_model_agree_after_every_query(tmp_path_factory, queries):
    where = str(tmp_path_factory.mktemp("graph") / "g.omni")
    model = Model()
    with omnigraph.init(where, SCHEMA, options=FAST) as graph:
        for statements in [sound_start, *queries]:
            text, params = text_of(statements)
            trial = copy.deepcopy(model)
            effect = run_model(trial, statements)
            broken = broken_rules(trial, effect)
            if broken:
                with pytest.raises(ConstraintError) as caught:
                    graph.mutate(text, params=params)
                found = sorted(str(one.rule) for one in caught.value.violations)
                assert set(found) == set(broken), (statements, found, broken)
            else:
                result = graph.mutate(text, params=params)
                model = trial
                assert (result.affected_nodes, result.affected_edges) == (
                    effect.nodes,
                    effect.edges,
                )
            people, *rest = model.state()
            assert stored(graph) == (sorted(people, key=repr), *rest)
    with omnigraph.connect(where, options=FAST) as again:
        people, *rest = model.state()
        assert stored(again) == (sorted(people, key=repr), *rest)
