"""One real S3 server per test process, and a fresh place in its bucket per test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from omnigraph.storage.options import DEFAULTS, S3Options, StorageOptions
from tests.support.children import Child, children
from tests.support.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server, running_s3


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def options(server: S3Server) -> StorageOptions:
    """Leases that nobody outlives: a busy machine may stop a live holder for a while."""
    s3 = S3Options(server.endpoint, ACCESS_KEY, SECRET_KEY, region=REGION, allow_http=True)
    return replace(DEFAULTS, s3=s3, lease_ttl_s=120.0, lock_timeout_s=60.0, maintenance="manual")


@pytest.fixture
def mortal(options: StorageOptions) -> StorageOptions:
    """Leases for those who take over: as short as a live holder on a busy machine can renew."""
    return replace(options, lease_ttl_s=6.0)


@pytest.fixture
def root() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    with children() as starter:
        yield starter
