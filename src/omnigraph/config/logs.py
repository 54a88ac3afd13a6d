"""What is logged, as settings file and environment say it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from omnigraph.config.environment import Environment
from omnigraph.errors import BadRequestError

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error")
LEVEL_VARIABLE, SLOW_VARIABLE = "OMNIGRAPH_LOG", "OMNIGRAPH_SLOW_QUERY_MS"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What a settings file says; None is nothing."""

    level: LogLevel | None = None
    slow_query_ms: float | None = None


def parse_level(text: str, name: str) -> LogLevel:
    """Return a level by its word.

    Raises:
        BadRequestError: there is no such level.
    """
    for level in LOG_LEVELS:
        if level == text.lower():
            return level
    raise BadRequestError(f"{name} cannot be '{text}'", hint=f"use {', '.join(LOG_LEVELS)}")


def parse_milliseconds(text: str, name: str) -> float:
    """Return a number of milliseconds.

    Raises:
        BadRequestError: it is not a number from 0 on.
    """
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found) or found < 0:
        raise BadRequestError(f"{name} cannot be '{text}'", hint="a number of milliseconds")
    return found


def level_in_force(environment: Environment, file: LogSettings) -> LogLevel | None:
    """Return the level by the environment, or else by the file."""
    said = environment.find(LEVEL_VARIABLE)
    return file.level if said is None else parse_level(said, LEVEL_VARIABLE)


def slow_ms_in_force(given: float | None, environment: Environment) -> float | None:
    """Return from how long on a call is slow: by the environment, or else as given."""
    said = environment.find(SLOW_VARIABLE)
    return given if said is None else parse_milliseconds(said, SLOW_VARIABLE)
