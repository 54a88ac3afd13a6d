"""What rules hide was never there: every query under them equals the same on a graph without it."""

import io
import json
import random

import pytest

import omnigraph
from omnigraph.api.visibility import RowRules
from omnigraph.base.budget import Budget, Limits
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.source import Source
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.engine.read.run import run_read
from omnigraph.errors import BudgetExceededError, CompileError
from tests.support.fast import FAST

SCHEMA = """
node Person { slug: String @key
 age: I32?
 city: String?
 vis: enum(public, secret)
 bio: String?
 vec: Vector(4)? }
node Doc { slug: String @key
 level: I32
 body: String?
 kind: enum(memo, spec)? }
edge Knows: Person -> Person { w: I32? }
edge Wrote: Person -> Doc { w: I32?
 at: I32? }
edge Cites: Doc -> Doc
"""
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu".split()
CITIES = ["Oslo", "Rome", "Bonn"]
PEOPLE, DOCS = 60, 30
ENDS = {"Knows": ("Person", "Person"), "Wrote": ("Person", "Doc"), "Cites": ("Doc", "Doc")}
EVERYTHING = dict.fromkeys(("Person", "Doc", "Knows", "Wrote", "Cites"))


def has_age(row):
    return row["age"] is not None and row["age"] > 14


# Conditions by type (a type that maps to False is hidden), and the same in Python.
RULES = {
    "public people": (
        {"Person": {'$n.vis = "public"'}},
        {"Person": lambda row: row["vis"] == "public"},
    ),
    "nodes and edges": (
        {"Person": {'$n.vis = "public"'}, "Doc": {"$n.level < 4"}, "Knows": {"$n.w >= 3"}},
        {
            "Person": lambda row: row["vis"] == "public",
            "Doc": lambda row: row["level"] < 4,
            "Knows": lambda row: row["w"] is not None and row["w"] >= 3,
        },
    ),
    "edges alone": ({"Wrote": {"$n.at > 4"}}, {"Wrote": lambda row: row["at"] > 4}),
    "a hidden type": ({"Doc": False}, {"Doc": lambda _: False}),
    "by text, and hidden edges": (
        {"Person": {'search($n.bio, "alpha")'}, "Knows": False},
        {
            "Person": lambda row: "alpha" in (row["bio"] or "").split(),
            "Knows": lambda _: False,
        },
    ),
    "one of several conditions": (
        {
            "Person": {'$n.city in ["Oslo", "Rome"]\n$n.age > 14', "$n.bio is null"},
            "Wrote": {"$n.w is not null"},
        },
        {
            "Person": lambda row: (
                (row["city"] in ("Oslo", "Rome") and has_age(row)) or row["bio"] is None
            ),
            "Wrote": lambda row: row["w"] is not None,
        },
    ),
}


def rows_of(chance):
    """Return lines of a random graph."""
    found = []
    for number in range(PEOPLE):
        words = " ".join(chance.choices(WORDS, k=chance.randint(1, 9)))
        vector = [chance.randint(-3, 3) / 2 for _ in range(4)]
        row = {
            "slug": f"p{number:03}",
            "age": chance.choice([None, *range(10, 30)]),
            "city": chance.choice([None, *CITIES]),
            "vis": chance.choice(["public", "public", "secret"]),
            "bio": chance.choice([None, words]),
            "vec": chance.choice([None, vector]),
        }
        found.append({"type": "Person", "data": row})
    for number in range(DOCS):
        row = {
            "slug": f"d{number:03}",
            "level": chance.randint(0, 5),
            "body": " ".join(chance.choices(WORDS, k=chance.randint(1, 12))),
            "kind": chance.choice([None, "memo", "spec"]),
        }
        found.append({"type": "Doc", "data": row})
    people = [f"p{number:03}" for number in range(PEOPLE)]
    docs = [f"d{number:03}" for number in range(DOCS)]

    def edge(name, source, target, **data):
        row = {"id": f"e{len(found):05}", **data}
        found.append({"edge": name, "from": source, "to": target, "data": row})

    weights = [None, *range(9)]
    for _ in range(PEOPLE * 4):
        edge("Knows", chance.choice(people), chance.choice(people), w=chance.choice(weights))
    for _ in range(PEOPLE * 2):
        ends = chance.choice(people), chance.choice(docs)
        edge("Wrote", *ends, w=chance.choice(weights), at=chance.randint(0, 9))
    for _ in range(DOCS):
        edge("Cites", chance.choice(docs), chance.choice(docs))
    return found


