"""Where derived files are kept, and how much of them: by environment, settings, then the home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omnigraph.config.environment import Environment
from omnigraph.config.limits import parse_size

OFF = "off"
DEFAULT_BYTES = 20 << 30


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """What a settings file says; None says nothing."""

    folder: Path | None = None
    is_off: bool = False
    size: int | None = DEFAULT_BYTES


@dataclass(frozen=True, slots=True)
class CacheInForce:
    """Where derived files are; None is nowhere. `is_asked_for` says that somebody named it."""

    folder: Path | None
    max_bytes: int | None
    is_asked_for: bool


def cache_in_force(environment: Environment, file: CacheSettings | None = None) -> CacheInForce:
    """Return where derived files are by the environment, then by the file, then by the user's home.

    Raises:
        BadRequestError: a variable says something that is no size.
    """
    said = CacheSettings() if file is None else file
    size = environment.find("OMNIGRAPH_CACHE_SIZE")
    most = said.size if size is None else parse_size(size, "OMNIGRAPH_CACHE_SIZE")
    given = environment.find("OMNIGRAPH_CACHE_DIR")
    if given is not None:
        folder = None if given.lower() == OFF else Path(given).expanduser()
        return CacheInForce(folder, most, is_asked_for=True)
    if said.is_off or said.folder is not None:
        return CacheInForce(said.folder, most, is_asked_for=True)
    return CacheInForce(_own_folder(environment), most, is_asked_for=False)


def _own_folder(environment: Environment) -> Path | None:
    """Return the folder of whoever names none; None of a user without a home."""
    given = environment.find("XDG_CACHE_HOME")
    if given is not None:
        return Path(given) / "omnigraph" / "derived"
    try:
        return Path.home() / ".cache" / "omnigraph" / "derived"
    except RuntimeError:
        return None
