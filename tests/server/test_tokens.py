"""Who may come in: tokens from every source, hashed, compared in constant time, never shown."""

import hashlib
import json
import signal
import socketserver
import threading
from http.server import BaseHTTPRequestHandler

import pytest

from omnigraph.config.environment import Environment
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.server import tokens
from omnigraph.server.tokens import Keyring, load_keyring
from tests.support.servers import server_process

PREFIX = "OMNIGRAPH_SERVER_BEARER_"


def keyring(**given):
    return load_keyring(Environment({PREFIX + name: value for name, value in given.items()}))


def test_keys_of_actors_whose_names_have_colons_are_their_own(people, http):
    actors = {"act": "one", "act:x": "two", "act%3Ax": "three"}
    tokens_of_all = {f"{PREFIX}TOKENS_JSON": json.dumps(actors)}
    asked = {"query": 'query add_one() { insert Person { name: "Zed", age: 1 } }'}
    with server_process(people, "people.omni", "--bind", "127.0.0.1:0", **tokens_of_all) as server:
        address = server.hear_address()
        for token, key in (("two", "k"), ("one", "x:k"), ("three", "k")):
            headers = {"authorization": f"Bearer {token}", "idempotency-key": key}
            done = http.post(f"{address}/change", json=asked, headers=headers)
            assert (done.status_code, done.json()["replayed"]) == (200, False), done.text


def test_a_token_is_kept_as_its_hash():
    found = Keyring([("a", "abc")], "env-or-file")
    (one,) = found._credentials
    assert one.digest.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert one.digest == hashlib.sha256(b"abc").digest()
    assert "abc" not in repr(vars(found))


@pytest.mark.parametrize("count", [1, 2, 64, 65, 1_000])
def test_every_token_is_found_and_no_other(count):
    pairs = [(f"actor-{number:04}", f"token-{number}") for number in range(count)]
    found = Keyring(pairs, "env-or-file")
    for actor, token in (pairs[0], pairs[count // 2], pairs[-1]):
        assert found.actor_of(token.encode()) == actor
    for wrong in (b"", b"token-", b" token-0", b"token-0 ", b"\xff"):
        assert found.actor_of(wrong) is None


def test_few_tokens_are_all_compared(monkeypatch):
    found = Keyring([(f"a{number}", f"t{number}") for number in range(10)], "env-or-file")
    compared = []
    monkeypatch.setattr(
        tokens.hmac, "compare_digest", lambda one, other: compared.append(one) or one == other
    )
    assert found.actor_of(b"t0") == "a0"
    assert len(compared) == 10


def test_one_token_and_a_file_go_together_and_the_file_wins_over_the_text(tmp_path):
    file = tmp_path / "tokens.json"
    file.write_text('{"team-02": " two ", "team-01": "one"}')
    found = keyring(TOKEN=" single ", TOKENS_FILE=str(file), TOKENS_JSON='{"other": "x"}')
    assert found.actors == ("default", "team-01", "team-02")
    assert found.actor_of(b"two") == "team-02"
    assert found.actor_of(b"single") == "default"
    assert keyring(TOKENS_JSON='{"other": "x"}').actors == ("other",)
    assert not keyring(TOKEN="  ")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"TOKENS_JSON": '{" ": "x"}'}, "bearer token actor names must not be blank"),
        ({"TOKENS_JSON": '{"a": " "}'}, "bearer token for actor 'a' must not be blank"),
        ({"TOKENS_JSON": '{"a": "x", "a": "y"}'}, "duplicate bearer token actor 'a'"),
        ({"TOKENS_JSON": '{"default": "x"}', "TOKEN": "y"}, "duplicate bearer token actor"),
        ({"TOKENS_JSON": '{"a": "x", "b": "x"}'}, "duplicate bearer token value configured"),
        ({"TOKENS_JSON": '["a"]'}, "is not a JSON object"),
        ({"TOKENS_JSON": '{"a": 1}'}, "the token of 'a' is not text"),
        ({"TOKENS_JSON": '{"a": "secret"'}, "is not valid JSON"),
    ],
)
def test_tokens_that_cannot_be_are_refused_without_showing_them(given, told):
    with pytest.raises(BadRequestError) as caught:
        keyring(**given)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(StorageError, match="cannot be read"):
        keyring(TOKENS_FILE=str(tmp_path / "none.json"))


