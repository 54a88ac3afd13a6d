"""The files for containers: linted, and the entrypoint run for real as a plain process."""

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

import omnigraph
from tests.support.fast import FAST
from tests.support.servers import environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
ALL = "query q() { match { $p: Person } return { $p.name } }"
SCHEMA = "node Person { name: String @key }"


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / name), *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_dockerfile_passes_its_linter():
    done = tool("hadolint", str(ROOT / "Dockerfile"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_shell_scripts_pass_their_linter():
    done = tool("shellcheck", "--shell=sh", str(DEPLOY / "entrypoint.sh"))
    assert done.returncode == 0, done.stdout


def test_the_image_is_small_by_what_it_does_not_take():
    text = (ROOT / "Dockerfile").read_text()
    final = text[text.rindex("\nFROM ") :]
    assert "USER 10001:10001" in final
    for word in ("venv ", "pip install", "build-essential", "gcc", "curl"):
        assert word not in final
    for path in ("deploy/entrypoint.sh", "deploy/healthcheck.py"):
        assert (ROOT / path).stat().st_mode & stat.S_IXUSR
        assert f"!{path}" in (ROOT / ".dockerignore").read_text()


def test_everything_the_image_copies_is_let_through_and_there():
    let = (ROOT / ".dockerignore").read_text().splitlines()
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY") and "--from=" not in line:
            for name in [word for word in line.split()[1:-1] if not word.startswith("--")]:
                assert (ROOT / name).exists(), name
                assert f"!{name}" in let or any(f"!{part}" in let for part in Path(name).parts)


def test_the_manifests_of_kubernetes_are_valid_and_keep_to_what_the_server_does():
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    for one in documents:
        kubernetes_validate.validate(one, "1.33", strict=True)
    (deployment,) = [one for one in documents if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    probes = [container[name]["httpGet"]["path"] for name in ("readinessProbe", "livenessProbe")]
    assert probes == ["/readyz", "/healthz"]
    assert pod["terminationGracePeriodSeconds"] > 30  # what the server gives running requests


def test_the_compose_file_says_what_the_programs_take():
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(found["services"]) == {"store", "setup", "server"}
    setup = found["services"]["setup"]
    assert setup["entrypoint"][:2] == ["omnigraph", "init"]
    done = subprocess.run(
        [str(BIN / "omnigraph"), "init", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment(COLUMNS="200"),
    )
    for word in setup["entrypoint"]:
        if word.startswith("--"):
            assert word in done.stdout
    for service in ("setup", "server"):
        settings = found["services"][service]["environment"]
        assert settings["AWS_S3_FORCE_PATH_STYLE"] == settings["AWS_ALLOW_HTTP"] == "true"
    ports = found["services"]["server"]["ports"]
    assert all(one.startswith("127.0.0.1:") for one in ports)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with two graphs and a settings file that names them."""
    folder = tmp_path_factory.mktemp("container")
    for name in ("one", "two"):
        with omnigraph.init(str(folder / f"{name}.omni"), SCHEMA, options=FAST) as graph:
            graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}')
    (folder / "policy.yaml").write_text(
        "version: 1\n"
        "groups:\n  team: [act-ann]\n"
        "protected_branches: [main]\n"
        "rules:\n"
        "  - id: reading\n"
        "    allow:\n"
        "      actors: { group: team }\n"
        "      actions: [read]\n"
        "      branch_scope: any\n"
    )
    (folder / "omnigraph.yaml").write_text(
        "graphs:\n  one: { uri: one.omni }\n  two: { uri: two.omni }\n"
        "policy: { file: policy.yaml }\n"
    )
    return folder


def entrypoint(folder: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    found = environment(**more)
    found["PATH"] = f"{BIN}{os.pathsep}{found['PATH']}"
    return subprocess.Popen(
        [str(DEPLOY / "entrypoint.sh"), *arguments],
        cwd=folder,
        env=found,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def address_of(server: subprocess.Popen[str]) -> str:
    """Return where a server listens, which it prints."""
    said = []
    assert server.stdout is not None
    for line in server.stdout:
        said.append(line)
        if line.startswith("OMNIGRAPH_LISTEN_ADDR="):
            return "http://" + line.strip().partition("=")[2]
    raise AssertionError("".join(said))


def names(address: str, token: str) -> list[str]:
    request = urllib.request.Request(
        f"{address}/read",
        data=json.dumps({"query_source": ALL}).encode(),
        headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [row["p.name"] for row in json.load(answer)["rows"]]


TOKENS = '{"act-ann": "secret-ann"}'
BIND = "127.0.0.1:0"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"OMNIGRAPH_TARGET_URI": "one.omni"}, "one", id="an address"),
        pytest.param(
            {"OMNIGRAPH_CONFIG": "omnigraph.yaml", "OMNIGRAPH_TARGET": "two"}, "two", id="a name"
        ),
        pytest.param(
            {"OMNIGRAPH_CONFIG": "omnigraph.yaml", "OMNIGRAPH_TARGET_URI": "one.omni"},
            "one",
            id="an address under a policy",
        ),
    ],
)
def test_the_environment_says_what_is_served_and_a_signal_reaches_the_server(place, more, expected):
    server = entrypoint(
        place, OMNIGRAPH_BIND=BIND, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=TOKENS, **more
    )
    try:
        address = address_of(server)
        assert names(address, "secret-ann") == [expected]
        checked = subprocess.run(
            [sys.executable, str(DEPLOY / "healthcheck.py")],
            env=environment(OMNIGRAPH_BIND=address.removeprefix("http://")),
            timeout=30,
            check=False,
        )
        assert checked.returncode == 0
        if "OMNIGRAPH_CONFIG" in more:  # the policy of the file is in force
            change = urllib.request.Request(
                f"{address}/change",
                data=json.dumps(
                    {"query_source": 'query q() { insert Person { name: "x" } }'}
                ).encode(),
                headers={"authorization": "Bearer secret-ann", "content-type": "application/json"},
            )
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(change, timeout=30)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.communicate()


def test_arguments_go_to_the_server_as_they_are(place):
    server = entrypoint(place, "--version")
    assert server.communicate(timeout=60)[0].startswith("omnigraph-server ")
    assert server.returncode == 0


def test_without_anything_it_says_what_it_needs(place):
    server = entrypoint(place)
    said = server.communicate(timeout=60)[0]
    assert server.returncode == 64
    assert "OMNIGRAPH_TARGET_URI" in said


def test_a_server_that_is_not_there_is_not_healthy():
    done = subprocess.run(
        [sys.executable, str(DEPLOY / "healthcheck.py")],
        env=environment(OMNIGRAPH_BIND="127.0.0.1:9"),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
