"""What only a real process shows: pipes, terminals, signals, start-up."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import COMMAND, clean_environment

ADULTS = ("-q", "people.gq", "-n", "adults", "-p", "min=18")


def test_a_journey_from_an_empty_folder(omnigraph, people, tmp_path):
    home = tmp_path / "journey"
    home.mkdir()
    made = omnigraph("init", "--schema", "people.pg", "journey/new.omni")
    assert (made.code, made.out, made.err) == (0, "initialized journey/new.omni\n", "")
    config = ("--config", "journey/omnigraph.yaml")
    added = omnigraph(
        "change", *config, "-q", str(people / "people.gq"), "-n", "add", "-p", "name=Zoe"
    )
    assert (added.code, added.err) == (0, "")
    shown = omnigraph("snapshot", *config, "--json")
    assert json.loads(shown.out)["tables"][1]["row_count"] == 1


def test_rows_are_plain_in_a_pipe_and_coloured_on_a_terminal(omnigraph, terminal, people):
    piped = omnigraph("read", *ADULTS)
    assert (piped.code, piped.err) == (0, "")
    assert "\x1b[" not in piped.out
    shown = terminal("read", *ADULTS)
    assert shown.code == 0
    assert "\x1b[1mp.age | p.name\x1b[0m\n" in shown.out
    assert terminal("read", *ADULTS, env={"NO_COLOR": "1"}).out == piped.out


def test_an_error_on_a_terminal_is_one_coloured_block(terminal, people):
    ran = terminal("snapshot", "nowhere.omni")
    assert ran.code == 1
    assert ran.out.startswith("\x1b[1;31merror\x1b[0m: there is no graph at ")


@pytest.mark.parametrize("letters", [1, 300_000], ids=["at the end", "in the middle"])
def test_a_reader_that_goes_away_is_no_failure(people, cli, letters):
    (people / "bio.json").write_text(json.dumps({"name": "Eve", "age": 9, "bio": "x" * letters}))
    assert cli("change", "-q", "people.gq", "-n", "add", "--params-file", "bio.json").code == 0
    script = f"'{COMMAND}' read -q people.gq -n person -p name=Eve --format jsonl | true"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        cwd=people,
        capture_output=True,
        timeout=120,
        check=False,
        env=clean_environment(),
    )
    assert (done.returncode, done.stderr) == (0, b"")


SLOW_WRITE = """
import sys, time
import omnigraph.storage.store
from omnigraph.base import failpoints
from omnigraph.cli.app import main
class Told:
    def sleep(seconds):
        open("gap", "w").close()
        time.sleep(seconds)
failpoints.time = Told
failpoints.enable({gap!r} + "=sleep:300")
sys.argv = ["omnigraph", "change", "-q", "people.gq", "-n", "add", "-p", "name=Dan"]
main()
"""


@pytest.mark.parametrize(
    ("gap", "written"),
    [("publish.after_sidecar", False), ("publish.after_tables", None)],
)
def test_an_interrupt_leaves_nothing_half_done(cli, people, gap, written):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITE.format(gap=gap)],
        cwd=people,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    deadline = time.monotonic() + 120
    while not (people / "gap").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never came to the gap"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == b""
    assert err == b"interrupted\n"
    # The next writer finds the graph whole: with the commit, or without it.
    assert cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Eve").code == 0
    names = json.loads(
        cli("read", "-e", "query q() { match { $p: Person } return { $p.name } }", "--json").out
    )["rows"]
    found = {row["p.name"] for row in names}
    assert found in ({"Ann", "Bob", "Cé", "Eve"}, {"Ann", "Bob", "Cé", "Dan", "Eve"})
    if written is False:
        assert "Dan" not in found
    verified = cli("verify")
    assert verified.code == 0, verified.out


SLOW_START = """
import builtins, os, signal, sys
from omnigraph.cli.app import main
load = builtins.__import__
def interrupted(name, *rest):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, *rest)
builtins.__import__ = interrupted
sys.argv = ["omnigraph", "change", "-q", "people.gq", "-n", "add", "-p", "name=Dan"]
main()
"""


def test_an_interrupt_before_the_command_begins_is_no_traceback(people):
    done = subprocess.run(
        [sys.executable, "-c", SLOW_START],
        cwd=people,
        capture_output=True,
        timeout=120,
        check=False,
        env=clean_environment(),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")


@pytest.fixture
def completions(omnigraph):
    def ask(words, at=None):
        env = {
            "_OMNIGRAPH_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1 if at is None else at),
        }
        return omnigraph(env=env).out.split()

    return ask


def test_shell_completion_knows_commands_and_targets(completions, people):
    assert "snapshot" in completions("omnigraph sn", 1)
    assert completions("omnigraph branch cr", 2) == ["create"]
    assert completions("omnigraph snapshot --target lo", 3) == ["local"]


def test_shell_completion_knows_branches_tags_types_and_queries(completions, omnigraph, people):
    for words in ("branch create review people.omni", "tag create v1 people.omni"):
        omnigraph(*words.split())
    assert completions("omnigraph read people.omni --branch re") == ["review"]
    assert completions("omnigraph branch merge --into ma", 4) == ["main"]
    assert completions("omnigraph branch delete people.omni re") == ["review"]
    assert completions("omnigraph diff people.omni v") == ["v1"]
    assert completions("omnigraph export people.omni --type Kn") == ["Knows"]
    assert "adults" in completions("omnigraph read -q people.gq --name a")
    assert completions("omnigraph read nothing.omni --branch m") == []
    assert completions("omnigraph read -q nothing.gq --name a") == []


def test_the_completion_script_is_printed(tmp_path):
    done = subprocess.run(  # for the shell that asks, which is looked for among the parents
        ["bash", "-c", f"'{COMMAND}' --show-completion; exit $?"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "_omnigraph_completion" in done.stdout
