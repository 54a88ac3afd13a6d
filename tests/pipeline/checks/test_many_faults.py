"""Very many bad rows: a small report, exact counts, and no more memory than for sound ones."""

import os
import subprocess
import sys
import textwrap

import orjson
import pytest

import omnigraph
from tests.pipeline.conftest import SCHEMA
from tests.support.fast import FAST

pytestmark = [pytest.mark.slow]

# Four ways to be wrong, each found elsewhere: a record, a value, a rule, an id given twice.
MIXED = (
    '{"type":"Robot","data":{"name":"r%d"}}\n'
    '{"type":"Person","data":{"name":"p%d","age":"old"}}\n'
    '{"type":"Person","data":{"name":"q%d","age":-1}}\n'
    '{"type":"Person","data":{"name":"ada","age":%d}}\n'
)
# Looked for only where all rows are sound by themselves: a refused one may be the missing end.
ENDS = '{"edge":"Knows","from":"x%d","to":"ada"}\n' * 4
# As many rows with as many different ids, and nothing wrong.
SOUND = (
    '{"type":"Person","data":{"name":"x%d","age":1}}\n'
    '{"type":"Person","data":{"name":"p%d","age":2}}\n'
    '{"edge":"Knows","from":"x%d","to":"ada"}\n'
    '{"edge":"Knows","from":"p%d","to":"ada"}\n'
)
PROGRAM = """
    import resource, sys
    from omnigraph.cli.app import run
    code = run(sys.argv[1:])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
    sys.exit(code)
"""
MANY = int(os.environ.get("PROVE_BAD_ROWS", "300000"))  # noqa: TID251 - a test setting
ROOM = 48 << 20
"""What two runs of the same load may differ by: allocators keep what they like."""


def write_rows(path, lines, count):
    """One good row and as many others as asked for."""
    with path.open("w") as out:
        out.write('{"type":"Person","data":{"name":"ada"}}\n')
        out.writelines(lines % ((at,) * 4) for at in range(count // 4))


def load(folder, data, *words):
    """Load on the command line; return its exit code, what it warned of and its peak memory."""
    command = ["load", str(folder / "g.omni"), "--data", str(data), "--engine", "inline", *words]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    return done.returncode, done.stderr, int(done.stdout.splitlines()[-1])


@pytest.fixture
def folder(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST):
        pass
    return tmp_path


def people(folder):
    with omnigraph.connect(str(folder / "g.omni"), options=FAST) as graph:
        return graph.snapshot().table("node:Person").row_count


@pytest.mark.parametrize(
    ("lines", "words", "limit"),
    [
        pytest.param(MIXED, (), 100, id="by-themselves"),
        pytest.param(ENDS, ("--max-errors", "7"), 7, id="together"),
    ],
)
def test_very_many_bad_rows_make_a_small_report_with_exact_counts(folder, lines, words, limit):
    good, many, errors = folder / "good.jsonl", folder / "many.jsonl", folder / "errors.jsonl"
    write_rows(good, SOUND, MANY)
    write_rows(many, lines, MANY)
    code, told, peak = load(folder, many, "--errors", str(errors), *words)
    assert code == 1
    assert told.splitlines()[-1].split() == ["…", "and", str(MANY - limit), "more"]
    assert len(told) < 2_000 + 300 * limit
    places = [orjson.loads(line)["place"] for line in errors.read_bytes().splitlines()]
    assert len(places) == limit
    assert places[0] == f"{many}:2"
    assert people(folder) == 0
    code, _, usual = load(folder, good)
    assert code == 0
    sys.stderr.write(f"\n{MANY} rows: peak {peak >> 20} MiB if bad, {usual >> 20} MiB if sound\n")
    assert peak < usual + ROOM


def test_very_many_rows_left_out_are_counted_and_the_good_one_is_there(folder):
    many, errors = folder / "many.jsonl", folder / "errors.jsonl"
    write_rows(many, MIXED, MANY)
    code, told, _ = load(folder, many, "--errors", str(errors), "--skip-bad-rows")
    assert code == 0
    assert f"{MANY} rows were left out" in told
    assert len(errors.read_bytes().splitlines()) == 100
    assert people(folder) == 1
