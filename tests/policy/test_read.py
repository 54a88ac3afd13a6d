"""Policy files: what they say, and every way in which they cannot be."""

import textwrap

import pytest

from omnigraph.api.access import Action
from omnigraph.compiler.source import Source
from omnigraph.config.document import ConfigError
from omnigraph.policy.model import Scope
from omnigraph.policy.read import read_policy

GOOD = """
version: 1
groups:
  team: [act-andrew, act-bruno]
  admins: [act-andrew]
protected_branches: [main]
rules:
  - id: team-read
    allow: { actors: { group: team }, actions: [read, export], branch_scope: any }
  - id: admins-merge
    allow: { actors: { group: admins }, actions: [branch-merge], target_branch_scope: protected }
"""


def policy(text):
    return read_policy(Source(textwrap.dedent(text), "policy.yaml"))


def test_a_policy_says_who_may_do_what():
    found = policy(GOOD)
    assert found.groups == {"team": ("act-andrew", "act-bruno"), "admins": ("act-andrew",)}
    assert found.protected == {"main"}
    assert found.actors == ("act-andrew", "act-bruno")
    read, merge = found.rules
    assert (read.id, read.group, read.actions) == (
        "team-read",
        "team",
        (Action.READ, Action.EXPORT),
    )
    assert (read.branch_scope, read.target_scope) == (Scope.ANY, None)
    assert (merge.actions, merge.target_scope) == ((Action.BRANCH_MERGE,), Scope.PROTECTED)


BAD = [
    ("version: 1", "version: 2", "policy version must be 1"),
    ("version: 1", "", "policy version must be 1"),
    ("  team:", "  '  ':", "policy group names must not be blank"),
    ("[act-andrew]", "[]", "policy group 'admins' must not be empty"),
    ("[act-andrew]", "", "policy group 'admins' must not be empty"),
    ("act-bruno", "' '", "policy group 'team' contains a blank actor id"),
    ("[main]", "['']", "protected branch names must not be blank"),
    ("id: team-read", "id: ' '", "policy rule ids must not be blank"),
    ("- id: team-read\n", "- id:\n", "policy rule ids must not be blank"),
    ("id: admins-merge", "id: team-read", "duplicate policy rule id 'team-read'"),
    ("group: admins }", "group: nobody }", "'admins-merge' references unknown group 'nobody'"),
    ("actions: [branch-merge]", "actions: []", "'admins-merge' must include at least one action"),
    ("branch_scope: any }", "branch_scope: any, target_branch_scope: any }", "scope, not both"),
    ("[read, export]", "[branch_create]", "branch_scope with unsupported action 'branch_create'"),
    ("[branch-merge]", "[read]", "target_branch_scope with unsupported action 'read'"),
    ("[branch-merge]", "[admin]", "target_branch_scope with unsupported action 'admin'"),
    ("[read, export]", "[reed]", "there is no action 'reed'"),
    ("branch_scope: any", "branch_scope: all", "cannot be `all`"),
    ("protected_branches:", "protected_branch:", "unknown key `protected_branch`"),
    ("branch_scope: any", "branch_scop: any", "unknown key `rules[0].allow.branch_scop`"),
    ("- id: team-read", "- name: team-read", "a rule has no `name`"),
    ("- id: team-read", "- id: team-read\n    effect: permit", "a rule has no `effect`"),
    ("branch_scope: any", "types: []", "'team-read' must include at least one type"),
    ("branch_scope: any", "types: ['']", "'team-read' contains a blank type"),
    ("branch_scope: any", "where: $n.age > 3", "'team-read' uses where without types"),
    ("branch_scope: any", "types: [P], where: $n.age >", "'team-read': "),
    ("branch_scope: any", "types: [P], where: '$n knows $m'", "properties of $n alone"),
    ("branch_scope: any", "types: [P], where: 'not { $n.age = 1 }'", "properties of $n alone"),
    ("[branch-merge]", "[branch_merge], types: [P]", "unsupported action 'branch_merge'"),
    ("[read, export]", "[read, change], types: [P]", "unsupported action 'change'"),
    ("rules:\n", "rules: yes\nmore:\n", "`rules` must be a list"),
    ("{ group: team }", "team", "`rules[0].allow.actors` must be a mapping"),
]


@pytest.mark.parametrize(("before", "after", "says"), BAD)
def test_what_cannot_be_is_refused_with_its_place(before, after, says):
    assert before in GOOD
    with pytest.raises(ConfigError) as caught:
        policy(GOOD.replace(before, after, 1))
    assert says in caught.value.message
    assert caught.value.message.startswith("policy.yaml:")


def test_a_policy_without_rules_denies_everything():
    assert policy("version: 1").rules == ()


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (", branch_scope: any", "", "rule 'team-read' has no scope"),
        ("group: admins }", "group: team }", "group 'admins' is in no rule"),
        ("target_branch_scope: protected", "target_branch_scope: any", "copy a protected branch"),
    ],
)
def test_what_is_probably_not_meant_is_warned_about(before, after, says):
    assert policy(GOOD).warnings() == ()
    assert says in " ".join(policy(GOOD.replace(before, after)).warnings())


def test_who_asks_for_the_source_is_not_warned_about_copies():
    text = GOOD.replace("scope: protected", "scope: any") + "check_source: true\n"
    assert policy(text).warnings() == ()


def test_a_rule_may_show_some_rows_only():
    text = GOOD.replace("branch_scope: any", "types: [P, Q], where: $n.vis = 'public'")
    rule = policy(text).rules[0]
    assert (rule.types, rule.where) == (("P", "Q"), '$n.vis = "public"')
    assert policy(GOOD).rules[0].types == ()
    more = (
        text
        + """  - id: all
    allow: { actors: { group: team }, actions: [export], branch_scope: any }
"""
    )
    assert "shows its group every row" in " ".join(policy(more).warnings())
