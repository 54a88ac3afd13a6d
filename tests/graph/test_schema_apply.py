"""A graph gets another schema: what stays, what goes, what is refused, on every kind of branch."""

from __future__ import annotations

import re
import threading

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.schemas import LoadsRunningError, SchemaUnsupportedError
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.storage import store
from omnigraph.storage.upkeep import indexing
from tests.support.fast import FAST

SCHEMA = """
interface Named { name: String }
node Person implements Named {
  handle: String @key
  age: I32
  mail: String?
  level: enum(a, b)?
  tags: [String]?
}
node Company { slug: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1)
"""
PEOPLE = [
    {"handle": "ada", "name": "Ada", "age": 36, "mail": "a@x", "level": "a", "tags": ["x"]},
    {"handle": "bo", "name": "Bo", "age": 7, "mail": None, "level": None, "tags": None},
]


@pytest.fixture(params=["main", "lazy branch", "forked branch"])
def place(request, tmp_path):
    """A graph with rows, and the branch the schema is applied to."""
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as graph:
        fill(graph)
        if request.param == "main":
            graph.branches.create("other")
            yield graph, "main", "other"
            return
        graph.branches.create("side")
        if request.param == "forked branch":
            for text in ('update Person set { age: 36 } where handle = "ada"',):
                graph.mutate(f"query q() {{ {text} }}", branch="side")
        yield graph, "side", "main"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as opened:
        fill(opened)
        yield opened


def fill(graph):
    lines = {
        "Person": pa.Table.from_pylist(PEOPLE),
        "Company": pa.table({"slug": ["acme"]}),
        "Knows": pa.table({"from": ["ada"], "to": ["bo"]}),
        "WorksAt": pa.table({"from": ["ada"], "to": ["acme"]}),
    }
    graph.load(lines, "append")


def rows(graph, type_name="Person", branch="main", at=None):
    """What a query says of the key and the name of everything."""
    names = ("slug",) if type_name == "Company" else ("handle", "name")
    shown = ", ".join(f"$p.{name} as {name}" for name in names)
    text = f"query q() {{ match {{ $p: {type_name} }} return {{ {shown} }} }}"
    return graph.query(text, branch=branch, at=at).to_dicts()


def plain(graph, type_name="Person", branch="main", at=None):
    """Rows as they are stored, whatever a query would show of them."""
    state = graph._state.snapshot(branch, at)
    table = state.open(f"node:{type_name}").scan()
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def kinds(result):
    return [step.kind for step in result.steps]


CHANGES = {
    "add a property": (("  mail: String?\n", "  mail: String?\n  phone: String?\n"),),
    "add a type": (
        ("edge Knows", "node Place { p: String @key }\nedge In: Person -> Place\nedge Knows"),
    ),
    "rename a property": (("mail: String?", 'email: String? @rename_from("mail")'),),
    "rename a type": (
        ("node Person", 'node Human @rename_from("Person")'),
        ("Person -> Person", "Human -> Human"),
        ("Person -> Company", "Human -> Company"),
    ),
    "rename both": (
        ("node Person", 'node Human @rename_from("Person")'),
        ("Person -> Person", "Human -> Human"),
        ("Person -> Company", "Human -> Company"),
        ("mail: String?", 'email: String? @rename_from("mail")\n  phone: String?'),
    ),
    "drop a property": (("  mail: String?\n", ""),),
    "drop a type": (
        ("node Company { slug: String @key }\n", ""),
        ("edge WorksAt: Person -> Company @card(0..1)\n", ""),
    ),
    "relax": (("age: I32\n", "age: I32?\n"),),
    "relax and add": (("age: I32\n", "age: I32?\n  weight: F64?\n"),),
    "require": (("name: String }", "name: String }"), ("age: I32\n", "age: I32 @index\n")),
    "widen an enum": (("enum(a, b)", "enum(a, b, c)"),),
    "describe": (("node Company {", 'node Company @description("d") {'),),
    "a rule": (("tags: [String]?\n", "tags: [String]?\n  @range(age, 0..150)\n  @unique(name)\n"),),
    "widen a cardinality": (("@card(0..1)", "@card(0..2)"),),
}  # fmt: skip
NEW_NAMES = {"rename a property": {"mail": "email"}, "rename both": {"mail": "email"}}
ADDED = {"add a property": ["phone"], "rename both": ["phone"], "relax and add": ["weight"]}
DROPPED = {"drop a property": ["mail"]}
TYPE = {"rename a type": "Human", "rename both": "Human"}


