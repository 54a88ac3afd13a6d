"""Commands that answer without pandas, which pyarrow would load for them: a third of their time.

pyarrow looks for pandas when it is first given plain Python values, and remembers whether it was
there. In a process that is one of these commands, it is not there for that moment. Nobody else's
process is touched, and no command that may hand rows to Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

LIGHT = frozenset({"read", "change", "snapshot", "explain", "profile", "history", "blame"})


class _Nowhere:
    """A finder that says of pandas that it is not installed."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol of finders
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not needed here", name=name)


class _Process:
    is_a_command = False


def this_process_is_a_command() -> None:
    """Note that nothing but a command runs in this process."""
    _Process.is_a_command = True


def prepare(operation: str) -> None:
    """Load pyarrow without pandas, if that is all this process will ever need."""
    if not _Process.is_a_command or operation not in LIGHT or "pyarrow" in sys.modules:
        return
    nowhere = _Nowhere()
    sys.meta_path.insert(0, nowhere)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(nowhere)
