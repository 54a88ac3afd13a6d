import shutil
from dataclasses import dataclass

import httpx2
import pytest

import omnigraph
from tests.cli.conftest import QUERIES, ROWS, SCHEMA, write_files
from tests.support.fast import FAST
from tests.support.servers import server_process

ADULTS = "query adults() { match { $p: Person $p.age >= 18 } return { $p.name, $p.age } }"
ADD = "query add($name: String) { insert Person { name: $name, age: 50 } }"
TOKENS = '{"act-ann": "token-of-ann", "act-bob": "token-of-bob"}'


@dataclass(frozen=True)
class Asker:
    """Asks one server, in the name of whoever has the token."""

    client: httpx2.Client
    address: str
    headers: dict[str, str]

    def __call__(self, method, path, *, json=None, headers=None, **more):
        body = {"content-type": "application/json"} if "content" in more else {}
        said = self.headers | body | (headers or {})
        return self.client.request(method, self.address + path, json=json, headers=said, **more)

    def get(self, path, **more):
        return self("GET", path, **more)

    def post(self, path, json=None, **more):
        return self("POST", path, json=json, **more)

    def delete(self, path, **more):
        return self("DELETE", path, **more)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A graph of three people that tests copy."""
    folder = tmp_path_factory.mktemp("served")
    write_files(folder)
    with omnigraph.init(str(folder / "people.omni"), SCHEMA, options=FAST) as graph:
        for name, age, bio in ROWS:
            graph.mutate(QUERIES, "add", {"name": name, "age": age, "bio": bio})
        graph.mutate(QUERIES, "meet", {"a": "Ann", "b": "Bob", "on": "2020-02-29"})
    return folder


@pytest.fixture
def people(template, tmp_path):
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="session")
def http():
    with httpx2.Client(timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def served(template, tmp_path_factory):
    """One server with tokens, for tests that change nothing but branches of their own."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    with server_process(
        folder,
        "people.omni",
        "--bind",
        "127.0.0.1:0",
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=TOKENS,
    ) as server:
        server.hear_address()
        yield server


@pytest.fixture
def ann(served, http):
    return Asker(http, served.address, {"authorization": "Bearer token-of-ann"})


@pytest.fixture
def bob(served, http):
    return Asker(http, served.address, {"authorization": "Bearer token-of-bob"})


@pytest.fixture
def nobody(served, http):
    return Asker(http, served.address, {})


@pytest.fixture
def branch(ann, request):
    """A branch that only this test writes to."""
    name = f"of/{abs(hash(request.node.nodeid))}"
    assert ann.post("/branches", {"name": name}).status_code == 200
    return name