def changed(name):
    text = SCHEMA
    for old, new in CHANGES[name]:
        assert old in text
        text = text.replace(old, new)
    return text


def migrated(row, name):
    now = {NEW_NAMES.get(name, {}).get(k, k): v for k, v in row.items()}
    for gone in DROPPED.get(name, ()):
        del now[gone]
    return now | dict.fromkeys(ADDED.get(name, ()))


@pytest.mark.parametrize("name", CHANGES)
def test_rows_stay_and_the_past_and_other_branches_keep_their_schema(place, name):
    graph, branch, other = place
    kind = TYPE.get(name, "Person")
    graph.ensure_indices()
    before, was = plain(graph, branch=branch), graph.snapshot(branch).commit_id
    shown = rows(graph, branch=branch)
    applied = graph.apply_schema(changed(name), branch=branch, allow_data_loss=True, actor="ann")
    assert applied.applied
    assert applied.supported
    assert applied.steps
    assert applied.manifest_version == graph.snapshot(branch).manifest_version
    assert graph.branch(branch).schema == changed(name)
    assert plain(graph, kind, branch) == [migrated(row, name) for row in before]
    assert rows(graph, kind, branch) == shown
    # The past, and everybody else.
    assert rows(graph, "Person", at=was, branch=branch) == shown
    assert graph.at(was, branch=branch).schema == SCHEMA
    assert rows(graph, "Person", other) == shown
    assert graph.branch(other).schema == SCHEMA
    # It goes on under the new schema.
    text = f'query q() {{ insert {kind} {{ handle: "cy", name: "Cy", age: 1 }} }}'
    graph.mutate(text, branch=branch)
    assert [row["handle"] for row in rows(graph, kind, branch)] == ["ada", "bo", "cy"]
    assert graph.apply_schema(changed(name), branch=branch).applied is False
    assert not [found for found in graph.verify() if not found.harmless]
    with omnigraph.connect(graph.uri, options=FAST) as again:
        assert [row["handle"] for row in rows(again, kind, branch)] == ["ada", "bo", "cy"]
        assert again.branch(branch).schema == changed(name)
        assert [c.actor_id for c in again.commits.list(branch, limit=2)] == [None, "ann"]


def test_a_change_touches_no_row_whatever_the_table_holds(graph):
    files = {info.name for info in graph.store.kernel.objects.list("nodes")}
    graph.apply_schema(changed("rename both"))
    new = {info.name for info in graph.store.kernel.objects.list("nodes")} - files
    assert new
    assert not [name for name in new if "/data/" in name or "/_deletions/" in name]


def test_nothing_to_change_is_no_commit(graph):
    before = graph.snapshot()
    done = graph.apply_schema(SCHEMA)
    assert (done.supported, done.applied, done.steps) == (True, False, ())
    assert done.to_json_value()["step_count"] == 0
    assert graph.snapshot() == before


def test_a_preview_says_all_and_writes_nothing(graph):
    before = graph.snapshot()
    done = graph.apply_schema(changed("drop a property"), allow_data_loss=True, preview=True)
    assert kinds(done) == ["drop_property"]
    assert (done.applied, done.preview) == (False, True)
    text = SCHEMA.replace("age: I32\n", "age: I32\n  @range(age, 8..)\n")
    with pytest.raises(ConstraintError):
        graph.apply_schema(text, preview=True)
    assert graph.snapshot() == before