def predicate(chance, var, kind):
    if kind == "Doc":
        return chance.choice(
            [
                f"${var}.level >= {chance.randint(0, 5)}",
                f'${var}.kind = "memo"',
                f'search(${var}.body, "{chance.choice(WORDS)}")',
                f'${var}.slug = "d{chance.randrange(DOCS):03}"',
            ]
        )
    return chance.choice(
        [
            f"${var}.age >= {chance.randint(10, 29)}",
            f'${var}.city = "{chance.choice(CITIES)}"',
            f'${var}.vis = "{chance.choice(["public", "secret"])}"',
            f'search(${var}.bio, "{" ".join(chance.sample(WORDS, 2))}")',
            f'fuzzy(${var}.bio, "{chance.choice(WORDS)[:-1]}x", 2)',
            f"${var}.age is null",
            f'${var}.slug = "p{chance.randrange(PEOPLE):03}"',
            f'${var}.city != "Oslo"',
        ]
    )


def step(chance, var, kind, fresh):
    """Return a traversal, the type it ends at, and its edge variable with its type."""
    steps = {
        "Person": [("knows", "Person"), ("wrote", "Doc")],
        "Doc": [("wrote", "Person"), ("cites", "Doc")],
    }
    edge, far = chance.choice(steps[kind])
    form = chance.random()
    if form < 0.2 and edge != "wrote":
        return f"${var} {edge}{{{chance.choice(['1,2', '2,3', '1,3'])}}} ${fresh}", far, None
    if form < 0.35 and edge != "wrote":
        return f"${var} <{edge}> ${fresh}", far, None
    if form < 0.6:
        return f"${var} ${fresh}e:{edge} ${fresh}", far, (f"{fresh}e", edge)
    return f"${var} {edge} ${fresh}", far, None


def match_of(chance):
    """Return random clauses with their variables and edge variables."""
    kinds, clauses, edges = {"p": "Person"}, ["$p: Person"], []
    for number in range(chance.choice([0, 0, 1, 1, 2])):
        var, fresh = chance.choice(list(kinds)), f"v{number}"
        clause, far, edge = step(chance, var, kinds[var], fresh)
        clauses.append(clause)
        kinds[fresh] = far
        if edge is not None:
            edges.append(edge[0])
            if edge[1] != "cites" and chance.random() < 0.4:
                clauses.append(f"${edge[0]}.w > {chance.randint(0, 8)}")
    clauses += [
        predicate(chance, var, kind) for var, kind in kinds.items() if chance.random() < 0.4
    ]
    if chance.random() < 0.3:
        var = chance.choice(list(kinds))
        clause, far, _ = step(chance, var, kinds[var], "n")
        inner = [clause, predicate(chance, "n", far)][: chance.choice([1, 2])]
        clauses.append("not { " + "\n".join(inner) + " }")
    return clauses, kinds, edges


def query_of(chance):
    """Return a random read query."""
    clauses, kinds, edges = match_of(chance)
    returned, order, tail, distinct = [], "", "", ""
    if chance.random() < 0.35:
        var = chance.choice(list(kinds))
        grouped = chance.random() < 0.6
        if grouped:
            returned = [f"$p.{chance.choice(['city', 'vis', 'age'])} as g"]
            order = chance.choice(["", "order { n desc, g }"])
            tail = chance.choice(["", f"limit {chance.randint(1, 4)}"])
        returned += ["count(*) as n", f"count(distinct ${var}.id) as d", "avg($p.age) as a"]
        returned += ["min($p.slug) as lo", "sum($p.age) as s"]
    else:
        returned = [f"${var}.slug as {var}s" for var in kinds]
        returned += [f"${edge}.id as {edge}i" for edge in edges]
        form, words = chance.random(), " ".join(chance.choices(WORDS, k=chance.randint(1, 3)))
        near = "nearest($p.vec, [1.0, 0.5, -0.5, 0.25])"
        if form < 0.25:
            returned.append(f'bm25($p.bio, "{words}") as sc')
            order, tail = "order { sc desc }", f"limit {chance.choice([3, 10, 1000])}"
        elif form < 0.4:
            order, tail = f"order {{ {near} }}", f"limit {chance.choice([1, 5, 20])}"
        elif form < 0.55:
            returned.append(f'rrf({near}, bm25($p.bio, "{words}")) as sc')
            order, tail = "order { sc desc }", f"limit {chance.choice([3, 8])}"
        elif form < 0.75:
            order = "order { $p.age desc, $p.city }"
            tail = f"limit {chance.randint(1, 20)} offset {chance.randint(0, 5)}"
        elif chance.random() < 0.3:
            distinct = "distinct "
    lines = "\n".join(clauses)
    return (
        f"query q() {{ match {{ {lines} }} return {distinct}{{ {', '.join(returned)} }} "
        f"{order} {tail} }}"
    )


