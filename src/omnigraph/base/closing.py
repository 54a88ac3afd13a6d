"""What ends with the block it is used in."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class Closing:
    """Something to be closed; used as a context it closes itself, whatever happened inside."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