def test_what_cannot_be_done_is_refused_with_every_reason(graph):
    before = graph.snapshot()
    text = SCHEMA.replace("age: I32\n", "age: Bool\n").replace("  mail: String?\n", "")
    with pytest.raises(SchemaUnsupportedError) as refused:
        graph.apply_schema(text)
    assert [step.facts["entity"] for step in refused.value.steps] == [
        "node:Person.age",
        "node:Person.mail",
    ]
    assert "changing property type from I32 to Bool" in str(refused.value)
    assert "removing property 'mail'" in str(refused.value)
    with pytest.raises(DiagnosticsError):
        graph.apply_schema("node Person { a: Nope }")
    with pytest.raises(NotFoundError):
        graph.apply_schema(SCHEMA, branch="nobody")
    with pytest.raises(BadRequestError):
        graph.apply_schema(SCHEMA, branch="")
    assert graph.snapshot() == before


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("mail: String?", "mail: String", ["null in a required property"]),
        ("tags: [String]?\n", "tags: [String]?\n  @range(age, 8..40)\n", ["value 7 < min 8"]),
        ("tags: [String]?\n", 'tags: [String]?\n  @check(name, "^A")\n', ["'Bo' does not match"]),
        ("@card(0..1)", "@card(2..3)", ["has 1 edges (min 2)"]),
    ],
)
def test_rows_that_break_a_new_rule_are_listed_and_stay(graph, old, new, told):
    before = graph.snapshot()
    with pytest.raises(ConstraintError) as refused:
        graph.apply_schema(SCHEMA.replace(old, new))
    assert [one.message.partition(": ")[2] or one.message for one in refused.value.violations]
    assert all(
        words in one.message for words, one in zip(told, refused.value.violations, strict=True)
    )
    assert graph.snapshot() == before


def test_equal_values_are_found_when_they_are_to_be_unique(graph):
    graph.mutate('query q() { insert Person { handle: "b2", name: "Bo", age: 9 } }')
    with pytest.raises(ConstraintError, match="is also the value of 'bo'"):
        graph.apply_schema(changed("a rule"))
    graph.mutate('query q() { update Person set { name: "B" } where handle = "b2" }')
    assert kinds(graph.apply_schema(changed("a rule"))) == ["add_constraint"] * 2
    with pytest.raises(ConstraintError, match="@unique"):
        graph.mutate('query q() { insert Person { handle: "b3", name: "Bo", age: 9 } }')


def test_a_required_property_is_required_from_then_on_and_can_be_relaxed_again(graph):
    graph.mutate('query q() { update Person set { mail: "b@x" } where handle = "bo" }')
    strict = SCHEMA.replace("mail: String?", "mail: String")
    assert kinds(graph.apply_schema(strict)) == ["require_property"]
    extra = {"handle": ["cy"], "name": ["Cy"], "age": [1]}
    with pytest.raises(ConstraintError, match="required"):
        graph.load({"Person": pa.table(extra)}, "append")
    graph.load({"Person": pa.table(extra | {"mail": ["c@x"]})}, "append")
    graph.load({"Person": pa.table(extra | {"mail": ["c@y"]})}, "merge")
    graph.mutate("query q() { delete Person where age > 1 }")
    graph.load({"Person": pa.table(extra | {"mail": ["c@z"]})}, "overwrite")
    assert kinds(graph.apply_schema(SCHEMA)) == ["relax_property"]
    graph.load({"Person": pa.table(extra)}, "merge")
    assert [row["mail"] for row in plain(graph)] == [None]


def test_a_broken_rule_that_others_bring_meanwhile_is_found_under_the_lock(graph, monkeypatch):
    from omnigraph.engine.schema import apply as module

    real, brought = module.commit_change, []

    def while_others_write(store, session, change, files, told):
        if not brought:
            text = 'query q() { insert Person { handle: "b2", name: "Bo", age: 9 } }'
            brought.append(graph.mutate(text).commit_id)
        return real(store, session, change, files, told)

    monkeypatch.setattr(module, "commit_change", while_others_write)
    with pytest.raises(ConstraintError, match="is also the value"):
        graph.apply_schema(changed("a rule"))
    assert graph.snapshot().commit_id == brought[0]
    assert graph.schema == SCHEMA


