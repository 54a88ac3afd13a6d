"""The import rules hold, and the checker would notice if they did not."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ENGINES = ("lance", "pyspark", "granian", "uvicorn", "cedarpy", "msgspec", "obstore", "boto3")
HEAVY = (*ENGINES, "pyarrow", "numpy")


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )


def test_every_contract_is_kept():
    result = run(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        pytest.param("base/hashing.py", "import omnigraph.compiler.source", id="upwards"),
        pytest.param("compiler/types.py", "import omnigraph.storage.files.layout", id="across"),
        pytest.param("compiler/source.py", "import lance", id="compiler reaches lance"),
        pytest.param("newroom.py", "", id="a room without a floor"),
    ],
)
def test_a_planted_violation_breaks_a_contract(tmp_path, module, line):
    package = tmp_path / "src" / "omnigraph"
    _copy_tree(ROOT / "src" / "omnigraph", package)
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    planted = package / module
    before = planted.read_text() if planted.exists() else '"""New."""\n'
    planted.write_text(before + f"\n{line}\n")
    script = (
        "import sys; sys.path.insert(0, 'src')\n"
        "from importlinter.cli import lint_imports_command\n"
        "lint_imports_command()\n"
    )
    result = run(sys.executable, "-c", script, "--no-cache", cwd=tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "broken" in result.stdout


def _copy_tree(source: Path, target: Path) -> None:
    for file in source.rglob("*.py"):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())


PLAIN_SCHEMA = "node Person {\n  name: String @key\n}\n"
PLAIN_QUERY = "query all() {\n  match {\n    $p: Person\n  }\n  return { $p.name }\n}\n"


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        pytest.param(["--help"], HEAVY, id="help"),
        pytest.param(["version"], HEAVY, id="version"),
        pytest.param(["query", "lint", "-q", "q.gq", "-s", "s.pg"], HEAVY, id="lint"),
        pytest.param(["schema", "check", "-s", "s.pg"], HEAVY, id="schema check"),
        # A schema with a pattern asks RE2 about it, which comes with Arrow.
        pytest.param(
            ["schema", "check", "-s", str(ROOT / "examples/company.pg")], ENGINES, id="patterns"
        ),
    ],
)
def test_text_commands_load_nothing_heavy(arguments, absent, tmp_path):
    (tmp_path / "s.pg").write_text(PLAIN_SCHEMA)
    (tmp_path / "q.gq").write_text(PLAIN_QUERY)
    script = (
        "import sys\n"
        "from omnigraph.cli.app import main\n"
        f"sys.argv = ['omnigraph', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    code = stop.code\n"
        f"loaded = [name for name in {absent!r} if name in sys.modules]\n"
        "sys.stderr.write(f'LOADED {loaded}')\n"
        "sys.exit(code)\n"
    )
    result = run(sys.executable, "-c", script, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr.endswith("LOADED []")


def test_the_lock_names_no_package_host_and_every_line_is_hashed():
    for name in ("requirements.lock", "requirements-bench.lock"):
        check_lock((ROOT / name).read_text())


def check_lock(lock):
    assert "://" not in lock
    pinned = [line for line in lock.splitlines() if "==" in line]
    assert pinned
    assert all(line.rstrip().endswith("\\") for line in pinned)


def test_the_version_is_stated_once():
    from omnigraph import __version__

    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in found["project"]
    stated = (ROOT / found["tool"]["hatch"]["version"]["path"]).read_text()
    assert f'VERSION = "{__version__}"' in stated
