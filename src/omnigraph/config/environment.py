"""The only reader of the process environment, and of the dotenv file that stands behind it.

Values are looked up, never put back: nothing here changes the environment of the process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from omnigraph.errors import BadRequestError, StorageError
from omnigraph.storage.options import S3Options

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables of the process first, then those of the dotenv file."""

    process: Mapping[str, str]
    file: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """Return a variable, trimmed; blank counts as unset."""
        for variables in (self.process, self.file):
            value = variables.get(name, "").strip()
            if value:
                return value
        return None

    def flag(self, name: str) -> bool | None:
        """Return a yes-or-no variable; None if it is unset."""
        value = self.find(name)
        if value is None:
            return None
        if value.lower() not in (*_TRUE, *_FALSE):
            raise BadRequestError(f"{name}={value} is neither true nor false")
        return value.lower() in _TRUE

    def with_file(self, path: Path) -> Environment:
        """Return this environment with a dotenv file behind it; a missing file is empty."""
        return replace(self, file=read_env_file(path))


def process_environment() -> Environment:
    """Return the environment this process was started with."""
    return Environment(dict(os.environ))  # noqa: TID251 - this module is the sole reader


def read_env_file(path: Path) -> dict[str, str]:
    """Read `NAME=value` lines; `export ` and one pair of quotes are allowed, `#` lines are not."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise StorageError(f"env file '{path}' is not UTF-8 text") from None
    except OSError as error:
        raise StorageError(f"cannot read env file '{path}': {error.strerror}") from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def s3_options(environment: Environment) -> S3Options:
    """Return how to reach object stores.

    Raises:
        BadRequestError: the endpoint is plain HTTP and that was not allowed.
    """
    endpoint = environment.find("AWS_ENDPOINT_URL_S3") or environment.find("AWS_ENDPOINT_URL")
    allow_http = environment.flag("AWS_ALLOW_HTTP") is True
    if endpoint is not None and endpoint.startswith("http://") and not allow_http:
        raise BadRequestError(
            f"the object store endpoint {endpoint} is not encrypted",
            hint="set AWS_ALLOW_HTTP=true if that is what you want",
        )
    return S3Options(
        endpoint=endpoint,
        access_key_id=environment.find("AWS_ACCESS_KEY_ID"),
        secret_access_key=environment.find("AWS_SECRET_ACCESS_KEY"),
        session_token=environment.find("AWS_SESSION_TOKEN"),
        region=environment.find("AWS_REGION") or environment.find("AWS_DEFAULT_REGION"),
        allow_http=allow_http,
        virtual_hosted_style=environment.flag("AWS_S3_FORCE_PATH_STYLE") is False,
    )


def history_file(environment: Environment) -> Path:
    """Return where the shell keeps what was typed."""
    given = environment.find("OMNIGRAPH_HISTORY")
    if given is not None:
        return Path(given)
    state = environment.find("XDG_STATE_HOME")
    home = Path(state) if state else Path.home() / ".local" / "state"
    return home / "omnigraph" / "history"


def actor(environment: Environment) -> str | None:
    """Return who writes, if the environment says so; nobody is assumed."""
    return environment.find("OMNIGRAPH_ACTOR")


def count_in(environment: Environment, name: str) -> int | None:
    """Return a variable that is a whole number from 1 on; None if it is unset.

    Raises:
        BadRequestError: it is something else.
    """
    text = environment.find(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise BadRequestError(f"{name} cannot be '{text}'", hint="a whole number from 1 on")
    return int(text)


def bearer_token(environment: Environment) -> str | None:
    """Return what tells a server who asks, if the environment says so."""
    return environment.find("OMNIGRAPH_BEARER_TOKEN")


def spark_master(environment: Environment) -> str | None:
    """Return where Spark runs, if the environment says so."""
    return environment.find("SPARK_MASTER")


def wants_color(stream: TextIO) -> bool:
    """Whether to write colour codes to `stream`: a terminal, and the user did not opt out."""
    environment = process_environment()
    if environment.find("NO_COLOR"):
        return False
    if environment.find("FORCE_COLOR"):
        return True
    return stream.isatty() and environment.find("TERM") != "dumb"
