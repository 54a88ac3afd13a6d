"""Requests made from the whole document: whatever is sent, the server answers and never fails."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from omnigraph.server import openapi
from tests.support.servers import server_thread

DOCUMENT = openapi.full_document(secured=False)
for path in ("/metrics", "/docs", "/openapi.json", "/openapi.full.json", "/maintenance/verify"):
    DOCUMENT["paths"].pop(path)  # they take nothing, or long
for path in ("/load/ndjson", "/load/files"):
    DOCUMENT["paths"].pop(path)  # their bodies are no JSON
schema = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def address(template, tmp_path_factory):
    import shutil

    folder = tmp_path_factory.mktemp("thesis")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    with server_thread(str(folder / "people.omni")) as found:
        yield found


@schema.parametrize()
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case, address):
    answer = case.call(base_url=address)
    assert answer.status_code < 500, (case.as_curl_command(), answer.text)
    if answer.status_code >= 400:
        said = answer.json()
        assert isinstance(said["error"], str)
        assert "Traceback" not in said["error"]
        assert "/tmp/" not in answer.text
