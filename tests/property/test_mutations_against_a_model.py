"""Random mutations give the same graph, counts and violations as a plain model."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.engine.write.violations import MAX_REPORTED, ConstraintError
from omnigraph.errors import BadRequestError, CompileError
from tests.support.fast import FAST
from tests.support.mutation_model import Model, Statement, Told, Type, query_text, run

SCHEMA = """node Company {
  name: String @key
}

node Memo {
  text: String @unique
  stars: I32?
}

node Person {
  name: String @key
  city: String
  age: I32?
  email: String? @unique
  level: enum(junior, senior)?
  score: F32?
  mass: F64?
  first: String?

  @range(age, 0..99)
  @range(score, 0.0..1.5)
  @check(email, "@")
  @unique(first, age)
}

node Slot {
  room: String
  hour: I32
  note: String?

  @key(room, hour)
}

edge Backs: Person -> Company @card(2..3) {
  weight: I32?
}

edge Knows: Person -> Person {
  weight: I32?
  tone: enum(loud, soft)?

  @unique(src, dst)
}

edge WorksAt: Person -> Company @card(0..1)
"""
TYPES = {
    "Company": Type({"name": "String"}, key=("name",), required=frozenset({"name"})),
    "Memo": Type(
        {"text": "String", "stars": "I32"}, required=frozenset({"text"}), unique=(("text",),)
    ),
    "Person": Type(
        {
            "name": "String",
            "city": "String",
            "age": "I32",
            "email": "String",
            "level": "String",
            "score": "F32",
            "mass": "F64",
            "first": "String",
        },
        key=("name",),
        required=frozenset({"name", "city"}),
        enums={"level": ("junior", "senior")},
        ranges=(("age", 0, 99), ("score", 0.0, 1.5)),
        checks=(("email", "@"),),
        unique=(("age", "first"), ("email",)),
    ),
    "Slot": Type(
        {"room": "String", "hour": "I32", "note": "String"},
        key=("room", "hour"),
        required=frozenset({"room", "hour"}),
    ),
    "Backs": Type({"weight": "I32"}, ends=("Person", "Company"), card=(2, 3)),
    "Knows": Type(
        {"weight": "I32", "tone": "String"},
        enums={"tone": ("loud", "soft")},
        unique=(("dst", "src"),),
        ends=("Person", "Person"),
    ),
    "WorksAt": Type({}, ends=("Person", "Company"), card=(0, 1)),
}


def mostly(usual: st.SearchStrategy[Any], *odd: Any) -> st.SearchStrategy[Any]:
    """Draw odd values rarely: a query that breaks one rule tells more than one that breaks ten."""
    return st.integers(0, 11).flatmap(lambda n: st.sampled_from(odd) if n == 0 else usual)


names = mostly(st.sampled_from(["ann", "bob", "cat", "dan"]), None, "")
firms = st.sampled_from(["acme", "globex"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "city": mostly(st.sampled_from(["rome", "oslo", ""]), None),
    "age": mostly(st.none() | st.sampled_from([0, 1, 40, 99, 7.0]), -1, 100, 2**31, -(2**40), 1.5),
    "email": mostly(st.sampled_from([None, "a@x", "b@x", "c@x"]), "bad", ""),
    "level": mostly(st.sampled_from([None, "junior", "senior"]), "boss", ""),
    "score": mostly(st.sampled_from([None, 0.1, 1, 1.5, -0.0]), 1e300, -1e-9, 1.6, 2**24 + 1),
    "mass": mostly(st.sampled_from([None, 0.1, 2**53, -(2**60), 1e300]), 2**53 + 1, 2**62 + 1),
    "first": st.sampled_from([None, "f", "g"]),
    "weight": mostly(st.none() | st.integers(0, 5), 2**31),
    "tone": mostly(st.sampled_from([None, "loud", "soft"]), "shrill"),
    "stars": mostly(st.none() | st.integers(0, 5), 0.5),
    "text": mostly(st.sampled_from(["t", "u", "v"]), None),
    "note": st.sampled_from([None, "n"]),
}


def some_of(*props: str) -> st.SearchStrategy[dict[str, Any]]:
    """Draw values for some of the properties."""
    return st.fixed_dictionaries({}, optional={name: VALUES[name] for name in props})


def inserts(
    name: str, needed: dict[str, st.SearchStrategy[Any]], *others: str
) -> st.SearchStrategy[Statement]:
    values = st.builds(dict.__or__, st.fixed_dictionaries(needed), some_of(*others))
    return st.builds(Statement, st.just("insert"), st.just(name), values)


def one(column: str, op: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values.map(lambda value: ((column, op, value),))


people = st.one_of(
    one("name", "=", st.sampled_from(["ann", "bob", "cat", "dan"])),
    one("age", ">", st.integers(0, 60)),
    one("city", "=", st.sampled_from(["rome", "oslo"])),
    st.just((("age", ">", 0), ("city", "=", "rome"))),
)
ends = {"from": names, "to": names}
to_firm = {"from": names, "to": firms}
OF_PERSON = ("age", "email", "level", "score", "mass", "first")


def updates(name: str, where: st.SearchStrategy[Any], *props: str) -> st.SearchStrategy[Statement]:
    return st.builds(
        Statement, st.just("update"), st.just(name), some_of(*props).filter(bool), where
    )


whole_person = {"name": names, "city": VALUES["city"], **{name: VALUES[name] for name in OF_PERSON}}
one_statement = st.one_of(
    inserts("Person", whole_person),
    inserts("Person", {"name": names, "city": VALUES["city"]}, *OF_PERSON),
    inserts("Company", {"name": firms}),
    inserts("Memo", {"text": VALUES["text"]}, "stars"),
    inserts("Slot", {"room": names, "hour": st.sampled_from([1, 2, 2.0])}, "note"),
    inserts("Knows", ends, "weight", "tone"),
    inserts("WorksAt", to_firm),
    inserts("Backs", to_firm),
    updates("Person", people, "city", *OF_PERSON),
    updates("Person", one("city", "=", st.just("rome")), "first", "email"),
    updates("Knows", one("from", "=", st.sampled_from(["ann", "bob"])), "weight", "tone"),
    updates("Backs", one("from", "=", st.sampled_from(["ann", "bob"])), "weight"),
    updates("Memo", one("text", "=", st.sampled_from(["t", "u"])), "text", "stars"),
).map(lambda statement: [statement])
# Whoever backs a firm must back two at once, so that most queries with backers are sound.
two_backings = inserts("Backs", to_firm).map(lambda statement: [statement, statement])
constructive = st.lists(one_statement | two_backings, min_size=1, max_size=5).map(
    lambda groups: list(itertools.chain.from_iterable(groups))
)
DELETES: dict[str, st.SearchStrategy[Any]] = {
    "Person": people,
    "Company": one("name", "=", firms),
    "Memo": one("text", "=", st.sampled_from(["t", "u"])),
    "Slot": one("room", "=", st.sampled_from(["ann", "bob"])),
    "Knows": one("from", "=", st.sampled_from(["ann", "bob"])),
    "WorksAt": one("from", "=", st.sampled_from(["ann", "bob"])),
    "Backs": st.one_of(
        one("from", "=", st.sampled_from(["ann", "bob"])),
        st.builds(
            lambda name, firm: (("from", "=", name), ("to", "=", firm)),
            st.sampled_from(["ann", "bob"]),
            firms,
        ),
    ),
}
destructive = st.lists(
    st.one_of(
        *(
            st.builds(Statement, st.just("delete"), st.just(name), st.just({}), where)
            for name, where in DELETES.items()
        )
    ),
    min_size=1,
    max_size=4,
)


def add(name: str, /, **values: Any) -> Statement:
    words = {"src": "from", "dst": "to"}
    return Statement("insert", name, {words.get(k, k): v for k, v in values.items()})


SOUND_START = [
    add("Person", name="ann", city="rome", age=30, email="a@x", first="f"),
    add("Person", name="bob", city="oslo"),
    add("Company", name="acme"),
    add("Company", name="globex"),
    add("Memo", text="t", stars=1),
    add("Knows", src="ann", dst="bob", weight=1),
    add("WorksAt", src="ann", dst="acme"),
    add("Backs", src="ann", dst="acme"),
    add("Backs", src="ann", dst="globex"),
    add("Backs", src="ann", dst="globex"),
    add("Backs", src="bob", dst="globex"),
    add("Backs", src="bob", dst="globex"),
]


def change(name: str, where: Any, /, **values: Any) -> Statement:
    return Statement("update", name, values, (where,))


def drop(name: str, *where: Any) -> Statement:
    return Statement("delete", name, where=where)


ANN = ("name", "=", "ann")
FROM_ANN = ("from", "=", "ann")
SCENARIOS = {
    "the statement that takes the edge too many": [
        drop("Backs", FROM_ANN, ("to", "=", "acme")),
        drop("Company", ("name", "=", "globex")),
    ],
    "all edges in one statement, the node in the next": [
        drop("Backs", FROM_ANN),
        drop("Person", ANN),
    ],
    "the statement that adds the edge too many": [
        add("Backs", src="bob", dst="acme"),
        add("Backs", src="bob", dst="globex"),
    ],
    "an update of an edge is not blamed for one too many": [
        change("Backs", ("from", "=", "bob"), weight=2),
        *[add("Backs", src="bob", dst="acme")] * 3,
        change("Backs", ("from", "=", "bob"), weight=3),
    ],
    "the value of an earlier statement, the row of a later one": [
        change("Person", ANN, age=100),
        change("Person", ANN, city="oslo"),
    ],
    "a later statement that makes good": [
        change("Person", ANN, age=100, city=None),
        change("Person", ANN, age=1, city="oslo"),
    ],
    "one value for many rows": [change("Person", ("city", "=", "rome"), email="b@x")] * 2,
    "values that repeat among themselves and are taken": [
        add("Person", name="cat", city="x", email="a@x", age=30, first="f"),
        add("Person", name="dan", city="x", email="a@x", age=30, first="f"),
    ],
    "unique values that are swapped": [
        add("Person", name="bob", city="x", email="a@x"),
        add("Person", name="ann", city="x", email="b@x"),
    ],
    "an end of a node that was refused": [
        add("Person", name="cat", city="x", age=2**31),
        add("Knows", src="ann", dst="cat"),
        add("Person", name="dan", city="x", score=1.6, level="boss"),
    ],
    "integers that a float would round": [
        add("Person", name="cat", city="x", mass=2**53 + 1, score=2**24 + 1),
        add("Person", name="dan", city="x", mass=2**60, score=1),
        change("Person", ANN, mass=-(2**53) - 1),
    ],
    "nulls where a key or an end belongs": [
        add("Slot", room=None, hour=None),
        add("Knows", src=None, dst=None, weight=2**31),
    ],
    "a node and its edges named by several statements": [
        drop("Knows", FROM_ANN),
        drop("Person", ANN),
        drop("Person", ("age", ">", 1)),
    ],
}


def stored(graph: omnigraph.Graph) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every type, without the ids nobody can foresee."""

    def rows(match: str, columns: list[str]) -> list[tuple[Any, ...]]:
        text = f"query q() {{ match {{ {match} }} return {{ {', '.join(columns)} }} }}"
        return sorted((tuple(row.values()) for row in graph.query(text)), key=repr)

    found = {}
    for name, kind in TYPES.items():
        shown = [f"$r.{prop} as {prop}" for prop in kind.props]
        if kind.ends is None:
            found[name] = rows(f"$r: {name}", shown)
        else:
            word = name[0].lower() + name[1:]
            found[name] = rows(f"$a $r:{word} $b", ["$a", "$b", "$r", *shown])
            found[name] = [(*row[:2], *row[3:]) for row in found[name]]
            found[name].sort(key=repr)
    return found


