"""Starting a server: everything that can be wrong is found and told before anybody listens."""

from __future__ import annotations

import logging
from dataclasses import replace

from omnigraph.config.environment import process_environment
from omnigraph.config.load import load_settings
from omnigraph.errors import BadRequestError
from omnigraph.server.logs import log_to_stderr
from omnigraph.server.options import ServeOptions, is_loopback
from omnigraph.server.rules import Rules, load_rules
from omnigraph.server.runtime.sockets import reserved

log = logging.getLogger("omnigraph.server")


def serve(options: ServeOptions, *, unauthenticated: bool, require_policy: bool) -> None:
    """Serve a graph until told to stop.

    Args:
        options: what and where.
        unauthenticated: an open server is what is wanted, so nothing warns of it.
        require_policy: refuse to start without a policy.

    Raises:
        OmniGraphError: settings, tokens, policy or the address are wrong.
        SystemExit: no worker could start; the log says why.
    """
    log_to_stderr()
    settings = load_settings(options.config, process_environment())
    rules = load_rules(settings)
    if require_policy and rules.policy is None:
        raise BadRequestError(
            "a policy is required, and none is configured", hint="set policy.file"
        )
    if options.workers > 1 and options.runtime == "uvicorn":
        raise BadRequestError("uvicorn runs one worker here", hint="use --runtime granian")
    with reserved(options) as port:
        chosen = replace(options, port=port)
        _tell(chosen, rules, unauthenticated=unauthenticated)
        if options.runtime == "uvicorn":
            from omnigraph.server.runtime.uvicorn import run
        else:
            from omnigraph.server.runtime.granian import run
        run(chosen)
    log.info("stopped")


def _tell(options: ServeOptions, rules: Rules, *, unauthenticated: bool) -> None:
    """Say loudly who may do what here."""
    source = "none" if rules.is_open else rules.keyring.source
    log.info("loaded bearer token source: source=%s", source)
    log.info(
        "serving omnigraph: graph=%s bind=%s:%d workers=%d runtime=%s policy=%s",
        options.graph_id,
        options.host,
        options.port,
        options.workers,
        options.runtime,
        "none" if rules.policy is None else "configured",
    )
    if options.page:
        log.info("the page for people is at /ui/")
    if options.workers > 1:
        log.info("admission and metrics are counted by each of %d workers", options.workers)
    if rules.is_open and not (unauthenticated and is_loopback(options.host)):
        where = "" if is_loopback(options.host) else ", FROM OTHER MACHINES, TOO"
        log.warning("mode: %s%s", rules.mode(), where)
    elif rules.policy is None and not rules.is_open:
        log.warning("mode: %s", rules.mode())
    else:
        log.info("mode: %s", rules.mode())
