"""From an empty folder to a served graph: every step finds what is there and goes on from it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omnigraph.api.wire import Shape
from omnigraph.base.uri import parse_uri
from omnigraph.errors import AlreadyExistsError, BadRequestError, NotFoundError, StorageError
from omnigraph.graph import GraphOptions, connect, init
from omnigraph.local import object_store
from omnigraph.local.object_store import StorePorts
from omnigraph.local.processes import LocalStackError, Program, end_of, start, waited_for
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.options import S3Options, StorageOptions

_WAIT_S = 120.0
_SERVER_STOP_S = 40.0
_STORE_STOP_S = 30.0
_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]")
_STATE, _LOCK = "state.json", "lock"
ENV_FILE = "omnigraph.env"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to run, and what a new graph begins with."""

    schema: Path
    rows: Path | None
    bucket: str = "omnigraph-local"
    prefix: str = "repos/context"
    bind: str = "127.0.0.1:8080"
    s3_port: int | None = None
    reset: bool = False


@dataclass(frozen=True, slots=True)
class LocalStack(Shape):
    """What runs, and how to reach it."""

    folder: str
    uri: str
    endpoint: str
    access_key: str
    secret_key: str
    token: str
    url: str
    store_running: bool = False
    server_running: bool = False
    created: bool = False
    """Whether the graph was made just now."""


@dataclass(frozen=True, slots=True)
class _State(Shape):
    """What a folder remembers between two commands."""

    ports: StorePorts
    access_key: str
    secret_key: str
    token: str
    bucket: str
    prefix: str
    bind: str
    store: Program | None = None
    server: Program | None = None

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def url(self) -> str:
        host, _, port = self.bind.rpartition(":")
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104

    def variables(self) -> dict[str, str]:
        """Return what programs need to know to reach the store and the server."""
        return {
            "AWS_REGION": object_store.REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.ports.s3}",
            "AWS_S3_FORCE_PATH_STYLE": "true",
            "AWS_ALLOW_HTTP": "true",
            "OMNIGRAPH_BEARER_TOKEN": self.token,
        }

    def options(self) -> GraphOptions:
        s3 = S3Options(
            endpoint=f"http://127.0.0.1:{self.ports.s3}",
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region=object_store.REGION,
            allow_http=True,
        )
        return GraphOptions(storage=StorageOptions(s3=s3))


