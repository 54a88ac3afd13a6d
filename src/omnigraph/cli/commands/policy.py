"""`omnigraph policy …`: whether a policy can be put in force, does what is expected, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.api.access import AccessRequest, Action
from omnigraph.api.policies import PolicyChecked, PolicyExplained, PolicyTested
from omnigraph.cli.names import Commands
from omnigraph.cli.options import ConfigOption, JsonOption
from omnigraph.cli.output import EXIT_FAILURE, UsageError, say, say_json, warn
from omnigraph.cli.target import read_settings
from omnigraph.config.settings import Settings
from omnigraph.errors import BadRequestError
from omnigraph.storage.files.layout import parse_branch

PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", help="The policy; default: policy.file of the settings."),
]
_DEFAULT_REPO = "default"

app = Commands(help="Check, test and explain an access policy.")


@app.command()
def validate(
    ctx: typer.Context,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    cedar: Annotated[
        bool, typer.Option("--cedar", help="Also print the rules in the words of Cedar.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check a policy exactly as the server does before it puts it in force.

    Example: `omnigraph policy validate --policy policy.yaml`
    """
    from omnigraph.policy.cedar import cedar_text
    from omnigraph.policy.load import load_policy

    settings, path = _policy_of(ctx, config, policy)
    found = load_policy(path, _repo(settings)).policy
    text = cedar_text(found, _repo(settings)) if cedar else None
    checked = PolicyChecked(str(path), len(found.actors), len(found.rules), found.warnings(), text)
    if json:
        say_json(checked)
        return
    say(f"policy valid: {path} [{checked.actors} actors]")
    if text is not None:
        say(text)
    for warning in checked.warnings:
        warn(f"warning: {warning}")


@app.command("test")
def run_tests(
    ctx: typer.Context,
    policy: PolicyOption = None,
    tests: Annotated[
        Path | None,
        typer.Option(
            "--tests", help="The cases; default: policy.tests, or policy.tests.yaml beside it."
        ),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Ask the policy about cases, and compare its answers with what the cases expect.

    Exits with 1 when some case is decided otherwise.

    Example: `omnigraph policy test --policy policy.yaml --tests policy.tests.yaml`
    """
    from omnigraph.policy.cases import cases_path, read_cases, run_cases
    from omnigraph.policy.load import load_policy, read_file

    settings, path = _policy_of(ctx, config, policy)
    where = cases_path(path, tests or settings.policy.tests)
    judge = load_policy(path, _repo(settings))
    cases = read_cases(read_file(where, "policy test"))
    failed = run_cases(judge.policy, cases, _repo(settings))
    if json:
        say_json(PolicyTested(str(path), str(where), len(cases), failed))
    elif not failed:
        say(f"policy tests passed: {len(cases)} cases")
    else:
        warn("policy tests failed:")
        for one in failed:
            warn(str(one))
    if failed:
        raise typer.Exit(EXIT_FAILURE)


@app.command()
def explain(
    ctx: typer.Context,
    actor: Annotated[str, typer.Option("--actor", help="Who asks.", metavar="NAME")],
    action: Annotated[
        str, typer.Option("--action", help=f"What for: {', '.join(Action)}.", metavar="ACTION")
    ],
    branch: Annotated[
        str | None, typer.Option("--branch", help="The branch it is about.", metavar="NAME")
    ] = None,
    target_branch: Annotated[
        str | None,
        typer.Option("--target-branch", help="The branch it ends up on.", metavar="NAME"),
    ] = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say whether somebody may do something, and by which rule.

    Exits with 0 for either answer.

    Example: `omnigraph policy explain --actor act-bruno --action change --branch main`
    """
    from omnigraph.policy.cedar import CedarJudge
    from omnigraph.policy.load import load_policy
    from omnigraph.policy.read import action_of

    try:
        wanted = action_of(action)
    except BadRequestError as error:
        raise UsageError(error.message, hint=error.hint) from None
    settings, path = _policy_of(ctx, config, policy)
    judge = load_policy(path, _repo(settings))
    request = AccessRequest(
        actor.strip(),
        wanted,
        None if branch is None else parse_branch(branch),
        None if target_branch is None else parse_branch(target_branch),
    )
    (found,) = CedarJudge(judge.policy, _repo(settings)).decide([request])
    told = PolicyExplained(
        "allow" if found.allowed else "deny",
        request.actor,
        str(wanted),
        request.branch,
        request.target_branch,
        found.matched_rule,
        found.message,
        None if found.allowed else _hint(request),
    )
    if json:
        say_json(told)
        return
    shown = {
        "decision": told.decision,
        "actor": told.actor,
        "action": told.action,
        "branch": told.branch,
        "target_branch": told.target_branch,
        "matched_rule": told.matched_rule,
        "message": told.message,
        "hint": told.hint,
    }
    for name, value in shown.items():
        if value is not None:
            say(f"{name}: {value}")


def _hint(request: AccessRequest) -> str | None:
    """Say what may be missing from the question, when the answer is no."""
    from omnigraph.policy.model import BRANCH_ACTIONS, TARGET_ACTIONS

    if request.action in TARGET_ACTIONS and request.target_branch is None:
        return f"{request.action} is judged by --target-branch"
    if request.action in BRANCH_ACTIONS and request.branch is None:
        return f"{request.action} is judged by --branch, where a rule has a scope"
    return None


def _policy_of(
    ctx: typer.Context, config: str | None, policy: Path | None
) -> tuple[Settings, Path]:
    settings = read_settings(ctx, config)
    path = policy or settings.policy.file
    if path is None:
        raise BadRequestError(
            "policy.file must be set in omnigraph.yaml", hint="or pass --policy FILE"
        )
    return settings, path


def _repo(settings: Settings) -> str:
    """Return what the graph is called in Cedar's words."""
    return settings.project or _DEFAULT_REPO
