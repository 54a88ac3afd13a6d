"""Pages of other servers, names that lead here, and bodies any page could send: all refused."""

import json
import subprocess

import pytest

from omnigraph.server.browsers import Browsers, browsers_for
from omnigraph.server.http import Exchange
from omnigraph.server.options import ServeOptions
from omnigraph.server.problems import ProblemError
from tests.server.conftest import ADULTS, Asker
from tests.support.servers import server_process, server_thread

MADE = {"name": "made"}


@pytest.fixture(scope="module")
def open_server(template):
    with server_thread(str(template / "people.omni")) as found:
        yield found


@pytest.fixture
def page(open_server, http):
    return Asker(http, open_server, {})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 409),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "http://localhost"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 409),
        ({"sec-fetch-site": "none"}, 409),
        ({"sec-fetch-mode": "cors"}, 409),  # as Node says
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8080"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "[::1]evil.example"}, 421),
        ({"host": "localhost, evil.example"}, 421),
        ({"host": "localhost@evil.example"}, 421),
        ({"host": "localhost:1"}, 409),
        ({"host": "graph.localhost."}, 409),
        ({"host": "[::1]:8080"}, 409),
        ({"host": "192.168.1.7"}, 409),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "text/plain; application/json"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "Application/JSON; charset=utf-8"}, 409),
        ({"content-type": "application/merge-patch+json"}, 409),
    ],
)
def test_what_a_page_of_another_origin_sends_does_nothing(page, headers, status):
    said = {"content-type": "application/json"} | headers
    refused = page("POST", "/branches", content=b'{"name":"main"}', headers=said)
    assert refused.status_code == status, refused.text
    found = refused.json()
    assert found["error"]
    assert found["code"] == {403: "forbidden", 409: "conflict"}.get(status, "bad_request")
    if status != 409:
        assert found["hint"]
    assert page.get("/branches").json() == {"branches": ["main"]}


def test_its_own_page_may_ask(page):
    for origin in (page.address, page.address.replace("http://", "https://")):  # behind a proxy
        asked = page.post("/read", {"query_source": ADULTS}, headers={"origin": origin})
        assert asked.status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/branches/main"),
        ("POST", "/runs/01HXXXXXXXXXXXXXXXXXXXXXXX/publish"),
        ("POST", "/runs/01HXXXXXXXXXXXXXXXXXXXXXXX/abort"),
        ("POST", "/maintenance/optimize"),
        ("DELETE", "/locks/graph"),
    ],
)
def test_what_needs_no_body_is_refused_as_well(page, method, path):
    for header in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        refused = page(method, path, headers=header)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/branches", "/export", "/nowhere"])
def test_a_name_that_was_made_to_lead_here_reads_nothing(page, path):
    refused = page.get(path, headers={"host": "rebound.example"})
    assert refused.status_code == 421
    assert "--allowed-host" in refused.json()["hint"]


def test_a_token_comes_before_where_a_request_is_from(nobody, ann):
    foreign = {"origin": "https://evil.example"}
    assert nobody.post("/branches", MADE, headers=foreign).status_code == 401
    assert ann.post("/branches", MADE, headers=foreign).status_code == 403
    assert ann.get("/branches", headers=foreign).status_code == 200


def test_names_and_pages_can_be_allowed(people, http):
    flags = ["--cors-origin", "https://page.example", "--allowed-host", "Graph.Example"]
    with server_process(people, "people.omni", "--bind", "127.0.0.1:0", *flags) as server:
        ask = Asker(http, server.hear_address(), {})
        known = {"origin": "https://page.example", "sec-fetch-site": "cross-site"}
        made = ask.post("/branches", MADE, headers=known | {"host": "graph.example:443"})
        assert made.status_code == 200
        assert made.headers["access-control-allow-origin"] == "https://page.example"
        assert "omnigraph-commit" in made.headers["access-control-expose-headers"]
        refused = ask.post("/branches", MADE, headers={"origin": "https://other.example"})
        assert refused.status_code == 403
        assert refused.headers["vary"] == "origin"
        assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize(
    ("options", "is_open", "host", "let_in"),
    [
        ({"host": "127.0.0.1"}, False, "proxy.example", False),
        ({"host": "0.0.0.0"}, False, "proxy.example", True),  # everything needs a token
        ({"host": "0.0.0.0"}, True, "proxy.example", False),
        ({"host": "0.0.0.0"}, True, "10.0.0.7:8080", True),
        ({"host": "graph.internal"}, True, "graph.internal:8080", True),
        ({"host": "0.0.0.0", "allowed_hosts": ("a.example",)}, False, "b.example", False),
        ({"host": "0.0.0.0", "allowed_hosts": ("a.example",)}, True, "A.example", True),
        ({"host": "127.0.0.1"}, True, None, True),  # as HTTP/1.0 may
        ({"host": "127.0.0.1"}, True, "", True),
    ],
)
def test_which_names_are_its_own(options, is_open, host, let_in):
    found = browsers_for(ServeOptions("x", **options))
    headers = {} if host is None else {b"host": host.encode()}
    exchange = Exchange("GET", "/", b"", headers, None, "id")
    if let_in:
        found.require_name(exchange, is_open=is_open)
    else:
        with pytest.raises(ProblemError):
            found.require_name(exchange, is_open=is_open)


def test_nobody_is_let_in_by_chance():
    assert Browsers().headers(Exchange("GET", "/", b"", {b"origin": b""}, None, "id")) == []


def test_what_a_browser_shows_is_the_page_alone(page):
    answer = page.get("/docs")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert page.get("/branches").headers["x-content-type-options"] == "nosniff"


def test_curl_is_told_what_to_say(open_server):
    ask = ["curl", "-s", f"{open_server}/read", "-d", json.dumps({"query_source": ADULTS})]
    try:
        said = subprocess.run(ask, capture_output=True, check=True, timeout=60).stdout
    except FileNotFoundError:
        pytest.skip("there is no curl here")
    assert "--json" in json.loads(said)["hint"]
