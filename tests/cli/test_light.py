"""Commands that read load no pandas in a process of their own; other processes keep theirs."""

import subprocess
import sys

SCRIPT = """
import sys
sys.argv = ["omnigraph", *{words!r}]
from omnigraph.cli.app import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("pandas" in sys.modules, "lance" in sys.modules)
import pandas, pyarrow
assert pandas.DataFrame is not None
"""


def loaded(people, *words):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(words=words)],
        cwd=people,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def test_a_read_loads_no_pandas(people):
    read = ("read", "-q", "people.gq", "-n", "adults", "-p", "min=18")
    assert loaded(people, *read) == ["False", "True"]


def test_a_program_that_runs_commands_keeps_its_pandas(people):
    script = """
from omnigraph.cli.app import run
assert run(["read", "-q", "people.gq", "-n", "adults", "-p", "min=18"]) == 0
import pyarrow as pa
assert len(pa.table({"a": [1]}).to_pandas()) == 1
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=people,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