@pytest.fixture
def secrets_manager():
    """Stands in for AWS Secrets Manager: answers what a test put under a name."""
    held = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found = held.get(asked["SecretId"])
            status = 400 if found is None else 200
            body = json.dumps(found or {"__type": "ResourceNotFoundException"}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/x-amz-json-1.1")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield held, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def aws(endpoint, **more):
    return Environment(
        {
            tokens.AWS_SECRET: "graph/tokens",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "key",
            "AWS_ENDPOINT_URL_SECRETS_MANAGER": endpoint,
            **more,
        }
    )


def test_tokens_in_aws_exclude_all_others(secrets_manager):
    held, endpoint = secrets_manager
    held["graph/tokens"] = {"SecretString": '{"act-ann": " one "}'}
    found = load_keyring(aws(endpoint, OMNIGRAPH_SERVER_BEARER_TOKEN="other"))
    assert (found.actors, found.source) == (("act-ann",), "aws-secrets-manager")
    assert found.actor_of(b"one") == "act-ann"


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ({"SecretBinary": "eA=="}, "has no SecretString"),
        ({"SecretString": "[1]"}, "not a JSON object"),
        (None, "cannot be read"),
    ],
)
def test_a_secret_that_cannot_be_is_refused(secrets_manager, secret, told):
    held, endpoint = secrets_manager
    if secret is not None:
        held["graph/tokens"] = secret
    with pytest.raises((BadRequestError, StorageError), match=told):
        load_keyring(aws(endpoint))


# Over a socket.


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (None, "missing bearer token"),
        ("Basic x", "missing bearer token"),
        ("Bearer nope", "invalid bearer token"),
    ],
)
def test_who_has_no_token_is_told_so(nobody, header, told):
    headers = {} if header is None else {"authorization": header}
    answer = nobody.get("/branches", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (401, told)
    assert answer.json()["code"] == "unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_token_comes_before_everything_but_the_route(nobody):
    assert nobody.post("/read", {"query_source": 1}).status_code == 401
    assert nobody.get("/metrics").status_code == 401
    assert nobody.get("/nowhere").status_code == 404


def test_either_token_is_good_and_says_who_writes(ann, bob, branch):
    text = "query q($n: String) { insert Person { name: $n } }"
    for asker, name in ((ann, "act-ann"), (bob, "act-bob")):
        asked = {"query_source": text, "params": {"n": name}, "branch": branch}
        done = asker.post("/change", asked, headers={"x-actor-id": "somebody"}).json()
        assert done["actor_id"] == name


def test_reloading_swaps_tokens_in_place_and_keeps_them_if_the_file_is_bad(people, http):
    file = people / "tokens.json"
    file.write_text('{"ann": "one"}')
    env = {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(file)}
    with server_process(people, "people.omni", "--bind", "127.0.0.1:0", **env) as server:
        address = server.hear_address()

        def status(token):
            headers = {"authorization": f"Bearer {token}"}
            return http.get(f"{address}/branches", headers=headers).status_code

        def reload(told):
            before = server.notes.read_text().count(told)
            server.tell(signal.SIGHUP)
            while server.notes.read_text().count(told) == before:
                assert server.process.poll() is None

        assert (status("one"), status("two")) == (200, 401)
        file.write_text('{"ann": "two"}')
        reload("reloaded: tokens of 1 actors")
        assert (status("one"), status("two")) == (401, 200)
        file.write_text('{"ann": ')
        reload("reload refused")
        assert status("two") == 200
        file.write_text("{}")
        reload("reload refused")
        assert status("two") == 200
        assert server.stop() == 0
        assert "two" not in server.notes.read_text().replace("tokens of", "")
