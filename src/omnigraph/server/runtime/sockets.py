"""The address to listen at: is it free, which one is it, and when does somebody answer there."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator

from omnigraph.errors import BadRequestError
from omnigraph.server.options import ServeOptions

_PATIENCE_S = 600.0
_LOOK_S = 0.02


@contextlib.contextmanager
def reserved(options: ServeOptions) -> Iterator[int]:
    """Give a port that stays ours inside the block.

    Workers share a port, so a second server on it would start, too, and take half of the requests.
    Binding it alone first tells.

    Raises:
        BadRequestError: somebody listens there already, or nobody can.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    port = options.port
    if port:
        with socket.socket(family) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _bind(alone, options.host, port)
    with socket.socket(family) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _bind(shared, options.host, port)
        yield int(shared.getsockname()[1])


def _bind(one: socket.socket, host: str, port: int) -> None:
    try:
        one.bind((host, port))
    except OSError as error:
        raise BadRequestError(
            f"cannot listen at {host}:{port}: {error.strerror or error}",
            hint="choose another address with --bind; port 0 finds a free one",
        ) from None


def announce(options: ServeOptions, answered: Callable[[], None]) -> None:
    """Print the address once somebody answers there; does not wait for it."""
    threading.Thread(target=_announce, args=(options, answered), daemon=True).start()


def _announce(options: ServeOptions, answered: Callable[[], None]) -> None:
    host, port = options.host, options.port
    reach = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - what was asked for
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection((reach, port), 1).close()
        except OSError:
            time.sleep(_LOOK_S)
            continue
        answered()
        shown = f"[{host}]" if ":" in host else host
        sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={shown}:{port}\n")
        sys.stdout.flush()
        if options.opens:
            webbrowser.open(page_at(reach, port))
        return


def page_at(host: str, port: int) -> str:
    """Return the address of the page of a server on this machine.

    >>> page_at("::1", 8080)
    'http://[::1]:8080/ui/'
    """
    return f"http://[{host}]:{port}/ui/" if ":" in host else f"http://{host}:{port}/ui/"
