"""A real S3 server on loopback, started once per test process and stopped with it."""

from __future__ import annotations

import contextlib
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.local.object_store import command, free_ports, write_identities

ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "omni", "omni-secret", "us-east-1", "graphs"
_START_SECONDS = 120
_ATTEMPTS = 5


@dataclass(slots=True)
class S3Server:
    """Where the server listens, how to log in, and its process."""

    endpoint: str
    command: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes]

    def restart(self) -> None:
        """Kill the server in the middle of whatever it does, and start it where it was."""
        self.kill()
        self.process = _started(self.command, self.log)
        if not _is_up(self.endpoint, self.process, self.log):
            raise RuntimeError(f"the S3 server did not start again:\n{_end_of(self.log)}")

    def kill(self) -> None:
        """End the server at once: its data is temporary, and a polite stop takes it 20 s."""
        self.process.kill()
        self.process.wait()

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
    folder.mkdir(parents=True, exist_ok=True)
    write_identities(folder / "s3.json", ACCESS_KEY, SECRET_KEY)
    for attempt in range(_ATTEMPTS):
        with _server(folder, folder / f"data{attempt}") as server:
            if server is not None:
                _create_bucket(server.endpoint)
                yield server
                return
    raise RuntimeError(f"no S3 server starts:\n{_end_of(folder / 'weed.log')}")


@contextlib.contextmanager
def _server(folder: Path, data: Path) -> Iterator[S3Server | None]:
    """Run a server; none if it ended, as when somebody else got its port."""
    data.mkdir()
    ports = free_ports()
    started = command(data, ports, folder / "s3.json")
    log = folder / "weed.log"
    server = S3Server(f"http://127.0.0.1:{ports.s3}", started, log, _started(started, log))
    try:
        yield server if _is_up(server.endpoint, server.process, log) else None
    finally:
        server.kill()


def _started(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)


def _end_of(log: Path) -> str:
    return log.read_text()[-2000:]


def _is_up(endpoint: str, server: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until the server answers; False if it ended instead."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            return False
        try:
            urllib.request.urlopen(endpoint, timeout=5)
        except urllib.error.HTTPError:
            return server.poll() is None  # it answers, and wants a signature
        except OSError:
            time.sleep(0.1)
        else:
            return server.poll() is None
    raise RuntimeError(f"the S3 server did not start:\n{_end_of(log)}")


def _create_bucket(endpoint: str) -> None:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

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
            with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="probe", Body=b"x")
            client.delete_object(Bucket=BUCKET, Key="probe")
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)  # the filer and the volumes behind it may still be starting
        else:
            return
