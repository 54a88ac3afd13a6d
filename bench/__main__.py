"""Run benchmarks by name, or all of them."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from bench._page import page

NAMES = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_")
)


def main() -> int:
    """Run the named benchmarks, each in turn; return the exit code."""
    if sys.argv[1:] == ["--page"]:
        sys.stdout.write(page())
        return 0
    # Nothing a benchmark builds lands in the user's home; who measures files names a folder.
    os.environ.setdefault("OMNIGRAPH_CACHE_DIR", "off")  # noqa: TID251 - children inherit it
    chosen = sys.argv[1:] or NAMES
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        sys.stderr.write(f"unknown: {', '.join(unknown)}; there are {', '.join(NAMES)}\n")
        return 2
    for name in chosen:
        sys.stdout.write(f"\n== {name}\n")
        sys.stdout.flush()
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