def as_text(rows):
    return ("\n".join(map(json.dumps, rows)) + "\n").encode()


def exported(graph):
    out = io.BytesIO()
    graph.export(out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def kept(rows, tests):
    """Return what plain Python leaves of exported rows: the rules are judged, not trusted."""

    def passes(kind, data):
        return kind not in tests or tests[kind](data)

    nodes = [row for row in rows if "type" in row and passes(row["type"], row["data"])]
    ids = {(row["type"], row["data"]["slug"]) for row in nodes}

    def seen(row):
        near, far = ENDS[row["edge"]]
        both = (near, row["from"]) in ids and (far, row["to"]) in ids
        return both and passes(row["edge"], row["data"])

    return [row for row in rows if "edge" in row and seen(row)] + nodes


def rules_of(conditions):
    """Return rules: a type that is not spoken of is seen whole."""
    shown = EVERYTHING | {name: one and frozenset(one) for name, one in conditions.items()}
    return RowRules.of({name: one for name, one in shown.items() if one is not False})


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.exhaustive)])
def whole(request, tmp_path_factory):
    """A graph that is in memory, and has changed since: added, updated and deleted rows."""
    chance = random.Random(request.param)
    place = tmp_path_factory.mktemp("visible") / "whole"
    with omnigraph.init(place, SCHEMA, options=FAST) as graph:
        graph.load(as_text(rows_of(chance)), "append")
        text = (
            "match { $p: Person\n$p $k:knows $q\n$p wrote $d } return { $p.slug, $k.id, $d.slug }"
        )
        for _ in range(6):
            graph.query(text)
        for number in chance.sample(range(PEOPLE), 5):
            change = f'update Person set {{ vis: "secret", age: 22 }} where slug = "p{number:03}"'
            graph.mutate(change)
        for number in chance.sample(range(PEOPLE), 2):
            graph.mutate(f'delete Person where slug = "p{number:03}"')
        for number in range(3):
            who, vis = f"p9{number:02}", chance.choice(["public", "secret"])
            graph.mutate(
                f'insert Person {{ slug: "{who}", vis: "{vis}", bio: "alpha beta", age: 20 }} '
                f'insert Knows {{ from: "{who}", to: "{who}", w: {number + 2} }}'
            )
        yield graph


@pytest.mark.property
@pytest.mark.parametrize("name", RULES)
def test_a_query_under_rules_is_the_query_of_a_graph_without_the_rest(whole, tmp_path, name):
    conditions, tests = RULES[name]
    seen = whole.under(rules_of(conditions))
    want = kept(exported(whole), tests)
    assert sorted(map(json.dumps, exported(seen))) == sorted(map(json.dumps, want))
    chance, differs = random.Random(name), 0
    with omnigraph.init(tmp_path / "rest", SCHEMA, options=FAST) as rest:
        rest.load(as_text(want), "append")
        for _ in range(60):
            text = query_of(chance)
            try:
                expected = rest.query(text).to_dicts()
            except CompileError:
                continue
            assert repr(seen.query(text).to_dicts()) == repr(expected), text
            differs += repr(whole.query(text).to_dicts()) != repr(expected)
        tables = {one.table_key: one.row_count for one in rest.snapshot().tables}
        assert {one.table_key: one.row_count for one in seen.snapshot().tables} == tables
    assert differs > 5


