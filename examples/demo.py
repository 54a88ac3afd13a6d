"""The journey `make demo` takes: check the example schema, lint its queries, show their plans."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCHEMA = HERE / "company.pg"
QUERIES = HERE / "company.gq"


def step(title: str, *arguments: str) -> None:
    """Run one `omnigraph` command and show it; a failing one ends the demo."""
    shown = " ".join(arguments).replace(f"{HERE}/", "examples/")
    sys.stdout.write(f"\n── {title}\n$ omnigraph {shown}\n")
    sys.stdout.flush()
    command = [str(Path(sys.executable).parent / "omnigraph"), *arguments]
    subprocess.run(command, check=True)  # noqa: S603 - our own command, fixed arguments


def main() -> None:
    """Walk through what works today."""
    schema, queries = str(SCHEMA), str(QUERIES)
    step("Is the schema right?", "schema", "check", "--schema", schema)
    step("Are the queries?", "query", "lint", "--query", queries, "--schema", schema)
    step("What do they compile to?", "explain", "--query", queries, "--schema", schema)
    step("Is everything in the standard layout?", "fmt", "--check", schema, queries)
    sys.stdout.write("\nDone: schema and queries compile.\n")


if __name__ == "__main__":
    main()
