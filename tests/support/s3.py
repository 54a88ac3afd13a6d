"""A real S3 server on loopback, started once per test process and stopped with it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "omni", "omni-secret", "us-east-1", "graphs"
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server listens and how to log in."""

    endpoint: str

    def options(self) -> dict[str, str]:
        """Return the settings both the object layer and Lance understand."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "region": REGION,
            "allow_http": "true",
        }


@contextlib.contextmanager
def running_s3(folder: Path) -> Iterator[S3Server]:
    """Run a SeaweedFS server with one bucket until the block ends."""
    identities = {
        "identities": [
            {
                "name": "tests",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s3.json").write_text(json.dumps(identities))
    master, volume, filer, s3 = (_free_port() for _ in range(4))
    command = [
        str(Path(sys.executable).parent / "weed"),
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={master}",
        f"-volume.port={volume}",
        "-volume.max=50",
        "-master.volumeSizeLimitMB=64",
        f"-filer.port={filer}",
        "-s3",
        f"-s3.port={s3}",
        "-s3.port.iceberg=0",  # these two would sit on fixed ports, one server per machine
        "-s3.port.lance=0",
        f"-s3.config={folder / 's3.json'}",
    ]
    with (folder / "weed.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            endpoint = f"http://127.0.0.1:{s3}"
            _wait_until_up(endpoint, server, folder / "weed.log")
            _create_bucket(endpoint)
            yield S3Server(endpoint)
        finally:
            server.kill()  # its data is temporary, and a polite stop takes it 20 s
            server.wait()


def _free_port() -> int:
    """Return a port that is free together with its gRPC twin, 10,000 above."""
    for _ in range(100):
        with socket.socket() as one, socket.socket() as twin:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            if port + 10_000 > 65_535:
                continue
            try:
                twin.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port pair on loopback")


def _wait_until_up(endpoint: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(endpoint, timeout=1)
        except urllib.error.HTTPError:
            return  # it answers, and wants a signature
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the S3 server did not start:\n{log.read_text()[-2000:]}")


def _create_bucket(endpoint: str) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=REGION,
    )
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            client.create_bucket(Bucket=BUCKET)
        except client.exceptions.ClientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)  # the filer behind it may still be starting
        else:
            return
