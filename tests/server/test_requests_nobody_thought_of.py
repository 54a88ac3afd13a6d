"""Requests made from the whole document: whatever is sent, the server answers as it says there."""

import io
import random
import shutil
import tarfile

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from omnigraph.server import openapi
from tests.support.servers import server_thread

DOCUMENT = openapi.full_document(secured=False)
SAID_THERE = DOCUMENT["components"]
NO_JSON = ("/load/ndjson", "/load/files")
ANOTHER_PROTOCOL = ("/mcp",)  # whose errors have a shape of their own; see tests/mcp
LEFT_OUT = NO_JSON + ANOTHER_PROTOCOL
JSON_PATHS = {path: one for path, one in DOCUMENT["paths"].items() if path not in LEFT_OUT}
schema = schemathesis.openapi.from_dict(DOCUMENT | {"paths": JSON_PATHS})


@pytest.fixture(scope="module")
def address(template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("thesis")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    with server_thread(str(folder / "people.omni")) as found:
        yield found


def check(answer, operation, told=""):
    """An answer is one of those the document promises, and a refusal is told in its one shape."""
    said = operation["responses"].get(str(answer.status_code))
    # Without a body, or under another method, a request is none of the operation.
    assert said is not None or answer.status_code == 405, (told, answer.status_code, answer.text)
    assert answer.status_code not in (500, 503), (told, answer.text)
    given = answer.headers["content-type"]  # a list, where schemathesis asked
    kind = (given if isinstance(given, str) else given[0]).partition(";")[0]
    if answer.status_code == 200:
        assert kind in said["content"], (told, kind)
        shape = said["content"][kind].get("schema")
        if shape is not None:
            judge = jsonschema_rs.validator_for(shape | {"components": SAID_THERE})
            judge.validate(answer.json())
        return
    assert kind == "application/json", told
    found = answer.json()
    assert isinstance(found["error"], str)
    assert found["error"]
    assert "Traceback" not in answer.text
    assert "/tmp/" not in answer.text
    assert answer.headers["x-request-id"]


@schema.parametrize()
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_of_those_the_document_promises(case, address):
    answer = case.call(base_url=address)
    check(answer, case.operation.definition.raw, case.as_curl_command())


def tars(chance):
    """Yield bodies that are tars, nearly tars, and none."""
    yield b""
    yield b"\0" * 10_240
    for _ in range(20):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for number in range(chance.randint(0, 3)):
                words = ["lines", "Person", "@mapping", "..", "", "Nope"]
                names = ["a.jsonl", "../b.csv", "/etc/x", "", "c\0d", "x.parquet", "y" * 300]
                info = tarfile.TarInfo(f"{chance.choice(words)}/{number}/{chance.choice(names)}")
                body = chance.choice([b"", b"{}\n", b'{"type":"Person","data":{"name":"x"}}\n'])
                info.size, info.type = len(body), chance.choice([tarfile.REGTYPE, tarfile.SYMTYPE])
                info.linkname = "/etc/passwd"
                tar.addfile(info, io.BytesIO(body))
        whole = bytearray(out.getvalue())
        for _ in range(chance.choice([0, 0, 3])):
            whole[chance.randrange(512)] = chance.randrange(256)
        yield bytes(whole[: chance.choice([len(whole), 700])])


def lines(chance):
    """Yield bodies that are lines, nearly lines, and none."""
    known = [
        b'{"type":"Person","data":{"name":"n"}}', b'{"edge":"Knows","from":"Ann","to":"Bob"}',
        b"{}", b"[]", b"null", b'{"type":1}', b'{"type":"Person","data":[]}', b"\xff\xfe", b"{",
        b'{"type":"Person","data":{"name":"\\ud800"}}', b'{"type":"Person","data":{"age":1e999}}',
        b"[" * 5_000, b'{"type":"Person","data":{"name":null}}', b"\0", b"",
    ]  # fmt: skip
    for _ in range(60):
        chosen = chance.choices(known, k=chance.randint(0, 3))
        yield chance.choice([b"\n", b"\r\n", b""]).join(chosen) + chance.choice([b"", b"\n"])


@pytest.mark.parametrize(("path", "bodies"), [("/load/ndjson", lines), ("/load/files", tars)])
def test_bodies_that_are_no_json_are_answered_as_well(http, address, path, bodies):
    operation, chance = DOCUMENT["paths"][path]["post"], random.Random(7)
    (kind,) = operation["requestBody"]["content"]
    for body in bodies(chance):
        mode = chance.choice(["merge", "append", "upsert"])
        params = {"mode": mode, "on_error": chance.choice(["fail", "skip"]), "branch": "main"}
        said = {"content-type": kind}
        answer = http.post(address + path, params=params, content=body, headers=said)
        check(answer, operation, (path, body[:200]))
