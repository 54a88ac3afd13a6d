"""How results and errors look, and which exit code they mean.

Results go to stdout and nothing else does; findings, errors and warnings go to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.api.wire import JsonValue
from omnigraph.config.environment import wants_color
from omnigraph.errors import BadRequestError, ErrorKind, OmniGraphError

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2

_RED, _GREEN, _OFF = "\x1b[1;31m", "\x1b[1;32m", "\x1b[0m"


class UsageError(BadRequestError):
    """The command line itself is wrong: flags that exclude each other, too many words."""


def exit_code(error: OmniGraphError) -> int:
    """Return the exit code an error means."""
    return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE


def say(text: str) -> None:
    """Write one result line (or block) to stdout."""
    try:
        sys.stdout.write(text + "\n")
    except (
        UnicodeEncodeError
    ):  # the name of a file that is no text, or a terminal that knows little
        known = sys.stdout.encoding
        sys.stdout.write(text.encode(known, "backslashreplace").decode(known) + "\n")


def say_json(value: JsonValue) -> None:
    """Write a result as JSON with two-space indent."""
    _say_object(value.to_json_value())


def _say_object(value: Mapping[str, Any]) -> None:
    say(json.dumps(value, indent=2, ensure_ascii=False))


def warn(text: str) -> None:
    """Write a note to stderr."""
    sys.stderr.write(text + "\n")


def complain(error: OmniGraphError, *, as_json: bool = False) -> None:
    """Write an error to stderr as one readable block; `as_json` also to stdout as an object."""
    if as_json:
        from omnigraph.api.problems import problem  # errors that are not shown as JSON need it not

        _say_object(problem(error))
    # Errors with a place know how to show it; importing their modules is not worth it here.
    render = getattr(error, "render", None)
    if render is not None:
        warn(render(color=wants_color(sys.stderr)))
        return
    label, hint = _labels()
    details: Sequence[object] = getattr(error, "violations", ())
    if len(details) > 1:
        total = getattr(error, "total", len(details))
        warn(f"{label}: {total} rules of the schema are broken; nothing was written")
        for detail in details:
            warn(f"  - {detail}")
        if total > len(details):
            warn(f"  … and {total - len(details)} more")
    else:
        warn(f"{label}: {error.message}")
        _complain_of_conflicts(error)
    if error.hint:
        warn(f"  {hint}: {error.hint}")


def _complain_of_conflicts(error: OmniGraphError) -> None:
    """Write the conflicts of a merge, one a line."""
    conflicts: Sequence[object] = getattr(error, "conflicts", ())
    for conflict in conflicts:
        warn(f"  - {conflict}: {getattr(conflict, 'message', '')}")
    more = getattr(error, "total", 0) - len(conflicts) if conflicts else 0
    if more:
        warn(f"  … and {more} more")


def complain_usage(error: Exception, *, as_json: bool = False) -> None:
    """Write what is wrong with a command line as the same block; the help text is on stdout."""
    message = getattr(error, "format_message", error.__str__)()
    if not message:  # nothing but a group was asked for, and its help was printed
        return
    context = getattr(error, "ctx", None)
    command = "omnigraph" if context is None else context.command_path
    if as_json:
        _say_object(
            {
                "error": message,
                "code": "bad_request",
                "kind": ErrorKind.BAD_REQUEST,
                "class": UsageError.__name__,
                "hint": f"{command} --help",
            }
        )
    label, hint = _labels()
    warn(f"{label}: {message}")
    warn(f"  {hint}: {command} --help")


def complain_unexpected(error: Exception, *, as_json: bool = False) -> None:
    """Write an error nobody foresaw, without its traceback."""
    if as_json:
        text = f"unexpected {type(error).__name__}: {error}"
        _say_object({"error": text, "code": "internal", "kind": ErrorKind.INTERNAL})
    label, hint = _labels()
    warn(f"{label}: unexpected {type(error).__name__}: {error}")
    warn(f"  {hint}: run the command again with --debug and report what it shows")


def _labels() -> tuple[str, str]:
    """Return how an error and a hint are introduced."""
    if wants_color(sys.stderr):
        return f"{_RED}error{_OFF}", f"{_GREEN}hint{_OFF}"
    return "error", "hint"
