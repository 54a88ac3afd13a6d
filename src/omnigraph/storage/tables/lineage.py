"""How long a table remembers which version each row came from.

Lance repeats, in the manifest of every version, when each row was created and last changed: a
run per commit that wrote rows. A table written row by row would carry its whole history in every
commit. Compaction therefore forgets the order of what lies more than `HORIZON` versions back, by
giving it all one version. Comparing with anything newer is as exact as before; comparing with
anything older must look at the rows (see `Reader.has_rewrites_since`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from omnigraph.storage.tables.protobuf import read_varint, varint

HORIZON = 256
_VERSION_FIELDS = ("created_at_version_meta", "last_updated_at_version_meta")

# Tags in Lance's protobuf form: a list of runs, each a span and a version (a number); the span is
# a range, of which only the end (a number) is stored.
_MESSAGE, _NUMBER = 0x0A, 0x10

Run = tuple[int, int]
"""Neighbouring rows of one version: how many, and which."""


def forget_old_versions(compaction: str, version: int) -> str:
    """Return a compaction of `version`, as JSON, whose fragments remember only recent versions.

    Versions stored in a form we do not know are left as they are: they are right, only long.
    """
    content = orjson.loads(compaction)
    for fragment in content["new_fragments"]:
        for name in _VERSION_FIELDS:
            stored = (fragment.get(name) or {}).get("inline")
            runs = None if stored is None else decode_runs(bytes(stored))
            if runs is not None:
                short = encode_runs(merged(runs, version - HORIZON))
                fragment[name]["inline"] = list(short)
    return orjson.dumps(content).decode()


def merged(runs: Iterable[Run], horizon: int) -> list[Run]:
    """Return the runs with all versions up to `horizon` taken as one, and equal neighbours joined.

    >>> merged([(1, 2), (1, 3), (2, 9), (1, 9)], horizon=5)
    [(2, 5), (3, 9)]
    """
    joined: list[Run] = []
    for rows, version in runs:
        kept = max(version, horizon)
        if joined and joined[-1][1] == kept:
            joined[-1] = (joined[-1][0] + rows, kept)
        else:
            joined.append((rows, kept))
    return joined


def encode_runs(runs: Iterable[Run]) -> bytes:
    """Return runs as Lance stores them."""
    out = bytearray()
    for rows, version in runs:
        span = _message(bytes((_NUMBER, *varint(rows))))
        out += _message(_message(span) + bytes((_NUMBER, *varint(version))))
    return bytes(out)


def decode_runs(stored: bytes) -> list[Run] | None:
    """Read runs as Lance stores them; None if they have another form."""
    runs: list[Run] = []
    for run in _values(stored):
        span, version = (*_values(_bytes(run)), None, None)[:2]
        bounds = next(_values(_bytes(span)), None)
        rows = next(_values(_bytes(bounds)), None)
        if not (isinstance(rows, int) and isinstance(version, int)):
            return None
        runs.append((rows, version))
    return runs if encode_runs(runs) == stored else None


def _bytes(value: bytes | int | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _values(data: bytes) -> Iterator[bytes | int]:
    """Yield the value of every field, whatever its name; only the two kinds that runs use."""
    position = 0
    while position < len(data):
        tag = data[position]
        number, position = read_varint(data, position + 1)
        if tag == _MESSAGE:
            yield data[position : position + number]
            position += number
        else:
            yield number


def _message(body: bytes) -> bytes:
    return bytes((_MESSAGE, *varint(len(body)))) + body
