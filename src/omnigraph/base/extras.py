"""Libraries that come with an extra of the package: loaded when they are needed, or asked for."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from omnigraph.errors import BadRequestError


class MissingExtraError(BadRequestError, ImportError):
    """A library is not installed that an optional part of the package needs."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        self.extra = extra
        super().__init__(
            f"{what} needs {library}, which is not installed",
            hint=f'pip install "omnigraph[{extra}]"',
        )


def load_extra(library: str, extra: str, what: str) -> ModuleType:
    """Return a library.

    Raises:
        MissingExtraError: it is not installed; names the extra that brings it.
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != library.partition(".")[0]:
            raise  # the library is there; something else is missing
        raise MissingExtraError(what, library, extra) from None
