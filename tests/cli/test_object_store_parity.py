"""Every command says the same of a graph on disk and of a copy of it on an object store."""

import uuid

import pytest

import omnigraph
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import S3Options, StorageOptions
from tests.cli.test_remote import FRESH, READS, parity_folder, plain, restore
from tests.support.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, running_s3

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3-commands")]

OF_FILES = [
    ["verify"],
    ["verify", "--json"],
    ["verify", "--deep"],
    ["repair"],
    ["repair", "--json"],
    ["lock", "show"],
    ["lock", "break", "branch:nope"],
    ["embed", "--graph"],
]
"""What a server is not asked, but a store is."""
ASKED = [one for one in READS if one[0] != "du"]
"""Not how many bytes: what names a lock here is one file, and there two of another size."""


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def folder(template, tmp_path_factory):
    return parity_folder(template, tmp_path_factory.mktemp("parity"))


@pytest.fixture
def here(store, folder, cli, monkeypatch):
    """The folder of the graph, in an environment that knows the way to the object store."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def only_read(store, folder):
    return copied(store, folder)


def copied(store, folder):
    """Return the address of a copy of the graph as it was at first."""
    s3 = S3Options(store.endpoint, ACCESS_KEY, SECRET_KEY, region=REGION, allow_http=True)
    options = GraphOptions(storage=StorageOptions(s3=s3, durability="os"), embedder=None)
    there = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    restore(folder)
    omnigraph.connect(
        folder / "people.omni", options=options
    ).close()  # as the copy is, once checked
    omnigraph.clone(folder / "people.omni", there, options=options)
    return there


@pytest.mark.parametrize("arguments", ASKED, ids=" ".join)
def test_a_command_reads_the_same_from_an_object_store(here, only_read, cli, arguments):
    far = plain(cli(*arguments, "--uri", only_read), only_read, here)
    near = plain(cli(*arguments, "--uri", "people.omni"), "people.omni", here)
    assert far == near


@pytest.mark.parametrize("arguments", [*FRESH, *OF_FILES], ids=" ".join)
def test_a_command_does_the_same_on_an_object_store(store, here, cli, arguments):
    there = copied(store, here)
    far = plain(cli(*arguments, "--uri", there), there, here)
    near = plain(cli(*arguments, "--uri", "people.omni"), "people.omni", here)
    assert far == near
