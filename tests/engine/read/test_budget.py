"""Time, row and cancellation limits stop a query where they are reached, and say so."""

import threading

import pytest

from omnigraph.base.budget import Budget, Limits, QueryCancelledError
from omnigraph.errors import BudgetExceededError, ErrorKind
from tests.engine.read.fixtures import pairs, people, social

PRODUCT = "match { $a: Person  $b: Person  $c: Person  $d: Person } return { count(*) as n }"


class StepClock:
    """A clock that moves one second each time it is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def now_us(self) -> int:
        return int(self.now * 1e6)

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_product_beyond_the_row_budget_is_refused_before_it_is_made():
    with pytest.raises(BudgetExceededError, match="NodeScan needs 64 rows; the row budget is 20"):
        social().table(PRODUCT, Budget(Limits(rows=20)))
    assert social().table(PRODUCT, Budget(Limits(rows=256))).to_pylist() == [{"n": 256}]


def test_an_expansion_beyond_the_row_budget_is_refused():
    names = [f"p{at}" for at in range(10)]
    full = pairs(*(f"{a}>{b}" for a in names for b in names))
    graph = social(Person=people(**dict.fromkeys(names)), Knows=full, WorksAt=[])
    for hop in ("knows", "knows{1,2}", "$k:knows", "<knows>"):
        with pytest.raises(
            BudgetExceededError, match=r"Expand needs \d+ rows; the row budget is 50"
        ):
            graph.table(
                f"match {{ $a {hop} $b }} return {{ count(*) as n }}", Budget(Limits(rows=50))
            )


def test_a_walk_is_stopped_inside():
    names = [f"p{at}" for at in range(10)]
    full = pairs(*(f"{a}>{b}" for a in names for b in names if a != b))
    graph = social(Person=people(**dict.fromkeys(names)), Knows=full, WorksAt=[])
    text = "match { $a knows{3,3} $b } return { count(*) as n }"
    # No pair is three hops apart, but the walk itself passes through ninety.
    assert graph.table(text, Budget(Limits(rows=1_000))).to_pylist() == [{"n": 0}]
    with pytest.raises(BudgetExceededError, match="Expand"):
        graph.table(text, Budget(Limits(rows=50)))


CROWD = people(**{f"p{at}": at for at in range(40)})
EVERYONE = pairs(*(f"p{a}>p{b}" for a in range(40) for b in range(40)))


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("match { $a: Person  $b: Person } return { count(*) as n }", "NodeScan"),
        ("match { $a: Person  $a knows $b } return { count($b) as n }", "Expand"),
        ("match { $a: Person  $a knows{2,2} $b } return { count(*) as n }", "Expand"),
        ("match { $a: Person  $a $k:knows $b } return { count($k) as n }", "Expand"),
        ("match { $a: Person  $a <knows> $b } return { count($b) as n }", "Expand"),
    ],
)
def test_rows_that_would_not_fit_are_refused_before_they_are_made(query, operator):
    graph = social(Person=CROWD, Knows=EVERYONE, WorksAt=[])
    assert graph.table(query, Budget(Limits(bytes=10_000_000))).num_rows == 1
    with pytest.raises(
        BudgetExceededError,
        match=rf"{operator} needs \d+ bytes; the memory budget is 10000",
    ) as caught:
        graph.table(query, Budget(Limits(bytes=10_000)))
    assert caught.value.kind is ErrorKind.BUDGET_EXCEEDED


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("match { $a: Person } return { $a.name, $a.age } order { $a.age, $a.name }", "order"),
        ("match { $a: Person } return { $a.name, count(*) as n }", "group"),
        ("match { $a: Person } return distinct { $a.name, $a.age }", "distinct"),
    ],
)
def test_what_is_made_of_the_rows_counts_too(query, operator):
    graph = social(Person=CROWD, Knows=[], WorksAt=[])
    with pytest.raises(BudgetExceededError, match=f"{operator} needs"):
        graph.table(query, Budget(Limits(bytes=500)))


def test_the_values_returned_count_too():
    graph = social(
        Person=[{"name": "x" * 1_000 + str(at)} for at in range(9)], Knows=[], WorksAt=[]
    )
    text = "match { $a: Person } return { $a.age, $a.name }"
    with pytest.raises(BudgetExceededError, match="return needs 9"):
        graph.table(text, Budget(Limits(bytes=5_000)))
    assert graph.table(text, Budget(Limits(bytes=10_000))).num_rows == 9


def test_a_long_walk_asks_for_time_at_every_step():
    chain = pairs(*(f"p{at}>p{at + 1}" for at in range(39)))
    graph = social(Person=CROWD, Knows=chain, WorksAt=[])
    text = "match { $a: Person  $a knows{1,30} $b } return { count(*) as n }"
    assert graph.table(text).to_pylist() == [{"n": 735}]
    with pytest.raises(BudgetExceededError, match=r"Expand ran past the time budget of 9 s"):
        graph.table(text, Budget(Limits(seconds=9), clock=StepClock()))


def test_the_time_budget_names_the_operator_and_the_limit():
    budget = Budget(Limits(seconds=2.5), clock=StepClock())
    with pytest.raises(BudgetExceededError, match=r"ran past the time budget of 2.5 s") as caught:
        social().table(PRODUCT, budget)
    assert caught.value.kind is ErrorKind.BUDGET_EXCEEDED
    assert caught.value.hint is not None


def test_a_query_that_stays_within_its_budget_is_not_disturbed():
    budget = Budget(Limits(seconds=60.0, rows=1_000))
    assert social().table(PRODUCT, budget).to_pylist() == [{"n": 256}]


def test_another_thread_cancels_a_running_query():
    names = {f"p{at}": at for at in range(200)}
    graph = social(Person=people(**names), Knows=[], WorksAt=[])
    ended: list[BaseException] = []
    started = threading.Event()

    class Watched(StepClock):
        def monotonic(self) -> float:
            started.set()
            return 0.0

    cancel = threading.Event()
    budget = Budget(Limits(seconds=1e9), Watched(), cancel)

    def run() -> None:
        try:
            while True:
                graph.table("match { $a: Person  $b: Person } return { count(*) as n }", budget)
        except QueryCancelledError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    cancel.set()
    thread.join(60)
    assert not thread.is_alive()
    assert "cancelled" in str(ended[0])
