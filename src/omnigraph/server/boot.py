"""From options to something that serves: the graph is opened, rules are read, threads are there."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from functools import partial
from urllib.parse import urlsplit, urlunsplit

from omnigraph.base.budget import Limits
from omnigraph.base.memory import machine_memory
from omnigraph.base.metrics import METRICS
from omnigraph.base.uri import has_scheme, is_on_s3, parse_uri
from omnigraph.config.environment import Environment, count_in, process_environment
from omnigraph.config.limits import limits_in_force
from omnigraph.config.load import load_settings
from omnigraph.config.settings import Settings
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph, connect
from omnigraph.graph.configured import graph_options
from omnigraph.policy.decide import Judge
from omnigraph.policy.rows import check_conditions
from omnigraph.server.admission import WriteCaps
from omnigraph.server.agents import AgentTools
from omnigraph.server.app import App
from omnigraph.server.bodies import CallLimits
from omnigraph.server.browsers import browsers_for
from omnigraph.server.call import Served, tightened
from omnigraph.server.execution import Capacity, Execution
from omnigraph.server.openapi import served_document
from omnigraph.server.options import ServeOptions
from omnigraph.server.rules import load_rules, reloaded

log = logging.getLogger("omnigraph.server")

_MEMORY_SHARE = 4
"""Bodies of writes under way of one actor may take this fraction of the memory."""


def make_app(options: ServeOptions) -> App:
    """Return the application of one worker."""
    return App(
        partial(_boot, options),
        browsers_for(options),
        partial(_reload_on_hangup, options),
    )


async def _boot(options: ServeOptions) -> Served:
    return await asyncio.to_thread(served_by, options)


def served_by(options: ServeOptions) -> Served:
    """Open the graph and return all that serves it.

    Raises:
        OmniGraphError: there is no graph, or settings, tokens or policy are wrong.
    """
    settings = load_settings(options.config, process_environment())
    rules = load_rules(settings)
    METRICS.activate()
    graph = connect(options.uri, options=graph_options(settings, options.uri))
    if isinstance(rules.policy, Judge) and rules.policy.hides_rows:
        check_conditions(rules.policy.policy, graph.catalog)
    if settings.queries.places:
        _check_queries(graph)
    shown = without_credentials(options.uri)
    root = graph.uri
    return Served(
        graph=graph,
        graph_id=options.graph_id,
        uri=shown,
        execution=Execution(capacity(settings.environment)),
        rules=rules,
        read_limits=read_limits(settings),
        write_limits=limits_in_force(settings.environment, settings.limits).job,
        load_bytes=settings.server.load_size or sys.maxsize,
        secrets=tuple(dict.fromkeys((root, str(parse_uri(options.uri)), options.uri))),
        document=served_document,
        agents=AgentTools(options.tools) if options.tools != "none" else None,
        is_local=not is_on_s3(root),
        has_page=options.page,
    )


def _check_queries(graph: Graph) -> None:
    """Return only if every stored query can be called.

    Raises:
        OmniGraphError: one cannot; it is named.
    """
    try:
        graph.reload_queries()
    except OmniGraphError:
        graph.close()
        raise
    log.info("stored queries: %d", len(graph.queries.list()))


def read_limits(settings: Settings) -> Limits:
    """Return the limits of a read: the tighter ones of server and graph."""
    graph = limits_in_force(settings.environment, settings.limits).query
    own = settings.server
    return tightened(graph, CallLimits(own.query_seconds, own.query_rows, own.query_memory))


def capacity(environment: Environment) -> Capacity:
    """Return how much runs at a time, by this machine and the environment."""
    writes = WriteCaps()
    caps = WriteCaps(
        count_in(environment, "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX") or writes.per_actor,
        writes.per_process,
        count_in(environment, "OMNIGRAPH_PER_ACTOR_BYTES_MAX") or machine_memory() // _MEMORY_SHARE,
    )
    slots = count_in(environment, "OMNIGRAPH_READ_SLOTS")
    return Capacity(slots or max(1, len(os.sched_getaffinity(0)) - 1), writes=caps)


def without_credentials(uri: str) -> str:
    """Return an address as it may be shown."""
    if not has_scheme(uri):
        return uri
    parts = urlsplit(uri)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def reload_queries(graph: Graph, config: str | None) -> None:
    """Take the stored queries that the settings name now; if one is wrong, the old ones stay."""
    try:
        graph.reload_queries(load_settings(config, process_environment()).queries)
    except OmniGraphError as error:
        log.error("reload refused, the old stored queries stay in force: %s", error.message)
        return
    log.info("stored queries: %d, read again", len(graph.queries.list()))


def _reload_on_hangup(options: ServeOptions, app: App) -> None:
    """Read tokens, policy and stored queries again on SIGHUP, between two requests."""
    loop = asyncio.get_running_loop()

    async def swap() -> None:
        served = app.served
        if served is not None:
            served.rules = await asyncio.to_thread(reloaded, served.rules, options.config)
            await asyncio.to_thread(reload_queries, served.graph, options.config)

    tasks: set[asyncio.Task[None]] = set()

    def begin() -> None:
        task = loop.create_task(swap())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, begin)
