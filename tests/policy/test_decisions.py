"""Decisions: ours, Cedar's, and that they are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.api.access import AccessDecision, AccessRequest, Action
from omnigraph.api.visibility import RowRules
from omnigraph.policy.cedar import CedarError, CedarJudge, cedar_text, require_agreement
from omnigraph.policy.decide import Judge
from omnigraph.policy.model import BRANCH_ACTIONS, TARGET_ACTIONS, Policy, Rule, Scope

POLICY = Policy(
    {"team": ("ann", "bob"), "admins": ("ann",)},
    frozenset({"main"}),
    (
        Rule("b-write", "team", (Action.CHANGE,), Scope.UNPROTECTED),
        Rule("a-read", "team", (Action.READ,), Scope.ANY),
        Rule("c-merge", "admins", (Action.BRANCH_MERGE,), None, Scope.PROTECTED),
        Rule("d-admin", "admins", (Action.ADMIN,)),
        Rule("a-read-too", "admins", (Action.READ,), Scope.PROTECTED),
    ),
)
ALLOWED = [
    ("ann", "read", None, None, "a-read"),
    ("ann", "read", "main", None, "a-read"),
    ("bob", "change", "dev", None, "b-write"),
    ("ann", "branch_merge", "dev", "main", "c-merge"),
    ("ann", "admin", None, None, "d-admin"),
]
DENIED = [
    (
        "bob",
        "change",
        "main",
        None,
        "policy denied action 'change' on branch 'main' for actor 'bob'",
    ),
    ("bob", "change", None, None, "policy denied action 'change' for actor 'bob'"),
    (
        "ann",
        "branch_merge",
        "main",
        "dev",
        "policy denied action 'branch_merge' on branch 'main' "
        "targeting branch 'dev' for actor 'ann'",
    ),
    ("ann", "branch_merge", None, None, "policy denied action 'branch_merge' for actor 'ann'"),
    ("eve", "read", "main", None, "policy denied action 'read' for unknown actor 'eve'"),
]


def both(policy, request):
    ours, (theirs,) = Judge(policy).decide(request), CedarJudge(policy, "g").decide([request])
    assert ours == theirs
    return ours


@pytest.mark.parametrize(("actor", "action", "branch", "target", "rule"), ALLOWED)
def test_a_rule_allows_what_it_says(actor, action, branch, target, rule):
    found = both(POLICY, AccessRequest(actor, Action(action), branch, target))
    text = f"policy allowed action '{action}' for actor '{actor}'"
    assert found == AccessDecision(True, text, rule)


@pytest.mark.parametrize(("actor", "action", "branch", "target", "text"), DENIED)
def test_everything_else_is_denied_in_words_that_can_be_shown(actor, action, branch, target, text):
    found = both(POLICY, AccessRequest(actor, Action(action), branch, target))
    assert found == AccessDecision(False, text, None)


def test_grants_are_known_without_a_branch():
    judge = Judge(POLICY)
    assert judge.grants_any("bob", Action.CHANGE)
    assert not judge.grants_any("bob", Action.BRANCH_MERGE)
    assert not judge.grants_any("eve", Action.READ)


NAMES = st.sampled_from(["main", "prod", "dev", "feature/x", 'quo"te', "ünï", "\\"])
ACTORS = st.sampled_from(["ann", "bob", "cy", 'd"e', "f\\g"])


@st.composite
def policies(draw):
    groups = draw(
        st.dictionaries(
            st.sampled_from(["g1", "g2", 'g"3']),
            st.lists(ACTORS, min_size=1, unique=True).map(tuple),
            min_size=1,
        )
    )
    rules = []
    for at in range(draw(st.integers(0, 6))):
        family = draw(st.sampled_from([BRANCH_ACTIONS, TARGET_ACTIONS, frozenset(Action)]))
        actions = draw(st.lists(st.sampled_from(sorted(family)), min_size=1, unique=True))
        scope = draw(st.sampled_from([None, *Scope]))
        rules.append(
            Rule(
                draw(st.sampled_from([f"r{at}", f"z{9 - at}"])),
                draw(st.sampled_from(sorted(groups))),
                tuple(actions),
                scope if family is BRANCH_ACTIONS else None,
                scope if family is TARGET_ACTIONS else None,
            )
        )
    return Policy(groups, frozenset(draw(st.lists(NAMES))), tuple(rules))


@pytest.mark.property
@given(policies(), st.data())
def test_both_judges_say_the_same_to_whatever_is_asked(policy, data):
    judge = Judge(policy)
    require_agreement(policy, judge, 'repo "x"')
    branch = st.one_of(st.none(), NAMES)
    asked = data.draw(
        st.lists(
            st.builds(AccessRequest, ACTORS, st.sampled_from(list(Action)), branch, branch),
            min_size=1,
        )
    )
    assert CedarJudge(policy, "g").decide(asked) == [judge.decide(one) for one in asked]


class Generous(Judge):
    def _fits(self, scope, branch):
        return scope is not Scope.UNPROTECTED or super()._fits(scope, branch)


def test_a_judge_that_differs_anywhere_is_not_put_in_force():
    with pytest.raises(CedarError, match='Cedar says "policy denied'):
        require_agreement(POLICY, Generous(POLICY), "g")


def test_a_policy_can_be_shown_in_cedar():
    text = cedar_text(POLICY, "team.omni")
    assert text.count("permit (") == 5
    assert '@id("b-write:change")' in text
    assert "when { context.has_branch && !context.branch_is_protected };" in text


ROWS = Policy(
    {"team": ("ann", "bob"), "more": ("bob",), "all": ("cy",)},
    frozenset({"main"}),
    (
        Rule("public", "team", (Action.READ,), Scope.ANY, None, ("P", "Q"), "$n.a = 1"),
        Rule("other", "more", (Action.READ,), Scope.PROTECTED, None, ("P",), "$n.b = 2"),
        Rule("whole", "more", (Action.READ,), Scope.PROTECTED, None, ("Q", "E")),
        Rule("free", "more", (Action.READ,), Scope.UNPROTECTED),
        Rule("cy", "all", (Action.READ, Action.EXPORT)),
    ),
)


@pytest.mark.parametrize(
    ("actor", "branch", "shown"),
    [
        ("ann", "main", {"P": {"$n.a = 1"}, "Q": {"$n.a = 1"}}),
        ("bob", "main", {"P": {"$n.a = 1", "$n.b = 2"}, "Q": None, "E": None}),
        ("bob", "dev", None),
        ("cy", "main", None),
        ("eve", "main", None),
    ],
)
def test_rules_add_up_to_the_rows_that_are_shown(actor, branch, shown):
    judge = Judge(ROWS)
    want = shown and RowRules.of({n: one and frozenset(one) for n, one in shown.items()})
    assert judge.hides_rows
    assert judge.rows(actor, Action.READ, branch) == want
    assert judge.rows(actor, Action.EXPORT, branch) is None


def test_who_looks_at_two_states_sees_what_both_show():
    def of(**shown):
        return RowRules.of({name: one and frozenset(one) for name, one in shown.items()})

    some, all_of_it = of(P={"$n.a = 1"}, Q=None), of(P=None, Q=None, E=None)
    assert some.within(None) == some.within(some) == some
    assert some.within(all_of_it) == all_of_it.within(some) == some
    assert some.within(of(P={"$n.b = 2"}, Q={"$n.b = 2"})) == of(Q={"$n.b = 2"})


def test_rules_on_rows_are_noted_in_cedar_and_change_no_decision():
    require_agreement(ROWS, Judge(ROWS), "g")
    assert '@types("P, Q")\n@where("$n.a = 1")\npermit (' in cedar_text(ROWS, "g")
    assert not Judge(POLICY).hides_rows