def expected(model: Model) -> dict[str, list[tuple[Any, ...]]]:
    found = {}
    for name, kind in TYPES.items():
        columns = [*(("src", "dst") if kind.ends else ()), *kind.props]
        rows = [tuple(row[column] for column in columns) for row in model.rows[name].values()]
        found[name] = sorted(rows, key=repr)
    return found


def told(error: ConstraintError) -> list[Told]:
    """Return violations as the model tells them; generated ids are only known to be ids."""
    return [
        (
            str(one.rule),
            one.type_name,
            one.prop,
            "#" if one.row_id is not None and not TYPES[one.type_name].key else one.row_id,
            one.value,
            one.place,
        )
        for one in error.violations
    ]


def foretold(violations: list[Told]) -> list[Told]:
    return [
        (rule, kind, prop, "#" if row_id is not None and not TYPES[kind].key else row_id, *rest)
        for rule, kind, prop, row_id, *rest in violations
    ][:MAX_REPORTED]


def check_query(graph: omnigraph.Graph, model: Model, statements: list[Statement]) -> Model:
    """Run a query on both; return the model as the graph must be now."""
    text, params = query_text(TYPES, statements)
    after, counts, violations = run(model, statements)
    if not violations:
        result = graph.mutate(text, params=params)
        assert (result.affected_nodes, result.affected_edges) == counts, statements
        return after
    with pytest.raises(ConstraintError) as caught:
        graph.mutate(text, params=params)
    assert told(caught.value) == foretold(violations), statements
    assert caught.value.total == len(violations)
    return model


