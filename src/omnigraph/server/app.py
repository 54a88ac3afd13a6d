"""The ASGI application: from a request to its route, and from what came of it to an answer.

Checks come in one order, whatever the route: token, size, shape of the body, arguments, names of
branches, policy, and only then the graph. Every answer but a good one is one shape of JSON.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import orjson

from omnigraph.base.ids import ULIDS
from omnigraph.base.metrics import METRICS
from omnigraph.errors import ErrorKind, OmniGraphError
from omnigraph.server.browsers import Browsers
from omnigraph.server.call import Call, Served
from omnigraph.server.http import (
    IF_COMMIT,
    Exchange,
    Flow,
    GoneError,
    Header,
    Message,
    Receive,
    Reply,
    Send,
    packed,
    packed_flow,
    segments,
)
from omnigraph.server.problems import ProblemError, bad_request, body_of, status_of
from omnigraph.server.routes import Route, RouteTable

log = logging.getLogger("omnigraph.server")
access_log = logging.getLogger("omnigraph.access")

REQUESTS = METRICS.counter(
    "omnigraph_http_requests_total", "Requests, by route and status.", "method", "route", "status"
)
TOOK = METRICS.histogram("omnigraph_http_seconds", "Time of requests, by route.", "route")

_GONE: Final = 499
"""Stands in the log for an answer that nobody waited for."""
_BROKEN: Final = orjson.dumps(bad_request("the request body broke off").body())
_GRAPHS: Final = "/graphs/"
_BEARER: Final = "bearer "
_ONCE: Final = frozenset(
    {b"host", b"origin", b"authorization", b"content-type", b"idempotency-key", IF_COMMIT}
)
_METHODS: Final = ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH")
"""Others are counted as one: what clients send must not become names of metrics."""

Boot = Callable[[], Awaitable[Served]]


@dataclass(slots=True)
class _Seen:
    """What the log says of a request."""

    route: str = "-"
    actor: str | None = None
    branch: str | None = None
    status: int = 500


@dataclass(slots=True)
class App:
    """One worker's application; `boot` opens the graph when the worker starts."""

    boot: Boot
    browsers: Browsers = field(default_factory=Browsers)
    on_started: Callable[[App], None] | None = None
    served: Served | None = None
    running: int = 0
    """Requests under way."""
    stopping: bool = False
    """Whether no more are taken."""
    _table: RouteTable = field(default_factory=RouteTable)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request, or the life of the worker."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    self.served = await self.boot()
                except OmniGraphError as error:
                    log.error("cannot serve: %s", error)
                    await send({"type": "lifespan.startup.failed", "message": error.message})
                    return
                if self.on_started is not None:
                    self.on_started(self)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _close(self) -> None:
        served, self.served = self.served, None
        if served is not None:
            if served.agents is not None:
                await served.agents.close()
            await served.execution.close()
            await asyncio.to_thread(served.graph.close)
            log.info("the graph is closed")

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        started, seen = time.monotonic(), _Seen()
        headers = dict(scope["headers"])
        raw = scope.get("raw_path") or scope["path"].encode()
        exchange = Exchange(
            scope["method"],
            raw.decode("latin-1"),
            scope["query_string"],
            headers,
            receive,
            request_id_of(headers),
            twice=len(headers) < len(scope["headers"]) and _is_twice(scope["headers"]),
        )
        self.running += 1
        try:
            await self._exchange(exchange, send, seen)
        except GoneError:
            seen.status = _GONE
            if not exchange.was_read:  # the runtime says the same of a body that makes no sense
                await _send(Reply(_BROKEN, status=400, closes=True), [], send)
        finally:
            self.running -= 1
            exchange.close()
            seconds = time.monotonic() - started
            method = exchange.method if exchange.method in _METHODS else "other"
            REQUESTS.add(1, method, seen.route, str(seen.status))
            TOOK.observe(seconds, seen.route)
            access_log.info("%s", _line(exchange, seen, seconds))

    async def _exchange(self, exchange: Exchange, send: Send, seen: _Seen) -> None:
        """Answer a request; a refusal is an answer, too."""
        started = time.perf_counter()
        extra = [
            (b"x-request-id", exchange.request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            *self.browsers.headers(exchange),
        ]
        try:
            answer = await self._answer(exchange, seen)
            if isinstance(answer, Flow):
                flow = packed_flow(answer, exchange.header(b"accept-encoding"))
                flow.headers = (*flow.headers, *extra, _timing(started))
                seen.status = 200
                assert self.served is not None, "an answer came from it"
                await self.served.execution.send_flow(exchange, flow, send)
                return
            reply = packed(answer, exchange.header(b"accept-encoding"))
        except OmniGraphError as error:
            reply = self._refused(exchange, error)
        except ProblemError as problem:
            reply = Reply(
                orjson.dumps(problem.body()),
                status=problem.status,
                headers=problem.headers,
                closes=problem.closes,
            )
        except GoneError:
            raise
        except Exception:  # the last line of defence of a request
            log.exception("request %s failed", exchange.request_id)
            if seen.status == 200:
                raise  # the answer had begun: only cutting it tells the client
            reply = Reply(orjson.dumps(_internal()), status=500)
        seen.status = reply.status
        # What is left of a body would be taken for the next request.
        reply.closes = reply.closes or (exchange.has_body and not exchange.was_read)
        await _send(reply, [*extra, _timing(started)], send)
        if reply.closes:
            await exchange.drain()

    async def _answer(self, exchange: Exchange, seen: _Seen) -> Reply | Flow:
        served = self._require()
        exchange.check_headers()
        self.browsers.require_name(exchange, is_open=served.rules.is_open)
        if exchange.method == "OPTIONS" and b"origin" in exchange.headers and self.browsers.origins:
            return Reply(b"{}")
        route, words = self._route(served, exchange)
        seen.route = route.path
        seen.actor = actor = None if route.is_open else authenticate(served, exchange)
        self.browsers.require_own(exchange)
        if (
            route.action is not None
            and served.rules.policy is not None
            and not route.hides_refusals
        ):
            self._may_at_all(served, actor, route)
        if IF_COMMIT in exchange.headers and not route.is_conditional:
            raise bad_request(  # a condition that nobody looks at must not seem to hold
                "this route does not look at Omnigraph-If-Graph-Commit",
                hint="send it to /mutate/if-graph-commit",
            )
        call = Call(served, exchange, route.path, words, actor)
        if route.body is not None:
            call.body, call.size = await _decoded(exchange, route)
        elif exchange.has_body and route.method != "POST":
            await exchange.body(route.limit)
        elif not exchange.has_body:
            exchange.was_read = True
        try:
            reply = as_reply(await route.handler(call))
        except OmniGraphError as error:
            reply = self._refused(exchange, error)
        finally:
            seen.branch = call.branch
        if call.hidden and isinstance(reply, Reply):
            reply.body = call.without_hidden(reply.body)
        return reply

    @staticmethod
    def _may_at_all(served: Served, actor: str | None, route: Route) -> None:
        """Refuse who has no grant of an action before anything tells them what there is."""
        policy, action = served.rules.policy, route.action
        assert policy is not None, "only a policy refuses"
        assert action is not None, "only an action is refused"
        if not policy.grants_any(actor or "", action):
            raise ProblemError(
                403,
                f"policy denied action '{action.value}' for actor '{actor}'",
                kind=ErrorKind.DENIED,
            )

    def _route(self, served: Served, exchange: Exchange) -> tuple[Route, dict[str, str]]:
        path = exchange.path
        if path.startswith(_GRAPHS):
            path = _below_graph(path, served.graph_id)
        route = self._table.plain(path, exchange.method)
        if route is not None:
            return route, {}
        found = self._table.find("/" + "/".join(segments(path)), exchange.method)
        if isinstance(found, tuple):
            return found
        if not found:
            raise ProblemError(404, f"there is no route '{path}'", kind=ErrorKind.NOT_FOUND)
        allowed = ", ".join(sorted(found))
        raise ProblemError(
            405,
            f"{exchange.method} is not possible here",
            kind=ErrorKind.BAD_REQUEST,
            hint=f"use {allowed}",
            headers=[(b"allow", allowed.encode())],
        )

    def _require(self) -> Served:
        if self.served is None or self.stopping:
            raise ProblemError(503, "the server is starting or stopping", closes=True)
        return self.served

    def _refused(self, exchange: Exchange, error: OmniGraphError) -> Reply:
        status = status_of(error)
        if status >= 500:
            told = (exchange.request_id, type(error).__name__, error)
            log.error("request %s failed: %s: %s", *told, exc_info=error)
        secrets = () if self.served is None else self.served.secrets
        return Reply(orjson.dumps(body_of(error, secrets), default=str), status=status)


def _below_graph(path: str, graph_id: str) -> str:
    """Return what a path asks of the graph that is served."""
    words = path[len(_GRAPHS) :].split("/", 1)
    if segments(words[0]) != [graph_id] or len(words) < 2:
        raise ProblemError(404, "there is no graph of that name", kind=ErrorKind.NOT_FOUND)
    return "/" + words[1]


def authenticate(served: Served, exchange: Exchange) -> str | None:
    """Return who asks; nobody has to say so where no tokens are configured.

    Raises:
        ProblemError: the token is missing or unknown.
    """
    rules = served.rules
    if rules.is_open:
        return None
    header = exchange.headers.get(b"authorization", b"")
    if header[: len(_BEARER)].lower() != _BEARER.encode():
        raise _unauthorized("missing bearer token")
    actor = rules.keyring.actor_of(header[len(_BEARER) :])
    if actor is None:
        raise _unauthorized("invalid bearer token")
    return actor


def _unauthorized(text: str) -> ProblemError:
    return ProblemError(
        401, text, kind=ErrorKind.DENIED, headers=[(b"www-authenticate", b"Bearer")]
    )


async def _decoded(exchange: Exchange, route: Route) -> tuple[Any, int]:
    """Return the body as the route's type, and its size."""
    assert route.body is not None, "the route takes a body"
    body = await exchange.body(route.limit)
    if not body and route.may_be_empty:
        return route.body(), 0
    if not body:
        raise bad_request("the request has no body", hint="send a JSON object")
    try:
        return msgspec.json.decode(body, type=route.body), len(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the request body is wrong: {error}") from None
    except UnicodeDecodeError:
        raise bad_request("the request body is not UTF-8") from None
    except RecursionError:
        raise bad_request("the request body is nested too deeply") from None


def as_reply(found: object) -> Reply | Flow:
    """Return what a handler found as an answer."""
    if isinstance(found, Reply | Flow):
        return found
    value = found if isinstance(found, dict) else found.to_json_value()  # type: ignore[attr-defined] # a Shape
    return Reply(orjson.dumps(value))


async def _send(reply: Reply, extra: list[Header], send: Send) -> None:
    headers = [
        (b"content-type", reply.content_type),
        (b"content-length", str(len(reply.body)).encode()),
        *reply.headers,
        *extra,
    ]
    if reply.closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _timing(started: float) -> Header:
    """Return how long the server took, as tools of browsers and the page show it."""
    return b"server-timing", b"app;dur=%.2f" % ((time.perf_counter() - started) * 1_000)


def _is_twice(headers: Sequence[Header]) -> bool:
    """Whether a header is there twice that has to mean one thing."""
    names = [name for name, _ in headers if name in _ONCE]
    return len(names) > len(set(names))


def request_id_of(headers: dict[bytes, bytes]) -> str:
    """Return the id a caller gave a request if it can stand in a log, else a new one."""
    given = headers.get(b"x-request-id", b"")
    if 0 < len(given) <= 128 and all(0x21 <= byte <= 0x7E for byte in given):
        return given.decode()
    return ULIDS.next(time.time_ns() // 1_000)


def _internal() -> dict[str, str]:
    return {
        "error": "the server could not finish this request",
        "code": "internal",
        "kind": ErrorKind.INTERNAL.value,
        "hint": "the log of the server has more, under the id of this request",
    }


def _line(exchange: Exchange, seen: _Seen, seconds: float) -> str:
    """Return one line about a request: never a token, a text or a value of a parameter."""
    told = {
        "id": exchange.request_id,
        "method": exchange.method,
        "route": seen.route,
        "status": seen.status,
        "ms": round(seconds * 1_000, 2),
        "actor": seen.actor,
        "branch": seen.branch,
    }
    return orjson.dumps(told).decode()