def test_who_changes_the_schema_second_plans_again(graph, monkeypatch):
    from omnigraph.engine.schema import apply as module

    real, other = module.commit_change, []

    def while_others_apply(store, session, change, files, told):
        if not other:
            other.append(None)
            graph.apply_schema(changed("describe"))
        return real(store, session, change, files, told)

    monkeypatch.setattr(module, "commit_change", while_others_apply)
    both = changed("describe").replace("  mail: String?\n", "  mail: String?\n  phone: String?\n")
    assert kinds(graph.apply_schema(both)) == ["add_property"]
    assert [len(one.steps) for one in graph.schema_history().versions] == [1, 1, 5]


OTHER = changed("rename a property")
BACK = SCHEMA.replace("mail: String?", 'mail: String? @rename_from("email")')


def test_a_mutation_under_the_old_schema_is_compiled_again(graph):
    stop, written = threading.Event(), threading.Semaphore(0)
    failed: list[Exception] = []
    text = "query q($n: String) { insert Person { handle: $n, name: $n, age: 1 } }"
    done: list[int] = []

    def write():
        while not stop.is_set():
            try:
                graph.mutate(text, params={"n": f"w{len(done)}"})
            except Exception as error:  # noqa: BLE001 - judged below
                failed.append(error)
                stop.set()
            else:
                done.append(1)
            written.release()

    writer = threading.Thread(target=write)
    writer.start()
    for schema in (OTHER, BACK) * 4:
        assert written.acquire(timeout=60)
        assert graph.apply_schema(schema).applied
    stop.set()
    writer.join(60)
    assert not failed
    assert len(rows(graph)) == 2 + len(done)


def test_a_load_that_runs_is_named_and_waited_for_by_the_caller(graph):
    session = graph.store.begin()
    with session.load(["node:Person"]) as load:
        with pytest.raises(LoadsRunningError, match="node:Person") as refused:
            graph.apply_schema(changed("rename both"))
        assert refused.value.loads == {str(load.operation_id): ("node:Person",)}
        assert graph.apply_schema(changed("describe")).applied
    assert graph.apply_schema(changed("add a property")).applied


def test_types_and_properties_may_be_dropped_and_made_anew_under_their_names(graph):
    graph.apply_schema(changed("drop a type"), allow_data_loss=True)
    graph.apply_schema(changed("drop a property").replace("slug", "slug"), allow_data_loss=True)
    graph.apply_schema(SCHEMA)
    assert rows(graph, "Company") == []
    assert [row["mail"] for row in plain(graph)] == [None, None]
    graph.mutate('query q() { insert Company { slug: "new" } }')
    assert [row["slug"] for row in rows(graph, "Company")] == ["new"]
    first = graph.commits.list(reverse=True)[1].graph_commit_id
    assert [row["slug"] for row in rows(graph, "Company", at=first)] == ["acme"]


def test_history_tells_what_each_change_was_and_who_made_it(graph):
    graph.apply_schema(changed("rename a property"), actor="ann", message="shorter")
    graph.branches.create("side")
    graph.apply_schema(OTHER.replace("{ slug:", "{ size: I32? slug:"), branch="side")
    told = graph.schema_history().versions
    assert [(one.actor_id, one.message, [s.text for s in one.steps]) for one in told[:1]] == [
        ("ann", "shorter", ["rename property 'Person.mail' -> 'Person.email' on node 'Person'"])
    ]
    assert told[0].schema_hash == graph.catalog.schema_hash
    assert len(graph.schema_history("side").versions) == 3


def test_schemas_of_branches_moments_and_texts_are_compared(graph):
    first = graph.snapshot().commit_id
    graph.branches.create("side")
    graph.apply_schema(changed("rename a property"), branch="side")
    told = graph.diff_schema("main", "side")
    assert [step.kind for step in told.steps] == ["rename_property"]
    assert (told.before, told.after) == ("main", "side")
    back = graph.diff_schema("side", first)
    assert [step.facts["to"] for step in back.steps] == ["mail"]
    assert [s.kind for s in graph.diff_schema("main", changed("add a property")).steps] == [
        "add_property"
    ]
    assert graph.diff_schema("main", 1).steps == ()