@pytest.mark.property
@settings(max_examples=settings.default.max_examples // 3)
@given(st.lists(constructive | destructive, min_size=3, max_size=8))
def test_engine_and_model_agree_after_every_query(tmp_path_factory, queries):
    where = str(tmp_path_factory.mktemp("graph") / "g.omni")
    model = Model(TYPES)
    with omnigraph.init(where, SCHEMA, options=FAST) as graph:
        for statements in [SOUND_START, *queries]:
            model = check_query(graph, model, statements)
            assert stored(graph) == expected(model)
    with omnigraph.connect(where, options=FAST) as again:
        assert stored(again) == expected(model)


@pytest.mark.property
@settings(max_examples=settings.default.max_examples // 6)
@given(constructive, destructive, st.randoms(use_true_random=False))
def test_queries_that_can_never_run_change_nothing(tmp_path_factory, some, others, random):
    where = str(tmp_path_factory.mktemp("graph") / "g.omni")
    mixed = [*some, *others]
    random.shuffle(mixed)
    with omnigraph.init(where, SCHEMA, options=FAST) as graph:
        check_query(graph, Model(TYPES), SOUND_START)
        before, head = stored(graph), graph.snapshot().commit_id
        text, params = query_text(TYPES, mixed)
        with pytest.raises(BadRequestError, match="split into separate mutations"):
            graph.mutate(text, params=params)
        text, params = query_text(TYPES, some)
        unknown = text.removesuffix("}") + 'insert Memo { text: "w", txt: 1 } }'
        with pytest.raises(CompileError, match="no property `txt`"):
            graph.mutate(unknown, params=params)
        odd = text.replace("query m(", "query m($odd: F64, ").removesuffix("}")
        odd += 'insert Person { name: "z", city: "z", mass: $odd } }'
        with pytest.raises(BadRequestError, match="not a finite number"):
            graph.mutate(odd, params={**params, "odd": float("nan")})
        assert (stored(graph), graph.snapshot().commit_id) == (before, head)


@pytest.mark.parametrize("statements", SCENARIOS.values(), ids=SCENARIOS)
def test_engine_and_model_agree_on(tmp_path, statements):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        model = check_query(graph, Model(TYPES), SOUND_START)
        model = check_query(graph, model, statements)
        assert stored(graph) == expected(model)


def test_the_first_hundred_violations_are_those_the_model_tells_first(tmp_path):
    people = [add("Person", name=f"p{n % 90}", city="x", age=100 + n, first="f") for n in range(99)]
    edges = [add("Knows", src=f"p{n}", dst="nobody") for n in range(40)]
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        check_query(graph, Model(TYPES), [*edges, *people])
