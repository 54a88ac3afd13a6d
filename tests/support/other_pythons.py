"""Install the package on other Pythons and run its fast tests there: `make pythons`.

A Python that is not installed is told of and passed over; one that is installed must pass.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOM = Path(__file__).parents[2]
TESTS = ("tests/compiler", "tests/api", "tests/base", "tests/graph", "tests/engine/merge")


def main(versions: list[str]) -> int:
    """Try every version; return 1 if one of them fails."""
    failed = [version for version in versions if not passes(version)]
    if failed:
        sys.stderr.write(f"failed on {', '.join(failed)}\n")
    return 1 if failed else 0


def passes(version: str) -> bool:
    """Whether the tests pass on a version; one that is not there does not fail."""
    python = interpreter(version)
    if python is None:
        sys.stdout.write(f"Python {version}: not installed, passed over\n")
        return True
    with tempfile.TemporaryDirectory() as place:
        mine = Path(place) / "venv"
        steps = (
            [python, "-m", "venv", str(mine)],
            [*pip(mine), "--require-hashes", "--requirement", str(ROOM / "requirements.lock")],
            [*pip(mine), "--no-deps", "--no-build-isolation", str(ROOM)],
            [str(mine / "bin/python"), "-m", "pytest", "-q", "-n", "2", *found_tests()],
        )
        for step in steps:
            if subprocess.run(step, cwd=ROOM, check=False).returncode:
                sys.stdout.write(f"Python {version}: failed at {' '.join(step[:4])}\n")
                return False
    sys.stdout.write(f"Python {version}: passed\n")
    return True


def found_tests() -> list[str]:
    """Return the folders of tests that need nothing but the package."""
    return [name for name in TESTS if (ROOM / name).is_dir()]


def pip(place: Path) -> list[str]:
    """Return how to install into an environment."""
    return [str(place / "bin/python"), "-m", "pip", "install", "--quiet"]


def interpreter(version: str) -> str | None:
    """Return a Python of a version, if there is one: by name, or beside those of pyenv."""
    known = shutil.which(f"python{version}")
    if known is not None and works(known):
        return known
    homes = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(homes[-1]) if homes else None


def works(python: str) -> bool:
    """Whether an interpreter starts: a shim may stand for one that is not chosen."""
    return subprocess.run([python, "--version"], check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
