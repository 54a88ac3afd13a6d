"""A guarded graph: every call of the protocols is judged, and nothing else can be reached."""

import inspect
import io

import pytest

import omnigraph
from omnigraph.api import protocols
from omnigraph.api.access import Action
from omnigraph.api.visibility import RowRulesError
from omnigraph.errors import BadRequestError, DeniedError, NotFoundError
from omnigraph.policy.decide import Judge
from omnigraph.policy.guard import GuardedGraph
from omnigraph.policy.model import Policy, Rule, Scope
from tests.support.fast import FAST

SCHEMA = "node P { name: String @key bin: Blob? }\n"
NEXT = "node P { name: String @key bin: Blob? age: I32? }\n"
ALL = "match { $p: P } return { $p.name as n } order { n }"
ADD = 'insert P { name: "new" }'
TEAM = Policy(
    {"team": ("ann",), "writers": ("wil",), "outside": ("out",)},
    frozenset({"main", "secret"}),
    (
        Rule("free", "team", (Action.READ, Action.EXPORT, Action.CHANGE), Scope.UNPROTECTED),
        Rule("make", "team", (Action.BRANCH_CREATE, Action.BRANCH_DELETE), None, Scope.UNPROTECTED),
        Rule("write", "writers", (Action.CHANGE,), Scope.ANY),
    ),
)


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as made:
        made.mutate('insert P { name: "ada" }')
        made.branches.create("dev")
        made.branches.create("secret")
        made.mutate('insert P { name: "hidden" }', branch="secret")
        yield made


def guarded(graph, actor="ann", policy=TEAM):
    return graph.guarded(Judge(policy), actor)


def nobody():
    return Judge(Policy({"none": ("ann",)}, frozenset({"main"})))


def calls(guard, graph):
    """Yield every call of the protocols by its name."""
    commit = graph.snapshot().commit_id
    yield from {
        "query": lambda: guard.query(ALL),
        "stream": lambda: guard.stream(ALL),
        "profile": lambda: guard.profile(ALL),
        "explain": lambda: guard.explain(ALL),
        "picture": lambda: guard.picture(ALL),
        "show": guard.show,
        "read_blob": lambda: guard.read_blob("P", "ada", "bin"),
        "entity": lambda: guard.entity("node:P", "ada"),
        "snapshot": guard.snapshot,
        "export": lambda: guard.export(io.BytesIO()),
        "iter_export": guard.iter_export,
        "mutate": lambda: guard.mutate(ADD),
        "load": lambda: guard.load(b'{"type":"P","data":{"name":"x"}}\n', "append"),
        "embed": guard.embed,
        "optimize": guard.optimize,
        "indices": guard.indices,
        "cleanup": lambda: guard.cleanup(keep=1),
        "ensure_indices": guard.ensure_indices,
        "ingest": lambda: guard.ingest(b"", branch="dev"),
        "diff": lambda: guard.diff("main", "dev"),
        "changes": guard.changes,
        "cursor": guard.cursor,
        "entity_history": lambda: guard.entity_history("node:P", "ada"),
        "blame": lambda: guard.blame("node:P", "ada"),
        "revert": lambda: guard.revert(commit),
        "cherry_pick": lambda: guard.cherry_pick(commit, branch="dev"),
        "branch": lambda: guard.branch("dev"),
        "at": lambda: guard.at(commit),
        "schema": lambda: guard.schema,
        "plan_schema": lambda: guard.plan_schema(NEXT),
        "apply_schema": lambda: guard.apply_schema(NEXT),
        "diff_schema": lambda: guard.diff_schema("main", NEXT),
        "schema_history": guard.schema_history,
        "verify": guard.verify,
        "repair": guard.repair,
        "locks": guard.locks,
        "break_lock": lambda: guard.break_lock("branch-main"),
        "disk_usage": guard.disk_usage,
        "branches.list": guard.branches.list,
        "branches.create": lambda: guard.branches.create("other"),
        "branches.delete": lambda: guard.branches.delete("dev"),
        "branches.merge": lambda: guard.branches.merge("dev"),
        "branches.reset": lambda: guard.branches.reset("dev", to=commit),
        "commits.list": guard.commits.list,
        "commits.get": lambda: guard.commits.get(commit),
        "tags.list": guard.tags.list,
        "tags.create": lambda: guard.tags.create("v1"),
        "tags.delete": lambda: guard.tags.delete("v1"),
    }.items()


