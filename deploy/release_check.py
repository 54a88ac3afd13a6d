#!/usr/bin/env python3
"""Refuse a release whose tag, package and changelog do not name the same version."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def faults(tag: str, root: Path = ROOT) -> list[str]:
    """Return what does not go together; nothing if all is well."""
    packaged = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    version = packaged.get("version") or _stated(root)
    changelog = (root / "CHANGELOG.md").read_text()
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, the package is {version}")
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        found.append(f"CHANGELOG.md has no section '## [{version}] - <date>'")
    return found


def _stated(root: Path) -> str:
    text = (root / "src/omnigraph/base/version.py").read_text()
    found = re.search(r'^VERSION = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("base/version.py states no VERSION")
    return found.group(1)


if __name__ == "__main__":
    problems = faults(sys.argv[1])
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.exit(1 if problems else 0)