@pytest.mark.property
@pytest.mark.parametrize("name", RULES)
def test_plans_limits_and_their_refusals_tell_of_no_hidden_row(tmp_path, name):
    conditions, tests = RULES[name]
    rules, chance, refused = rules_of(conditions), random.Random(name), 0
    lines = rows_of(random.Random(3))
    with (
        omnigraph.init(tmp_path / "whole", SCHEMA, options=FAST) as whole,
        omnigraph.init(tmp_path / "rest", SCHEMA, options=FAST) as rest,
    ):
        whole.load(as_text(lines), "append")
        rest.load(as_text(kept(exported(whole), tests)), "append")
        ours, theirs = whole._state.snapshot("main"), rest._state.snapshot("main")
        catalog = whole.catalog
        plain = SnapshotImages(theirs, catalog, rest._state.reader.cache)
        reader = whole._state.reader.under(rules, None)
        visible = reader.visible(ours)
        for _ in range(60):
            text = query_of(chance)
            try:
                compiled = compile_query(catalog, Source(text), None)
            except CompileError:
                continue
            plan = rest._state.reader.plans.plan(compiled, theirs, catalog, plain)
            same = reader.plans.plan(compiled, ours, catalog, visible)
            shown = explain_query(plan.prepared.shown)
            assert explain_query(same.prepared.shown) == shown, text
            assert same.statistics == plan.statistics
            bound = compiled.bind(None, now_ms=0)
            for limits in (Limits(rows=5), Limits(rows=40), Limits(bytes=2_000)):
                expected = outcome(plan.prepared, plain, bound, limits)
                assert outcome(same.prepared, visible, bound, limits) == expected, (text, limits)
                refused += expected.startswith("Error")
    assert refused > 20


def outcome(plan, images, bound, limits):
    """Return the rows of a run, or the text of its refusal."""
    try:
        found = run_read(plan, images, bound, Budget(limits))
    except BudgetExceededError as error:
        return f"Error {error}"
    return repr([array.to_pylist() for array in found.arrays])


@pytest.mark.property
def test_the_past_under_rules_has_what_is_seen_then_and_now(whole):
    seen = whole.under(rules_of({"Person": {'$n.vis = "public"'}}))
    everybody = "match { $p: Person } return { $p.slug, $p.vis }"
    now = {row["p.slug"]: row["p.vis"] for row in whole.query(everybody).to_dicts()}
    for commit in whole.commits.list()[:-1]:
        at = commit.graph_commit_id
        then = {row["p.slug"]: row["p.vis"] for row in whole.query(everybody, at=at).to_dicts()}
        want = {slug for slug, vis in then.items() if vis == "public"}
        want -= {slug for slug, vis in now.items() if vis == "secret"}
        found = {row["p.slug"] for row in seen.query(everybody, at=at).to_dicts()}
        assert found == want
        edges = "match { $p: Person\n$p knows $q } return { $p.slug, $q.slug }"
        for row in seen.query(edges, at=at).to_dicts():
            assert set(row.values()) <= want


def rows_by_id(graph, at):
    """Return every row that is exported of a state, by its table and id."""
    out = io.BytesIO()
    graph.export(out, at=at)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    return {
        (f"node:{one['type']}" if "type" in one else f"edge:{one['edge']}", one["data"]["id"]): one
        for one in lines
    }


@pytest.mark.property
@pytest.mark.parametrize("name", RULES)
def test_what_differs_under_rules_is_what_differs_in_what_is_seen(whole, name):
    seen, chance = whole.under(rules_of(RULES[name][0])), random.Random(name)
    commits = [one.graph_commit_id for one in whole.commits.list()[:-1]]
    differs = 0
    for a, b in [(commits[-1], commits[0]), *(chance.sample(commits, 2) for _ in range(5))]:
        before, after = rows_by_id(seen, a), rows_by_id(seen, b)
        want = {
            key: "insert" if key not in before else "delete" if key not in after else "update"
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }
        found = list(seen.diff(a, b, images="both"))
        assert {(one.table_key, one.id): one.op for one in found} == want
        assert [(one.table_key, one.id) for one in found] == sorted(want)
        for one in found:
            for image, rows in ((one.before, before), (one.after, after)):
                row = rows.get((one.table_key, one.id))
                assert (image is None) == (row is None)
                for column, value in ({} if row is None else row["data"]).items():
                    assert image[column] == value
        plain = {(one.table_key, one.id): one.op for one in whole.diff(a, b)}
        differs += plain != want
        assert {(one.table_key, one.id) for one in seen.diff(b, a, types=["Knows"])} == {
            key for key in want if key[0] == "edge:Knows"
        }
        assert seen.diff(a, b).summary().stats.inserts == sum(
            op == "insert" for op in want.values()
        )
    assert differs