FREE = {"uri", "close", "as_actor", "branches", "commits", "tags", "queries"}
"""What asks nothing of the rows, or only gives a handle whose every call is judged."""


def test_whoever_is_granted_nothing_can_do_nothing_and_learn_nothing(graph):
    guard = graph.guarded(nobody(), "ann")
    heads = {name: graph.snapshot(name).commit_id for name in graph.branches.list()}
    for name, call in calls(guard, graph):
        with pytest.raises(DeniedError, match="policy denied action"):
            call()
        assert name
    assert {name: graph.snapshot(name).commit_id for name in graph.branches.list()} == heads
    for made_up in ("no-such", "01HXXXXXXXXXXXXXXXXXXXXXXX"):
        with pytest.raises(DeniedError):
            guard.branch(made_up)
        with pytest.raises(DeniedError):
            guard.commits.get(made_up)


def test_every_call_of_the_protocols_is_tried_above(graph):
    tried = {name for name, _ in calls(guarded(graph), graph)}
    asked = {name for name, _ in inspect.getmembers(protocols.AnyGraph) if not name.startswith("_")}
    assert asked == {name for name in tried if "." not in name} | FREE
    for kind in ("Branches", "Commits", "Tags"):
        methods = {one for one in vars(getattr(protocols, kind)) if not one.startswith("_")}
        assert {f"{kind.lower()}.{one}" for one in methods} <= tried


def test_a_guard_has_nothing_but_what_the_protocols_have(graph):
    public = {name for name in dir(guarded(graph)) if not name.startswith("_")}
    asked = {name for name in dir(protocols.AnyGraph) if not name.startswith("_")}
    assert public - asked == {"actor"}


def test_all_is_done_in_the_name_of_the_actor(graph):
    guard = guarded(graph, "wil")
    done = guard.mutate(ADD)
    assert graph.commits.get(done.commit_id).actor_id == "wil"
    with pytest.raises(BadRequestError):
        guard.mutate(ADD, actor="ann")
    with pytest.raises(BadRequestError, match="is used by 'wil'"):
        guard.as_actor("ann")
    assert guard.as_actor("wil") is guard


@pytest.mark.parametrize("name", [" main ", "main\t", "\nmain"])
def test_a_padded_name_is_judged_as_what_it_means(graph, name):
    guard = guarded(graph)
    for act in (
        lambda: guard.branch(name).mutate(ADD),
        lambda: guard.branch(name).query(ALL),
        lambda: guard.ingest(b"", branch=name),
        lambda: guard.branches.merge("dev", name),
        lambda: guard.commits.list(name),
        lambda: guard.diff("dev", name),
    ):
        with pytest.raises((DeniedError, BadRequestError)):
            act()


def test_an_unprotected_branch_can_be_used_and_the_protected_one_cannot(graph):
    guard = guarded(graph)
    dev = guard.branch("dev")
    dev.mutate(ADD)
    assert [row["n"] for row in dev.query(ALL)] == ["ada", "new"]
    with pytest.raises(DeniedError, match="'read' on branch 'main' for actor 'ann'"):
        guard.query(ALL)
    with pytest.raises(DeniedError):
        guard.branch("secret").query(ALL)
    with pytest.raises(DeniedError):
        guard.branches.list()  # names no branch, and rules with a scope need one


def test_the_past_is_judged_by_the_branch_a_commit_was_made_on(graph):
    guard = guarded(graph)
    hidden, own = graph.snapshot("secret").commit_id, guard.branch("dev").mutate(ADD).commit_id
    assert len(guard.at(own).query(ALL)) == 2
    for act in (
        lambda: guard.at(hidden),
        lambda: guard.at(hidden, branch="dev"),
        lambda: guard.commits.get(hidden),
        lambda: guard.diff("dev", hidden),
        lambda: guard.diff("dev...secret"),
        lambda: guard.cherry_pick(hidden, branch="dev"),
        lambda: guard.revert(hidden, branch="dev"),
        lambda: guard.branches.reset("dev", to=hidden),
        lambda: guard.tags.create("mine", at=hidden, branch="dev"),
        lambda: guard.at(1),
    ):
        with pytest.raises(DeniedError):
            act()
    with pytest.raises(DeniedError):  # a name nobody has belongs to no branch
        guard.at("01HXXXXXXXXXXXXXXXXXXXXXXX")


