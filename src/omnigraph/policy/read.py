"""A policy file to a `Policy`, strictly: a key nobody knows may be a rule nobody enforces."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.api.access import Action
from omnigraph.compiler.query.condition import condition
from omnigraph.compiler.source import Source
from omnigraph.config.document import Document, Section
from omnigraph.errors import BadRequestError, CompileError
from omnigraph.policy.model import (
    BRANCH_ACTIONS,
    ROW_ACTIONS,
    TARGET_ACTIONS,
    Policy,
    Rule,
    Scope,
)

_FORM = (
    "a rule is written as {id: …, allow: {actors: {group: …}, actions: [read], branch_scope: any}}"
)
_OLD_RULE_KEYS = ("name", "effect")


def read_policy(source: Source) -> Policy:
    """Return what a policy file says.

    Raises:
        ConfigError: it says something that cannot be; with the place.
    """
    document = Document(source)
    root = document.root()
    if root.text("version") != "1":
        raise root.refuse("policy version must be 1", "version", "write `version: 1`")
    groups = dict(_groups(root.section("groups")))
    protected = root.texts("protected_branches", blank="protected branch names must not be blank")
    check_source = root.flag("check_source")
    rules: list[Rule] = []
    for section in root.items("rules"):
        rule = _rule(section, groups.keys())
        if any(rule.id == other.id for other in rules):
            raise section.refuse(f"duplicate policy rule id '{rule.id}'", "id")
        rules.append(rule)
    root.close()
    return Policy(groups, frozenset(name.strip() for name in protected), tuple(rules), check_source)


def _groups(section: Section) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in section.names():
        if not name.strip():
            raise section.refuse("policy group names must not be blank", name)
        blank = f"policy group '{name}' contains a blank actor id"
        members = section.texts(name, blank=blank)
        if not members:
            raise section.refuse(f"policy group '{name}' must not be empty", name)
        yield name, tuple(dict.fromkeys(actor.strip() for actor in members))


def _rule(section: Section, groups: object) -> Rule:
    for key in _OLD_RULE_KEYS:
        if key in section.names():
            raise section.refuse(f"a rule has no `{key}`; all rules allow", key, _FORM)
    rule_id = section.filled("id", "policy rule ids must not be blank", _FORM)
    named = f"policy rule '{rule_id}'"
    allow = section.section("allow")
    actors = allow.section("actors")
    group = actors.filled("group", f"{named} names no group", _FORM)
    if group not in groups:  # type: ignore[operator] # the keys of a mapping
        raise actors.refuse(f"{named} references unknown group '{group}'", "group")
    actors.close()
    actions = tuple(_action(allow, word) for word in allow.texts("actions"))
    if not actions:
        raise allow.refuse(f"{named} must include at least one action", "actions", _FORM)
    branch = _scope(allow, "branch_scope")
    target = _scope(allow, "target_branch_scope")
    if branch is not None and target is not None:
        text = f"{named} may specify branch_scope or target_branch_scope, not both"
        raise allow.refuse(text, "target_branch_scope", "write two rules")
    for key, scope, known in (
        ("branch_scope", branch, BRANCH_ACTIONS),
        ("target_branch_scope", target, TARGET_ACTIONS),
    ):
        odd = [action for action in actions if scope is not None and action not in known]
        if odd:
            text = f"{named} uses {key} with unsupported action '{odd[0]}'"
            raise allow.refuse(text, key, f"{key} goes with {', '.join(sorted(known))}")
    types, where = _rows(allow, named, actions)
    allow.close()
    section.close()
    return Rule(rule_id, group, tuple(dict.fromkeys(actions)), branch, target, types, where)


def _rows(
    allow: Section, named: str, actions: tuple[Action, ...]
) -> tuple[tuple[str, ...], str | None]:
    """Return which rows a rule shows: of which types, and what they have to be like."""
    types = allow.texts("types", blank=f"{named} contains a blank type")
    where = allow.text("where")
    if where is not None and not types:
        text = f"{named} uses where without types"
        raise allow.refuse(text, "where", "say of which types: `types: [Person]`")
    if "types" in allow.names() and not types:
        raise allow.refuse(f"{named} must include at least one type", "types")
    odd = [action for action in actions if types and action not in ROW_ACTIONS]
    if odd:
        text = f"{named} uses types with unsupported action '{odd[0]}'"
        raise allow.refuse(text, "types", f"types go with {', '.join(sorted(ROW_ACTIONS))}")
    if where is not None:
        try:
            where = condition(where)
        except (CompileError, BadRequestError) as error:
            raise allow.refuse(f"{named}: {error.message}", "where", error.hint) from None
    return tuple(dict.fromkeys(name.strip() for name in types)), where


def action_of(word: str) -> Action:
    """Return the action a word means; both `schema_apply` and `schema-apply` will do.

    Raises:
        BadRequestError: there is no such action.
    """
    found = next((one for one in Action if one == word.strip().replace("-", "_")), None)
    if found is None:
        raise BadRequestError(f"there is no action '{word}'", hint=f"use {', '.join(Action)}")
    return found


def _action(section: Section, word: str) -> Action:
    try:
        return action_of(word)
    except BadRequestError as error:
        raise section.refuse(error.message, "actions", error.hint) from None


def _scope(section: Section, key: str) -> Scope | None:
    found = section.maybe_choice(key, [str(one) for one in Scope])
    return None if found is None else Scope(found)
