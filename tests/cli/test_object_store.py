"""The same commands on an object store, told about it by the environment alone."""

import json

import pytest

from tests.support.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, running_s3

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]


def test_a_graph_on_an_object_store_is_made_written_and_read(cli, people, tmp_path, monkeypatch):
    with running_s3(tmp_path / "s3") as server:
        (people / ".env").write_text(
            f"AWS_ENDPOINT_URL_S3={server.endpoint}\n"
            f"AWS_ACCESS_KEY_ID={ACCESS_KEY}\n"
            f"export AWS_SECRET_ACCESS_KEY='{SECRET_KEY}'\n"
            f"AWS_REGION={REGION}\n"
            "AWS_S3_FORCE_PATH_STYLE=true\n"
        )
        (people / "omnigraph.yaml").write_text(
            f"graphs: {{far: {{uri: 's3://{BUCKET}/people.omni'}}}}\n"
            "cli: {graph: far}\n"
            "auth: {env_file: .env}\n"
        )
        refused = cli("snapshot")
        assert refused.code == 1
        assert "AWS_ALLOW_HTTP=true" in refused.err
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        assert "there is no graph at s3://" in cli("snapshot").err
        assert cli("init", "-s", "people.pg", "--target", "far").code == 0
        added = cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Ann", "-p", "age=41")
        assert added.code == 0, added.err
        ran = cli("read", "-q", "people.gq", "-n", "adults", "-p", "min=1", "--json")
        assert json.loads(ran.out)["rows"] == [{"p.age": 41, "p.name": "Ann"}]
        assert cli("lock", "show").out == "no locks are held\n"
        assert cli("verify").code == 0
        back, there = cli("clone", "near.omni"), cli("clone", "near.omni", f"s3://{BUCKET}/again")
        assert (back.code, back.err, there.code, there.err) == (0, "", 0, "")
        query = ("-q", "people.gq", "-n", "adults", "-p", "min=1", "--json")
        assert cli("read", *query, f"s3://{BUCKET}/again").out == ran.out