def test_a_view_of_the_past_is_judged_at_every_call(graph):
    view = guarded(graph).at(graph.branch("dev").mutate(ADD).commit_id)
    assert len(view.query(ALL)) == 2
    assert b"new" in b"".join(view.iter_export())


def test_a_source_is_judged_where_the_policy_asks_for_it(graph):
    strict = Policy(TEAM.groups, TEAM.protected, TEAM.rules, check_source=True)
    guarded(graph).branches.create("copy", source="secret")  # what the warning is about
    for act in (
        lambda guard: guard.branches.create("other", source="secret"),
        lambda guard: guard.branches.create("other", source="dev", at=graph.snapshot().commit_id),
        lambda guard: guard.ingest(b"", branch="other", source="secret"),
    ):
        with pytest.raises(DeniedError, match="'read' on branch"):
            act(guarded(graph, policy=strict))
    assert "other" not in graph.branches.list()


def test_ingest_into_a_missing_branch_needs_both_and_leaves_nothing_when_denied(graph):
    guard, row = guarded(graph, "wil"), b'{"type":"P","data":{"name":"x"}}\n'
    assert guard.ingest(row, branch="dev").nodes_loaded == {"P": 1}
    with pytest.raises(
        DeniedError, match="'branch_create' on branch 'main' targeting branch 'made'"
    ):
        guard.ingest(row, branch="made")
    assert "made" not in graph.branches.list()


def test_deleting_what_was_merged_is_judged_too(graph):
    rules = (*TEAM.rules, Rule("merge", "outside", (Action.BRANCH_MERGE,), None, Scope.ANY))
    guard = guarded(graph, "out", Policy(TEAM.groups, TEAM.protected, rules))
    with pytest.raises(DeniedError, match="'branch_delete'"):
        guard.branches.merge("dev", delete_source=True)
    assert guard.branches.merge("dev").outcome == "already_up_to_date"


def test_an_allowed_call_says_what_the_graph_says(graph):
    everything = Policy({"all": ("ann",)}, frozenset(), (Rule("all", "all", tuple(Action)),))
    guard = guarded(graph, policy=everything)
    with pytest.raises(NotFoundError):
        guard.branch("no-such")
    with pytest.raises(NotFoundError):
        guard.tags.delete("v1")
    assert guard.apply_schema(NEXT).applied
    assert guard.verify() == graph.verify()
    assert guard.schema == graph.schema


def test_a_closed_guard_does_nothing_and_leaves_the_graph_open(graph):
    guard = guarded(graph, "wil")
    guard.close()
    for act in (lambda: guard.mutate(ADD), lambda: guard.query(ALL), lambda: guard.branches):
        with pytest.raises(BadRequestError, match="closed"):
            act()
    assert repr(guard) == "GuardedGraph(closed)"
    assert len(graph.query(ALL)) == 1
    assert isinstance(guard, GuardedGraph)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("query", (ALL,)),
        ("stream", (ALL,)),
        ("profile", (ALL,)),
        ("explain", (ALL,)),
        ("entity", ("node:P", "hidden")),
        ("read_blob", ("P", "hidden", "bin")),
        ("snapshot", ()),
        ("iter_export", ()),
        ("mutate", (ADD,)),
        ("load", (b'{"type":"P","data":{"name":"x"}}\n', "append")),
        ("embed", ()),
    ],
)
def test_what_is_judged_as_main_cannot_be_led_to_another_state_by_a_keyword(graph, name, arguments):
    only_main = Rule("main", "team", (Action.READ, Action.EXPORT, Action.CHANGE), Scope.PROTECTED)
    policy = Policy({"team": ("ann",)}, frozenset({"main"}), (only_main,))
    guard = graph.guarded(Judge(policy), "ann")
    secret = graph.snapshot("secret").commit_id
    for where in ({"branch": "secret"}, {"at": secret}):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(where))}'"):
            getattr(guard, name)(*arguments, **where)
    assert graph.snapshot("secret").commit_id == secret


