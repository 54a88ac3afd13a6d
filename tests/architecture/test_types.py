"""What a type checker says to whoever uses the package: right calls pass, wrong ones do not."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RIGHT = """
import pandas as pd
import polars as pl
from pathlib import Path
import omnigraph

def right(graph: omnigraph.Graph, frame: "pl.DataFrame") -> None:
    graph.load("rows.jsonl")
    graph.load([Path("a.jsonl"), "b.jsonl"], "append")
    graph.load(b"{}")
    graph.load({"Person": "people.csv", "Knows": [{"from": "a", "to": "b"}]})
    graph.load({"Person": frame}, columns={"Full name": "name"})
    row: dict[str, object] = graph.query("match {}")[0]
    graph.branch("x").load({"Person": [Path("a.csv"), "b.csv"]})
"""
WRONG = """
import omnigraph

def wrong(g: omnigraph.Graph) -> None:
    g.load({"Person": 3})
    g.load(3)
    g.load("rows.jsonl", nope=1)
    g.query(3)
    g.mutate("insert", branch=7)
    g.branches.merge("dev", strategy="mine")
"""


def checked(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir"]
    missing = ["--disable-error-code=import-untyped", "--follow-imports=silent"]
    ran = subprocess.run(
        [*command, str(tmp_path / "cache"), *missing, "--config-file=", str(path)],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return [line for line in ran.stdout.splitlines() if "program.py" in line], ran.stderr


def test_calls_that_are_right_pass(tmp_path):
    assert checked(tmp_path, RIGHT) == ([], "")


def test_calls_that_are_wrong_are_told_line_by_line(tmp_path):
    told, _ = checked(tmp_path, WRONG)
    lines = {int(line.split(":")[1]) for line in told if ": error:" in line}
    assert lines == set(range(5, 11)), told
