"""Waiting for a store that may not answer, no longer than the running call may take.

Whoever asks over a network may wait for minutes, and nothing ends a request from outside. So a call
that has to stop leaves its question alone: it is asked in a thread of its own, whose answer nobody
takes then. Only for what changes nothing, or leaves nothing that counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from omnigraph.base.budget import Budget, current

T = TypeVar("T")
_LOOK_S = 0.05
"""How long a call waits for an answer without looking whether it has to stop."""


def answered(ask: Callable[[], T], step: str) -> T:
    """Return the answer to a question.

    Raises:
        BudgetExceededError: the running call has to stop before it comes.
    """
    budget = current()
    if budget is None or not budget.can_end:
        return ask()
    return _awaited(_asked(ask), budget, step)


def all_answered(asks: tuple[Callable[[], T], ...], step: str) -> list[T] | None:
    """Return the answers to questions that are asked at once; None if no call is to be watched.

    Raises:
        BudgetExceededError: the running call has to stop before they come.
    """
    budget = current()
    if budget is None or not budget.can_end:
        return None
    answers = [_asked(ask) for ask in asks]
    return [_awaited(answer, budget, step) for answer in answers]


def _asked(ask: Callable[[], T]) -> Future[T]:
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is taken
            answer.set_exception(error)

    # A thread of a pool would keep the process from ending as long as the store is silent.
    threading.Thread(target=run, daemon=True, name="omnigraph-ask").start()
    return answer


def _awaited(answer: Future[T], budget: Budget, step: str) -> T:
    while not wait([answer], _LOOK_S).done:
        budget.check(step)
    return answer.result()
