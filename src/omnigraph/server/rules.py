"""Who may come in, and do what: tokens and policy as one value, replaced as a whole.

A reload that fails keeps what was in force: a typing error must neither lock everybody out nor let
anybody in.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from omnigraph.api.access import AccessPolicy
from omnigraph.config.environment import process_environment
from omnigraph.config.load import load_settings
from omnigraph.config.settings import Settings
from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.policy import load as policies
from omnigraph.server.tokens import Keyring, load_keyring

log = logging.getLogger("omnigraph.server")
_REPO = "default"


@dataclass(frozen=True, slots=True)
class Rules:
    """What is in force now."""

    keyring: Keyring
    policy: AccessPolicy | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody has to say who they are."""
        return not self.keyring

    def mode(self) -> str:
        """Return in words who may do what."""
        if self.is_open:
            return "open: no tokens are configured, everybody may do everything"
        count = len(self.keyring.actors)
        if self.policy is None:
            return f"tokens of {count} actors, no policy configured: any of them may do everything"
        return f"tokens of {count} actors under a policy"


def load_rules(settings: Settings) -> Rules:
    """Return the rules that settings and environment name.

    Raises:
        OmniGraphError: they cannot be read, or do not go together.
    """
    keyring = load_keyring(settings.environment)
    policy = load_policy(settings)
    if policy is not None and not keyring:
        raise BadRequestError("policy requires at least one configured bearer token actor")
    return Rules(keyring, policy)


def load_policy(settings: Settings) -> AccessPolicy | None:
    """Return the policy that settings name, if they name one.

    Raises:
        OmniGraphError: it cannot be put in force.
    """
    if settings.policy.file is None:
        return None
    judge = policies.load_policy(settings.policy.file, settings.project or _REPO)
    for warning in judge.policy.warnings():
        log.warning("policy: %s", warning)
    count = len(judge.policy.rules)
    log.info("policy: %s, %d rules", settings.policy.file, count)
    return judge


def reloaded(rules: Rules, config: str | None) -> Rules:
    """Return the rules as they are written now, or those in force if they cannot be read."""
    try:
        fresh = load_rules(load_settings(config, process_environment()))
        if rules.keyring and not fresh.keyring:
            raise BadRequestError("no tokens are configured any more, which would open the server")
    except OmniGraphError as error:
        log.error("reload refused, the old tokens and policy stay in force: %s", error.message)
        return rules
    log.info("reloaded: %s", fresh.mode())
    return fresh