def test_a_commit_that_stands_in_for_the_base_of_a_merge_has_to_be_readable(graph):
    rule = Rule("merge", "team", (Action.BRANCH_MERGE,), None, Scope.UNPROTECTED)
    guard = guarded(graph, policy=Policy(TEAM.groups, TEAM.protected, (*TEAM.rules, rule)))
    graph.branches.create("other")
    secret = graph.snapshot("secret").commit_id
    with pytest.raises(DeniedError, match="'read' on branch 'secret'"):
        guard.branches.merge("other", "dev", base=secret, preview=True)
    assert guard.branches.merge("other", "dev", preview=True).total_conflicts == 0


SOME = Policy(
    {"team": ("ann",)},
    frozenset({"main"}),
    (
        Rule(
            "some",
            "team",
            (Action.READ, Action.EXPORT),
            Scope.PROTECTED,
            None,
            ("P",),
            '$n.name != "ada"',
        ),
        Rule("free", "team", (Action.READ, Action.EXPORT), Scope.UNPROTECTED),
        Rule("write", "team", (Action.CHANGE,), Scope.ANY),
        Rule(
            "make",
            "team",
            (Action.BRANCH_CREATE, Action.BRANCH_MERGE, Action.SCHEMA_APPLY),
            None,
            Scope.ANY,
        ),
    ),
)
HIDDEN = {
    "mutate", "load", "embed", "changes", "entity_history", "blame", "revert",
    "cherry_pick", "apply_schema", "branches.create", "branches.merge", "branches.reset",
}  # fmt: skip


def test_who_sees_some_rows_reads_those_and_is_refused_what_needs_all(graph):
    graph.mutate('insert P { name: "eve" }')
    guard = guarded(graph, policy=SOME)
    assert [row["n"] for row in guard.query(ALL).to_dicts()] == ["eve"]
    assert guard.entity("node:P", "ada") is None
    assert guard.snapshot().tables[0].row_count == 1
    assert [row["n"] for row in guard.branch("main").query(ALL).to_dicts()] == ["eve"]
    at = graph.snapshot().commit_id
    assert [row["n"] for row in guard.at(at).query(ALL).to_dicts()] == ["eve"]
    graph.tags.create("v1")
    newest = graph.snapshot().manifest_version
    for moment in ("v1", newest):
        assert [row["n"] for row in guard.at(moment).query(ALL).to_dicts()] == ["eve"]
    for moment in ("v1", newest, "main@2"):
        changes = guard.diff(moment, "main", images="after").to_dicts()
        assert "ada" not in {one["id"] for one in changes}
    assert b"ada" not in b"".join(guard.iter_export())
    assert [row["n"] for row in guard.branch("dev").query(ALL).to_dicts()] == ["ada"]
    for name, call in calls(guard, graph):
        if name in HIDDEN:
            with pytest.raises(RowRulesError):
                call()
    with pytest.raises(RowRulesError):
        guard.ingest(b"", branch="new", source="main")
    assert graph.branches.list() == ["main", "dev", "secret"]
    guard.branch("dev").mutate('insert P { name: "free" }')


def test_who_may_read_two_branches_may_see_what_merging_them_would_bring(graph):
    graph.mutate('insert P { name: "bob" }', branch="dev")
    policy = Policy(
        {"readers": ("rea",), "half": ("hal",)},
        frozenset({"main"}),
        (
            Rule("all", "readers", (Action.READ,), Scope.ANY),
            Rule("some", "half", (Action.READ,), Scope.UNPROTECTED),
        ),
    )
    rea, hal = guarded(graph, "rea", policy), guarded(graph, "hal", policy)
    assert rea.branches.merge("dev", preview=True).tables[0].inserted == 1
    with pytest.raises(DeniedError, match="branch_merge"):
        rea.branches.merge("dev")
    with pytest.raises(DeniedError, match="policy denied action 'read' on branch 'main'"):
        hal.branches.merge("dev", preview=True)
    assert len(graph.query(ALL)) == 1
