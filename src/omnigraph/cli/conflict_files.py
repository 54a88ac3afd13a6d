"""Conflicts of a merge as files: a JSON object a line, edited by hand, read as resolutions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omnigraph.api.merges import MergeConflict
from omnigraph.errors import BadRequestError


def write_conflicts(path: Path, conflicts: Iterable[MergeConflict]) -> int:
    """Write every conflict as one line and return how many there were."""
    count = 0
    with path.open("w", encoding="utf-8") as out:
        for one in conflicts:
            line = {**one.to_json_value(), "resolution": one.resolution}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_resolutions(path: Path) -> list[dict[str, Any]]:
    """Return the conflicts of a file, each with what somebody wrote as its resolution.

    Raises:
        BadRequestError: the file cannot be read, or a line is no JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestError(f"'{path}' cannot be read: {error}") from error
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except ValueError as error:
            raise BadRequestError(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(one, dict):
            raise BadRequestError(f"{path}:{number}: a conflict is a JSON object")
        found.append(one)
    return found
