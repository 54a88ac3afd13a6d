"""The limits of calls: what flags, environment and settings file say, and what holds otherwise.

Without a word, a query may take a minute and a quarter of the machine's memory, a job half of it
and any time, and all calls of a process half of it together. So a product of two large tables or a
walk without end is refused instead of the process being killed, and whatever answers within a
minute never notices. Rows are unlimited: how many a step makes says nothing about the answer.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from omnigraph.base.budget import DEFAULT, Limits, Unsaid
from omnigraph.base.memory import machine_memory
from omnigraph.config.environment import Environment
from omnigraph.errors import BadRequestError

QUERY_SECONDS = 60.0
QUERY_SHARE = 4
"""A query may take this fraction of the memory."""
JOB_SHARE = 2
PROCESS_SHARE = 2
"""The rest is for resident tables (a quarter), Python and everybody else."""

NONE = "none"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
SIZE_HINT = "a size as 512MiB or 4GiB, a number of bytes, or none"
SECONDS_HINT = "a number of seconds, or none"


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What a settings file, or the environment, says; None is no limit."""

    query_seconds: float | Unsaid | None = DEFAULT
    query_memory: int | Unsaid | None = DEFAULT
    job_memory: int | Unsaid | None = DEFAULT
    process_memory: int | Unsaid | None = DEFAULT


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The limits of calls that bring none; nothing in them is left unsaid."""

    query: Limits
    job: Limits
    process_memory: int | None


def limits_in_force(environment: Environment, file: LimitSettings | None = None) -> LimitsInForce:
    """Return the limits by the environment, then by the file, then by the machine.

    Raises:
        BadRequestError: a variable says something that is no limit.
    """
    said = LimitSettings() if file is None else file
    memory = machine_memory()
    seconds = _either(_seconds_in(environment), said.query_seconds, QUERY_SECONDS)
    query = _either(
        _size_in(environment, "OMNIGRAPH_QUERY_MEMORY"), said.query_memory, memory // QUERY_SHARE
    )
    job = _either(
        _size_in(environment, "OMNIGRAPH_JOB_MEMORY"), said.job_memory, memory // JOB_SHARE
    )
    process = _either(
        _size_in(environment, "OMNIGRAPH_PROCESS_MEMORY"),
        said.process_memory,
        memory // PROCESS_SHARE,
    )
    whole = None if process is None else int(process)
    return LimitsInForce(
        Limits(seconds, None, None if query is None else int(query)),
        Limits(None, None, None if job is None else int(job)),
        whole,
    )


def _either(
    first: float | Unsaid | None, second: float | Unsaid | None, otherwise: float
) -> float | None:
    for value in (first, second):
        if value is not DEFAULT:
            return value
    return otherwise


def _seconds_in(environment: Environment) -> float | Unsaid | None:
    name = "OMNIGRAPH_QUERY_SECONDS"
    text = environment.find(name)
    return DEFAULT if text is None else parse_seconds(text, name)


def _size_in(environment: Environment, name: str) -> int | Unsaid | None:
    text = environment.find(name)
    return DEFAULT if text is None else parse_size(text, name)


def parse_seconds(text: str, name: str) -> float | None:
    """Return the seconds a text says; None for `none`.

    Raises:
        BadRequestError: it says neither; `name` is what said so.
    """
    if text.lower() == NONE:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise BadRequestError(f"{name} cannot be `{text}`", hint=SECONDS_HINT)
    return seconds


def parse_size(text: str, name: str) -> int | None:
    """Return the bytes a text says; None for `none`.

    Raises:
        BadRequestError: it says neither; `name` is what said so.
    """
    if text.lower() == NONE:
        return None
    found = _SIZE.fullmatch(text)
    if found is None:
        raise BadRequestError(f"{name} cannot be `{text}`", hint=SIZE_HINT)
    number, unit = found.groups()
    size = float(number) if "." in number else int(number)
    return int(size * _UNITS[unit.lower()])


def parse_count(text: str, name: str) -> int | None:
    """Return the whole number a text says; None for `none`.

    Raises:
        BadRequestError: it says neither; `name` is what said so.
    """
    if text.lower() == NONE:
        return None
    if not text.isascii() or not text.isdecimal():
        raise BadRequestError(f"{name} cannot be `{text}`", hint="a whole number, or none")
    return int(text)