def start_stack(
    folder: Path, wanted: Wanted, environment: Mapping[str, str], say: Say
) -> LocalStack:
    """Start what does not run yet, and make the graph if there is none.

    Raises:
        BadRequestError: no graph can be at that place, a port is taken, or the place holds
            something else.
        LocalStackError: a program does not start.
    """
    _check_place(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        state = _agreed(folder, wanted)
        _write_state(folder, state)
        state = _with_store(folder, state, environment, say)
        created = _with_graph(state, wanted, say)
        state = _with_server(folder, state, environment, say)
        _write_env(folder, state)
        return replace(_shown(folder, state), created=created)


def _check_place(wanted: Wanted) -> None:
    """Refuse what the object store would, which says so by never being ready."""
    if _BUCKET.fullmatch(wanted.bucket) is None:
        raise BadRequestError(
            f"'{wanted.bucket}' is no name of a bucket",
            hint="3 to 63 small letters, digits, . and -, with a letter or digit at both ends",
        )
    parse_uri(f"s3://{wanted.bucket}/{wanted.prefix}")


def stop_stack(folder: Path, say: Say) -> LocalStack:
    """Stop the server, then the store; the data stay."""
    with _alone(folder):
        state = _known(folder)
        if state.server is not None and state.server.stop(_SERVER_STOP_S):
            say("stopped the server")
        if state.store is not None:
            say("stopping the object store, which writes out what it holds")
            state.store.stop(_STORE_STOP_S)
        state = replace(state, server=None, store=None)
        _write_state(folder, state)
        return _shown(folder, state)


def stack_status(folder: Path) -> LocalStack:
    """Return what runs.

    Raises:
        NotFoundError: nothing was ever started in that folder.
    """
    return _shown(folder, _known(folder))


def _shown(folder: Path, state: _State) -> LocalStack:
    return LocalStack(
        str(folder),
        state.uri,
        f"http://127.0.0.1:{state.ports.s3}",
        state.access_key,
        state.secret_key,
        state.token,
        state.url,
        state.store is not None and state.store.is_running,
        state.server is not None and state.server.is_running,
    )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other command work on the folder meanwhile."""
    if not folder.is_dir():
        raise _nothing_in(folder)
    with (folder / _LOCK).open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequestError(
                f"another command is at work in {folder}", hint="wait for it"
            ) from None
        yield


def _nothing_in(folder: Path) -> NotFoundError:
    return NotFoundError(
        f"no local stack was started in {folder}", hint="omnigraph local start --dir <folder>"
    )


def _known(folder: Path) -> _State:
    try:
        return _State.from_json_value(json.loads((folder / _STATE).read_text()))
    except FileNotFoundError:
        raise _nothing_in(folder) from None
    except ValueError as error:
        raise BadRequestError(
            f"{folder / _STATE} is damaged: {error}", hint="move it away and start again"
        ) from None


def _agreed(folder: Path, wanted: Wanted) -> _State:
    """Return what the folder remembers with what is wanted now."""
    if not (folder / _STATE).exists():
        return _State(
            object_store.free_ports(wanted.s3_port),
            "omnigraph",
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(24),
            wanted.bucket,
            wanted.prefix,
            wanted.bind,
        )
    known = _known(folder)
    if known.server is not None and known.bind != wanted.bind:
        known.server.stop(_SERVER_STOP_S)
    known = replace(known, bucket=wanted.bucket, prefix=wanted.prefix, bind=wanted.bind)
    if known.store is not None and known.store.is_running:
        return known
    asked = wanted.s3_port
    moved = asked is not None and asked != known.ports.s3
    return replace(known, ports=object_store.free_ports(asked)) if moved else known


def _write_state(folder: Path, state: _State) -> None:
    _write(folder / _STATE, json.dumps(state.to_json_value(), indent=2) + "\n")


def _write_env(folder: Path, state: _State) -> None:
    """Write what other programs need; `auth.env_file` of an omnigraph.yaml may name it."""
    _write(folder / ENV_FILE, "".join(f"{name}={value}\n" for name, value in _named(state)))


def _named(state: _State) -> list[tuple[str, str]]:
    return sorted(state.variables().items())


def _write(path: Path, text: str) -> None:
    """Write a file that holds secrets: whole or not at all, and for nobody else to read."""
    made = path.with_suffix(".new")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    made.replace(path)


def _with_store(folder: Path, state: _State, environment: Mapping[str, str], say: Say) -> _State:
    """Return the state with an object store that runs and has the bucket."""
    log = folder / "store.log"
    if state.store is None or not state.store.is_running:
        say(f"starting an object store on http://127.0.0.1:{state.ports.s3}")
        data, identities = folder / "store", folder / "identities.json"
        data.mkdir(exist_ok=True)
        object_store.write_identities(identities, state.access_key, state.secret_key)
        command = object_store.command(data, state.ports, identities)
        state = replace(state, store=start(command, log, environment))
        _write_state(folder, state)
    _require(state.store, lambda: object_store.is_up(state.ports), "the object store", log)
    _require(
        state.store, lambda: object_store.make_bucket(state.ports, state.bucket), "the bucket", log
    )
    _require(state.store, lambda: _is_writable(state), "the object store", log)
    return state


def _is_writable(state: _State) -> bool:
    """Whether an object can be written: the volumes start after the front door."""
    objects = _objects(f"s3://{state.bucket}/.ready", state)
    try:
        objects.put("probe", b"x")
        objects.delete("probe")
    except StorageError:
        return False
    return True


def _objects(uri: str, state: _State) -> Objects:
    return Objects(parse_uri(uri), state.options().storage, Counters())


def _with_graph(state: _State, wanted: Wanted, say: Say) -> bool:
    """Make the graph if there is none; return whether it was made."""
    options = state.options()
    if not wanted.reset:
        try:
            with connect(state.uri, read_only=True, options=options) as graph:
                graph.snapshot()
        except NotFoundError:
            pass
        else:
            say(f"found the graph {state.uri}")
            return False
    objects = _objects(state.uri, state)
    there = [info.name for info in objects.list("")]
    if there and not wanted.reset:
        raise AlreadyExistsError(
            f"{state.uri} holds {len(there)} objects that are no graph",
            hint="take another --prefix, or --reset to remove them",
        )
    if there:
        say(f"removing what is at {state.uri}")
        objects.delete(*there)
    say(f"making the graph {state.uri}")
    with init(state.uri, wanted.schema, options=options) as graph:
        if wanted.rows is not None:
            done = graph.load(wanted.rows, "append", actor="local")
            nodes, edges = sum(done.nodes_loaded.values()), sum(done.edges_loaded.values())
            say(f"loaded {nodes} nodes and {edges} edges")
    return True


def _with_server(folder: Path, state: _State, environment: Mapping[str, str], say: Say) -> _State:
    """Return the state with a server of the graph that runs."""
    log = folder / "server.log"
    if state.server is not None and state.server.is_running and _is_served(state):
        say(f"the server runs at {state.url}")
        return state
    if state.server is not None:
        state.server.stop(_SERVER_STOP_S)
    say(f"starting the server on {state.url}")
    own = {**environment, **state.variables(), "OMNIGRAPH_SERVER_BEARER_TOKEN": state.token}
    command = [sys.executable, "-m", "omnigraph", "serve", state.uri, "--bind", state.bind]
    log.unlink(missing_ok=True)
    state = replace(state, server=start(command, log, own))
    _write_state(folder, state)
    _require(state.server, lambda: _is_served(state), "the server", log)
    return state


def _require(program: Program | None, ready: Callable[[], bool], what: str, log: Path) -> None:
    """Wait for a program.

    Raises:
        LocalStackError: it ended, or is not ready in time.
    """
    assert program is not None

    def settled() -> bool:
        return not program.is_running or ready()

    if not waited_for(settled, _WAIT_S) or not program.is_running:
        verb = "does not answer" if program.is_running else "ended"
        raise LocalStackError(f"{what} {verb}; {log} ends with:\n{end_of(log)}")


def _is_served(state: _State) -> bool:
    """Whether our graph is served to our token at the address."""
    request = urllib.request.Request(  # noqa: S310 - loopback, or as the user says
        f"{state.url}/snapshot?branch=main", headers={"Authorization": f"Bearer {state.token}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as answer:
            found: Any = json.load(answer)
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "tables" in found


__all__ = [
    "ENV_FILE",
    "LocalStack",
    "Wanted",
    "stack_status",
    "start_stack",
    "stop_stack",
]