def test_a_renamed_column_keeps_its_index_and_its_old_name_can_be_indexed_anew(graph):
    text = SCHEMA.replace("mail: String?", "mail: String? @unique")
    graph.apply_schema(text)
    graph.ensure_indices()
    renamed = text.replace("mail: String?", 'email: String? @rename_from("mail")')
    graph.apply_schema(renamed)
    assert {one.column: str(one.status) for one in graph.ensure_indices()}["email"] == "current"
    graph.apply_schema(renamed.replace("  tags:", "  mail: String? @unique\n  tags:"))
    told = {one.column: str(one.status) for one in graph.ensure_indices()}
    assert (told["email"], told["mail"]) == ("current", "built")
    told = {one.column: str(one.status) for one in graph.ensure_indices()}
    assert (told["email"], told["mail"]) == ("current", "current")


@pytest.mark.parametrize("moment", ["before it is read", "before it is published"])
@pytest.mark.parametrize("gone", ["level: enum(a, b)? @index", "node Company"])
def test_what_is_dropped_while_it_is_indexed_gets_no_index(graph, moment, gone, monkeypatch):
    text = SCHEMA.replace("level: enum(a, b)?", "level: enum(a, b)? @index")
    without = text.replace("level: enum(a, b)? @index", "")
    if gone == "node Company":
        without = re.sub("(node Company|edge WorksAt).*", "", text)
        graph.mutate('query q() { insert Company { slug: "it" } }')
    graph.apply_schema(text)
    wanted = "slug" if gone == "node Company" else "level"

    def drop(name=None):
        monkeypatch.undo()
        graph.apply_schema(without, allow_data_loss=True)

    if moment == "before it is published":
        write = indexing.write_index

        def written(tables, base, spec, runner=None, **how):
            built = write(tables, base, spec, runner, **how)
            if spec.column == wanted:
                drop()
            return built

        monkeypatch.setattr(indexing, "write_index", written)
    else:
        build = store.build_index

        def built(kernel, heads, branch, key, spec, *more, **how):
            if spec.column == wanted:
                drop()
            return build(kernel, heads, branch, key, spec, *more, **how)

        monkeypatch.setattr(store, "build_index", built)
    told = {one.column: one.reason for one in graph.ensure_indices()}
    assert told[wanted] == "the schema was changed meanwhile and the column is gone"
    assert graph.schema == without
    assert wanted not in {one.column for one in graph.indices()}
    assert graph.optimize()
    assert [finding for finding in graph.verify() if not finding.harmless] == []
    graph.apply_schema(text)
    assert all(one.reason is None or "empty" in one.reason for one in graph.ensure_indices())


@pytest.mark.parametrize("first", ["dev", pytest.param("main", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_merged_both_ways(graph, name, first):
    graph.branches.create("dev")
    kind, other = TYPE.get(name, "Person"), "main" if first == "dev" else "dev"
    graph.apply_schema(changed(name), branch=first, allow_data_loss=True)
    new = f'query q() {{ insert {kind} {{ handle: "new", name: "New", age: 1 }} }}'
    graph.mutate(new, branch=first)
    old = 'query q() { insert Person { handle: "old", name: "Old", age: 2 } }'
    graph.mutate(old, branch=other)
    graph.mutate('query q() { update Person set { age: 8 } where handle = "bo" }', branch=other)
    tried = graph.branches.merge(first, into=other, preview=True)
    assert tried.conflicts == ()
    graph.branches.merge(first, into=other)
    graph.branches.merge(other, into=first)
    assert graph.branch("dev").catalog == graph.branch("main").catalog
    rows_now = plain(graph, kind, "main")
    assert rows_now == plain(graph, kind, "dev")
    assert [row["handle"] for row in rows_now] == ["ada", "bo", "new", "old"]
    assert rows_now[0] == migrated({**PEOPLE[0], "id": "ada"}, name)
    assert rows_now[1] == migrated({**PEOPLE[1], "id": "bo", "age": 8}, name)
    assert graph.branches.merge(first, into=other).tables == ()
    assert not [found for found in graph.verify() if not found.harmless]
