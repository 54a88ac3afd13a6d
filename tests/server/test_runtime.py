"""A server as a process: starting, stopping, ports, signals, and requests that are odd."""

import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import httpx2
import pytest

from omnigraph.server.logs import Line
from omnigraph.storage.files import layout
from tests.server.conftest import ADULTS
from tests.support.servers import environment, server_process

BIND = ("--bind", "127.0.0.1:0")


def raw(server, request: bytes) -> bytes:
    """Send bytes as they are and return all that comes until the other side closes."""
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), 120) as connection:
        connection.sendall(request)
        found = b""
        while piece := connection.recv(1 << 16):
            found += piece
    return found


def head(body=b"", *, method=b"POST", path=b"/read", extra=b""):
    return (
        method
        + b" "
        + path
        + b" HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer token-of-ann\r\n"
        b"content-type: application/json\r\nconnection: close\r\n" + extra + b"\r\n" + body
    )


@pytest.mark.parametrize("runtime", ["granian", "uvicorn"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_serves_until_it_is_told_to_stop_and_ends_well(people, http, runtime, number):
    with server_process(people, "people.omni", *BIND, "--runtime", runtime) as server:
        address = server.hear_address()
        assert http.get(f"{address}/healthz").json()["status"] == "ok"
        assert http.post(f"{address}/read", json={"query_source": ADULTS}).json()["row_count"] == 2
        assert server.stop(number) == 0
        notes = server.notes.read_text()
        assert "the graph is closed" in notes
        assert "everybody may do everything" in notes


def test_a_busy_port_is_one_clear_line(served, people):
    taken = served.address.removeprefix("http://")
    with server_process(people, "people.omni", "--bind", taken) as second:
        assert second.process.wait(120) == 1
        (line,) = [one for one in second.notes.read_text().splitlines() if "error" in one]
        assert "cannot listen at" in line


@pytest.mark.parametrize(
    ("arguments", "env", "told"),
    [
        (["nowhere.omni"], {}, "there is no graph at"),
        (["people.omni", "--bind", "x"], {}, "'x' is no address to listen at"),
        (["people.omni", "--require-policy"], {}, "a policy is required"),
        (["http://elsewhere"], {}, "only supported against local repo URIs"),
        (["people.omni", "--workers", "2", "--runtime", "uvicorn"], {}, "one worker"),
        (["people.omni"], {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": "["}, "is not valid JSON"),
    ],
)
def test_what_cannot_be_served_is_told_at_the_start(people, arguments, env, told):
    bind = [] if "--bind" in arguments else BIND
    with server_process(people, *arguments, *bind, **env) as server:
        assert server.process.wait(120) == 1
        assert told in server.notes.read_text()
        assert "Traceback" not in server.notes.read_text()


def test_a_policy_without_any_token_is_refused(people):
    (people / "policy.yaml").write_text("version: 1\n")
    (people / "omnigraph.yaml").write_text("policy:\n  file: policy.yaml\n")
    with server_process(people, "people.omni", *BIND) as server:
        assert server.process.wait(120) == 1
        said = server.notes.read_text()
        assert "policy requires at least one configured bearer token actor" in said


@pytest.mark.parametrize(
    ("policy", "says"),
    [("version: 1\nrules: [{id: a, alow: {}}]\n", "--> policy.yaml:2:9"), (None, "not found")],
)
def test_a_policy_that_cannot_be_put_in_force_stops_the_start(people, policy, says):
    if policy is not None:
        (people / "policy.yaml").write_text(policy)
    variables = {
        "OMNIGRAPH_POLICY_FILE": "policy.yaml",
        "OMNIGRAPH_SERVER_BEARER_TOKEN": "token",
    }
    with server_process(people, "people.omni", *BIND, **variables) as server:
        assert server.process.wait(120) == 1
        assert says in server.notes.read_text()


def test_the_graph_of_the_settings_is_served_under_its_name(people, http):
    (people / "omnigraph.yaml").write_text(
        "graphs:\n  team:\n    uri: people.omni\nserver:\n  graph: team\n  bind: 127.0.0.1:0\n"
    )
    with server_process(people) as server:
        address = server.hear_address()
        found = http.get(f"{address}/graphs/team/branches").json()
        assert found == {"branches": ["main"]}
        assert http.get(f"{address}/graphs/default/branches").status_code == 404


def test_a_write_under_way_is_finished_before_the_end(people, http):
    lines = b"".join(
        b'{"type":"Person","data":{"name":"n%d"}}\n' % number for number in range(60_000)
    )
    with server_process(people, "people.omni", *BIND) as server:
        address, done = server.hear_address(), []

        def load():
            params = {"mode": "append"}
            said = {"content-type": "application/x-ndjson"}
            url = f"{address}/load/ndjson"
            done.append(http.post(url, params=params, content=lines, headers=said))

        thread = threading.Thread(target=load)
        thread.start()
        while not done and not any((people / "people.omni" / layout.STAGING_DIR).glob("*/*")):
            assert server.process.poll() is None
        assert server.stop() == 0
        thread.join()
        assert done[0].status_code == 200
        assert done[0].json()["nodes_loaded"] == 60_000


def test_workers_share_a_port_and_are_replaced_when_they_die(people, http):
    with server_process(people, "people.omni", *BIND, "--workers", "2") as server:
        address = server.hear_address()
        workers = server.workers()
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        while len(server.workers()) < 2 or workers[0] in server.workers():
            assert server.process.poll() is None
        status = None
        while status != 200:  # until the other one is there, too
            assert server.process.poll() is None
            with contextlib.suppress(httpx2.TransportError):
                status = http.get(f"{address}/readyz").status_code
        assert "counted by each of 2 workers" in server.notes.read_text()
        workers = server.workers()
        server.process.kill()
        server.process.wait(120)
        while any(_lives(pid) for pid in workers):
            pass


def test_a_worker_that_dies_again_and_again_ends_the_server_which_says_why(people, http):
    with server_process(people, "people.omni", *BIND) as server:
        assert http.get(f"{server.hear_address()}/readyz").status_code == 200
        killed = set()
        while server.process.poll() is None and len(killed) < 20:
            for pid in set(server.workers()) - killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
        assert server.process.wait(120) == 1
        notes = server.notes.read_text()
        assert "WARNING omnigraph.server: worker 1 ended unasked; another one takes" in notes
        assert "worker 1 ended again within seconds of its start: the server ends" in notes


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# Requests that are not as they should be.


def test_both_length_headers_are_refused(served):
    both = b"content-length: 5\r\ntransfer-encoding: chunked\r\n"
    answer = raw(served, head(b"0\r\n\r\n", extra=both))
    assert b" 400 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize(
    "extra", [b"host: other", b"content-type: text/plain", b"authorization: Bearer x"]
)
def test_a_header_that_is_there_twice_is_refused(served, extra):
    body = b'{"name":"main"}'
    length = b"content-length: 15\r\n"
    answer = raw(served, head(body, path=b"/branches", extra=length + extra + b"\r\n"))
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"a header is there twice" in answer


def test_a_body_that_makes_no_sense_is_refused_like_others(served):
    answer = raw(served, head(b"zz\r\n", extra=b"transfer-encoding: chunked\r\n"))
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_request"


def test_a_body_in_chunks_is_read_and_bounded(served, ann):
    body = json.dumps({"query_source": ADULTS}).encode()

    def chunks(size=7):
        for at in range(0, len(body), size):
            yield body[at : at + size]

    assert ann("POST", "/read", content=chunks()).json()["row_count"] == 2

    def endless():
        for _ in range(3_000):
            yield b"x" * 1_024

    refused = ann("POST", "/read", content=endless())
    assert (refused.status_code, refused.json()["code"]) == (413, "bad_request")


def test_a_body_that_is_too_large_is_answered_to_clients_that_only_send(served, ann):
    refused = ann("POST", "/ingest", content=b"x" * (34 << 20))
    assert refused.status_code == 413
    assert refused.json()["resource_limit"] == {"resource": "body_bytes", "limit": 32 << 20}
    assert "/load/ndjson" in refused.json()["hint"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the request has no body"),
        (b"{", "the request body is wrong"),
        (b"[]", "the request body is wrong"),
        (b"\xff\xfe", "the request body is wrong"),
        (b'{"query_source": "\xff"}', "the request body is not UTF-8"),
        (b"[" * 100_000, "the request body"),
    ],
)
def test_a_body_that_is_no_json_is_400(ann, body, told):
    refused = ann("POST", "/read", content=body)
    assert refused.status_code == 400
    assert told in refused.json()["error"]


@pytest.mark.parametrize("path", ["/commits/%ff", "/snapshot?branch=%ff", "/branches/%00"])
def test_a_path_that_is_no_text_is_400(served, path):
    method = b"DELETE" if path.startswith("/branches") else b"GET"
    answer = raw(served, head(method=method, path=path.encode()))
    assert b" 400 " in answer.split(b"\r\n")[0]


def test_requests_in_a_row_are_answered_in_order(served):
    one = head(method=b"GET", path=b"/healthz").replace(b"connection: close\r\n", b"")
    last = head(method=b"GET", path=b"/branches")
    assert raw(served, one + one + last).count(b"HTTP/1.1 200") == 3


def test_a_method_that_is_not_there_is_405_and_says_which_are(ann):
    refused = ann("PUT", "/branches")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")
    assert refused.json()["code"] == "bad_request"
    assert ann("GET", "/branches/x").headers["allow"] == "DELETE"


def test_an_id_of_the_caller_is_echoed_and_stands_in_the_log(served, ann):
    answer = ann.get("/branches", headers={"x-request-id": "my-own-id"})
    assert answer.headers["x-request-id"] == "my-own-id"
    minted = ann.get("/branches", headers={"x-request-id": "not ascii é".encode()})
    assert len(minted.headers["x-request-id"]) == 26
    wanted = minted.headers["x-request-id"]
    while wanted not in served.notes.read_text():
        assert served.process.poll() is None
    (line,) = [one for one in served.notes.read_text().splitlines() if "my-own-id" in one]
    told = json.loads(line[line.index("{") :])
    assert (told["route"], told["status"], told["actor"]) == ("/branches", 200, "act-ann")


def test_no_token_and_no_value_ever_stands_in_the_log(served, ann, nobody):
    text = "query q($n: String) { match { $p: Person $p.name = $n } return { $p.name } }"
    ann.post("/read", {"query_source": text, "params": {"n": "a secret value"}})
    ann.post("/read", {"query_source": text, "params": {"n": 7}})
    nobody.get("/branches", headers={"authorization": "Bearer some-wrong-token"})
    last = nobody.get("/healthz").headers["x-request-id"]
    while last not in served.notes.read_text():
        assert served.process.poll() is None
    notes = served.notes.read_text()
    for secret in ("token-of-ann", "token-of-bob", "a secret value", "some-wrong-token", "Bearer"):
        assert secret not in notes


def test_metrics_are_told_as_prometheus_reads_them(ann):
    ann.get("/branches")
    text = ann.get("/metrics").text
    assert 'omnigraph_http_requests_total{method="GET",route="/branches",status="200"}' in text
    assert "omnigraph_http_seconds_bucket" in text


def test_a_client_that_leaves_stops_its_export(served, ann, branch):
    lines = b"".join(
        b'{"type":"Person","data":{"name":"m%d","bio":"%s"}}\n' % (number, b"x" * 200)
        for number in range(60_000)
    )
    params = {"branch": branch, "mode": "append"}
    assert ann.post("/load/ndjson", params=params, content=lines).status_code == 200
    with ann.client.stream(
        "POST", f"{served.address}/export", headers=ann.headers, json={"branch": branch}
    ) as answer:
        wanted = answer.headers["x-request-id"]
        next(answer.iter_bytes())
    while not any(wanted in line for line in served.notes.read_text().splitlines()):
        assert served.process.poll() is None
    (line,) = [one for one in served.notes.read_text().splitlines() if wanted in one]
    assert json.loads(line[line.index("{") :])["status"] == 499


def test_a_server_is_open_to_pages_that_are_named(people, http):
    with server_process(people, "people.omni", *BIND, "--cors-origin", "https://page") as server:
        address = server.hear_address()
        asked = {"origin": "https://page", "access-control-request-method": "POST"}
        allowed = http.request("OPTIONS", f"{address}/read", headers=asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://page"
        other = http.get(f"{address}/healthz", headers={"origin": "https://other"})
        assert "access-control-allow-origin" not in other.headers


NODE = """
const base = process.argv[2], headers = {Authorization: 'Bearer token-of-ann'};
const ask = async (method, path, body) => {
  const answer = await fetch(base + path, {method, headers: body === undefined ? headers
    : {...headers, 'Content-Type': 'application/json'}, body: body && JSON.stringify(body)});
  const type = answer.headers.get('content-type');
  const isJson = type.startsWith('application/json');
  return [answer.status, isJson ? await answer.json() : await answer.text()];
};
const out = {};
out.health = await ask('GET', '/healthz');
out.made = await ask('POST', '/branches', {name: 'node/js'});
out.change = await ask('POST', '/change', {branch: 'node/js',
  query_source: 'query add($n: String) { insert Person { name: $n } }', params: {n: 'Zoë'}});
out.read = await ask('POST', '/read', {branch: 'node/js',
  query_source: 'query all() { match { $p: Person } return { $p.name } }'});
out.export = (await ask('POST', '/export', {branch: 'node/js'}))[1].split('\\n').length;
out.abort = await ask('POST', '/runs/01HXXXXXXXXXXXXXXXXXXXXXXX/abort');
out.large = (await ask('POST', '/ingest', {data: 'x'.repeat(34 << 20)}))[0];
out.gone = await ask('DELETE', '/branches/node%2Fjs');
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
def test_a_client_in_another_language_is_served(served, tmp_path):
    script = tmp_path / "client.mjs"
    script.write_text(NODE)
    done = subprocess.run(
        ["node", str(script), served.address],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["health"][1]["version"].startswith("0.3.")
    assert found["change"][1]["affected_nodes"] == 1
    assert {"p.name": "Zoë"} in found["read"][1]["rows"]
    assert (found["export"], found["abort"][0], found["large"]) == (6, 404, 413)
    assert found["gone"] == [200, {"uri": "people.omni", "name": "node/js", "actor_id": "act-ann"}]


def test_a_line_of_the_log_is_what_the_library_would_write():
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    ours = Line()
    for created in (0.0, 1.5, 1.999, 1_700_000_000.25, 1_700_000_000.75, 1_700_000_001.0):
        record = logging.LogRecord("a.b", logging.INFO, "", 0, "%s and %d", ("x", 3), None)
        record.created, record.msecs = created, (created % 1) * 1_000
        assert ours.format(record) == plain.format(record)
    try:
        raise ValueError("why")
    except ValueError:
        failed = logging.LogRecord("a", logging.ERROR, "", 0, "no", None, sys.exc_info())
    assert ours.format(failed).endswith("ValueError: why")
