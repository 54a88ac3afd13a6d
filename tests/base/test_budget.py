"""Limits are numbers or nothing; a budget counts the most that is held; a process has one total."""

import math
import threading

import pytest

from omnigraph.base.budget import (
    DEFAULT,
    Account,
    Budget,
    Limits,
    QueryCancelledError,
    checkpoint,
    current,
    keep,
    passing,
    unstoppable,
    waited,
)
from omnigraph.errors import BadRequestError, BudgetExceededError

MIB = 1 << 20


class SteeredClock:
    """Shows what it is told to."""

    seconds = 0.0

    def now_us(self):
        return int(self.seconds * 1e6)

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": math.nan},
        {"seconds": math.inf},
        {"seconds": -1},
        {"seconds": "5"},
        {"seconds": True},
        {"rows": -1},
        {"rows": 1.5},
        {"rows": True},
        {"bytes": "4GiB"},
        {"bytes": -1},
        {"bytes": math.nan},
    ],
)
def test_what_is_no_limit_is_refused(wrong):
    with pytest.raises(BadRequestError, match="a limit of"):
        Limits(**wrong)


def test_what_is_not_said_is_as_the_defaults_have_it_and_none_is_no_limit():
    defaults = Limits(60, None, 1_000)
    assert Limits().over(defaults) == defaults
    assert Limits(seconds=5).over(defaults) == Limits(5, None, 1_000)
    assert Limits(seconds=None, bytes=None).over(defaults) == Limits(None, None, None)
    assert Limits().bytes is DEFAULT


def test_what_is_kept_counts_beside_every_step():
    budget = Budget(Limits(bytes=100), account=Account(None))
    budget.hold("a", 90)
    budget.hold("b", 90)  # one step after another, not both at once
    budget.keep("table", 40)
    with pytest.raises(BudgetExceededError, match="c needs 101 bytes; the memory budget is 100"):
        budget.hold("c", 61)
    assert budget.peak == 90


def test_the_error_says_how_to_raise_the_limit():
    with pytest.raises(BudgetExceededError) as caught:
        Budget(Limits(bytes=1)).hold("order", 2)
    for way in ("Limits(bytes=…)", "--max-memory", "limits.query_memory", "OMNIGRAPH_QUERY_MEMORY"):
        assert way in str(caught.value)
    with pytest.raises(BudgetExceededError, match=r"limits\.job_memory"):
        Budget(Limits(bytes=1), what="job").hold("load", 2)


def test_the_calls_of_a_process_have_one_total_and_give_it_back():
    account = Account(10 * MIB)
    first, second = (Budget(Limits(), account=account) for _ in range(2))
    with first:
        first.hold("a", 7 * MIB)
        with pytest.raises(BudgetExceededError, match="memory budget of the process"):
            second.hold("b", 4 * MIB)
        second.hold("b", 3 * MIB)
        assert account.used == 10 * MIB
    second.hold("b", 9 * MIB)
    second.close()
    second.close()
    assert account.used == 0


def test_a_call_that_fails_gives_its_memory_back_and_is_not_current_any_more():
    account = Account(10 * MIB)

    def call():
        with Budget(account=account) as budget:
            assert current() is budget
            keep("table", 2 * MIB)
            assert account.used == 2 * MIB
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        call()
    assert (account.used, current()) == (0, None)


def test_memory_that_runs_out_is_a_limit_too():
    wanted = pytest.raises(BudgetExceededError, match="more memory than there is: Unable")
    with wanted as caught, Budget(Limits()):
        raise MemoryError("Unable to allocate 27 GiB")
    assert isinstance(caught.value.__cause__, MemoryError)
    with pytest.raises(BudgetExceededError, match="needs 9"):  # no machine could
        Budget(Limits()).hold("NodeScan", 9 * 10**18)


def test_what_passes_is_let_go_and_what_must_not_be_halved_is_not_stopped():
    stop = threading.Event()
    with Budget(Limits(bytes=100), cancelled=stop):
        with passing():
            keep("check", 90)
        keep("table", 90)
        stop.set()
        with unstoppable():
            checkpoint("commit", 1_000)
        with pytest.raises(QueryCancelledError):
            checkpoint("after")


def test_pieces_are_made_under_their_budget_and_nobody_elses():
    account = Account(None)
    budget = Budget(Limits(), account=account)

    def pieces():
        for size in (1, 2):
            checkpoint("piece", size * 2 * MIB)
            yield current()

    found = []
    for one in budget.over(pieces()):
        found.append(one)
        assert current() is None
        assert account.used == len(found) * 2 * MIB
    assert (found, account.used) == ([budget, budget], 0)


def test_what_is_done_between_pieces_takes_none_of_their_time():
    clock = SteeredClock()

    def pieces():
        for number in range(9):
            clock.seconds += 1
            yield number

    made = Budget(Limits(seconds=3), clock).over(pieces())
    for number in range(3):
        clock.seconds += 100
        assert next(made) == number
    with pytest.raises(BudgetExceededError, match="time budget of 3 s"):
        next(made)


def test_a_process_takes_the_first_limit_it_is_given():
    account = Account(DEFAULT)
    account.open(5)
    account.open(7)
    assert account.limit == 5


def test_a_call_that_is_stopped_does_not_wait_for_the_work_of_another():
    lock, stop = threading.Lock(), threading.Event()
    stop.set()
    with lock, Budget(cancelled=stop), pytest.raises(QueryCancelledError), waited(lock, "table"):
        raise AssertionError("the lock is taken")
    with waited(lock, "table"):
        assert lock.locked()
    assert not lock.locked()
