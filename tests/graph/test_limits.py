"""Limits seen from outside: defaults, settings, totals per query and per process, typed errors."""

import threading

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Limits
from omnigraph.base.budget import PROCESS, QueryCancelledError
from omnigraph.base.memory import machine_memory
from omnigraph.config.environment import Environment
from omnigraph.config.limits import LimitSettings, limits_in_force
from omnigraph.errors import BadRequestError, BudgetExceededError
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.tables import watched
from tests.support.fast import FAST

SCHEMA = (
    "node Person { name: String @key  age: I32?  note: String? }\nedge Knows: Person -> Person\n"
)
COUNT = 60_000
MIB = 1 << 20


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    where = tmp_path_factory.mktemp("limits") / "g.omni"
    names = [f"p{at:05}" for at in range(COUNT)]
    ages = pa.array(np.arange(COUNT) % 90, pa.int32())
    notes = [f"{at * 7919 % COUNT} {'x' * 40}" for at in range(COUNT)]
    with omnigraph.init(where, SCHEMA, options=FAST) as graph:
        session = graph.store.begin()
        people = {"id": names, "name": names, "age": ages, "note": notes}
        session.append("node:Person", pa.table(people))
        knows = {"id": names, "src": names, "dst": names[1:] + names[:1]}
        session.append("edge:Knows", pa.table(knows))
        session.commit()
    return where


@pytest.fixture
def graph(place):
    with omnigraph.connect(place, options=FAST) as opened:
        yield opened


PRODUCT = "query q() { match { $a: Person  $b: Person } return { $a.name, $b.name } }"
SCAN = "query q() { match { $a: Person } return { $a.name, $a.note } }"


def test_a_product_of_large_tables_is_refused_before_it_is_made(graph):
    for text in (PRODUCT, PRODUCT.replace("$b: Person", "$b: Person  $c: Person  $d: Person")):
        with pytest.raises(BudgetExceededError, match=r"NodeScan needs .* the memory budget is"):
            graph.query(text)
        with pytest.raises(BudgetExceededError, match="memory"):
            graph.query(text, limits=Limits(seconds=None, bytes=None))


def test_a_few_rows_of_a_scan_need_no_more_rows_than_memory(graph):
    assert len(graph.query(SCAN.replace("} }", "} limit 5 }"))) == 5


def test_defaults_are_a_minute_and_shares_of_the_memory():
    found = limits_in_force(Environment({}))
    memory = machine_memory()
    assert found.query == Limits(60.0, None, memory // 4)
    assert found.job == Limits(None, None, memory // 2)
    assert found.process_memory == memory // 2


def test_variables_win_over_the_file_and_none_switches_off():
    file = LimitSettings(query_seconds=5.0, query_memory=MIB, job_memory=None)
    found = limits_in_force(Environment({}), file)
    assert (found.query, found.job) == (Limits(5.0, None, MIB), Limits(None, None, None))
    said = Environment(
        {
            "OMNIGRAPH_QUERY_SECONDS": "none",
            "OMNIGRAPH_QUERY_MEMORY": "1.5GiB",
            "OMNIGRAPH_JOB_MEMORY": "300m",
            "OMNIGRAPH_PROCESS_MEMORY": "NONE",
        }
    )
    found = limits_in_force(said, file)
    assert found.query == Limits(None, None, 3 << 29)
    assert (found.job.bytes, found.process_memory) == (300 * MIB, None)


@pytest.mark.parametrize("wrong", ["nan", "-1", "inf", "soon", "4 bananas", "1e9"])
def test_a_variable_that_says_no_limit_is_named(wrong, monkeypatch, place):
    monkeypatch.setenv("OMNIGRAPH_QUERY_MEMORY", wrong)
    with pytest.raises(BadRequestError, match="OMNIGRAPH_QUERY_MEMORY cannot be"):
        omnigraph.connect(place, options=FAST)


def test_the_environment_limits_every_query_of_a_program(place, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_QUERY_MEMORY", "1MiB")
    monkeypatch.setenv("OMNIGRAPH_JOB_MEMORY", "2MiB")
    with omnigraph.connect(place, options=FAST) as graph:
        with pytest.raises(BudgetExceededError, match="OMNIGRAPH_QUERY_MEMORY"):
            graph.query(SCAN)
        assert len(graph.query(SCAN, limits=Limits(bytes=None))) == COUNT
        with pytest.raises(BudgetExceededError, match="OMNIGRAPH_JOB_MEMORY"):
            graph.mutate("query m() { update Person set { age: 1 } where age >= 0 }")
        with pytest.raises(BudgetExceededError, match="export"):
            graph.export("/dev/null")
        with pytest.raises(BudgetExceededError, match="export"):
            list(graph.iter_export())


def test_reading_a_table_counts(place):
    """A cold read of some megabytes does not fit one, whatever the answer is."""
    text = "query q() { match { $a: Person } return { max($a.note) as m } }"
    with omnigraph.connect(place, options=FAST) as graph:
        for _ in range(3):
            with pytest.raises(BudgetExceededError, match=r"reading .* needs \d+ bytes"):
                graph.query(text, limits=Limits(bytes=2 * MIB))
    with omnigraph.connect(place, options=FAST) as graph:
        graph.query(text)
        graph.query(text)
        # Resident tables are shared: what is there costs nothing.
        assert len(graph.query(text, limits=Limits(bytes=8 * MIB))) == 1


def test_the_calls_of_a_process_share_one_total(graph):
    graph.query(SCAN)
    graph.query(SCAN)
    before = PROCESS.limit
    streams: list[object] = []

    def begin_many():
        for _ in range(50):
            streams.append(graph.stream(SCAN, batch_rows=COUNT))
            next(streams[-1])

    try:
        omnigraph.limit_process_memory(24 * MIB)
        with pytest.raises(BudgetExceededError, match="memory budget of the process is 25165824"):
            begin_many()
        assert 1 < len(streams) < 50
        held = PROCESS.used
        assert 12 * MIB < held <= 24 * MIB
        streams.clear()
        assert PROCESS.used == 0
        assert len(graph.query(SCAN)) == COUNT
    finally:
        omnigraph.limit_process_memory(before)
    assert PROCESS.used == 0


def test_a_stream_that_is_never_begun_gives_its_memory_back(graph):
    graph.query(SCAN)
    stream = graph.stream(SCAN)
    assert PROCESS.used > 0
    del stream
    assert PROCESS.used == 0


class Ticking:
    """A clock on which a second passes each time it is asked."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step, self.asked = 0.0, step, 0

    def now_us(self) -> int:
        return 1_700_000_000_000_000

    def monotonic(self) -> float:
        self.now += self.step
        self.asked += 1
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


LONG = {
    "order": "query q() { match { $a: Person } return { $a.name } order { $a.note desc } }",
    "group": "query q() { match { $a: Person } return { $a.note, count(*) as n } }",
    "aggregate": "query q() { match { $a: Person } return { $a.age, max($a.note) as m } }",
    "distinct": "query q() { match { $a: Person } return distinct { $a.note, $a.age } }",
    "projection": "query q() { match { $a: Person } return { $a.name, $a.note } }",
    "filter": 'query q() { match { $a: Person  $a.note contains "77" } return { $a.name } }',
    "expand": "query q() { match { $a: Person  $a knows $b } return { $b.note } }",
    "walk": "query q() { match { $a: Person  $a knows{1,9} $b } return { count(*) as n } }",
    "join": "query q() { match { $a: Person  $b: Person  $a.note = $b.note } return { $b.age } }",
}


@pytest.fixture
def short_pieces(monkeypatch):
    from omnigraph.engine.image import pieces
    from omnigraph.engine.read import evaluate, operators

    for module in (pieces, evaluate):
        monkeypatch.setattr(module, "PIECE", 4_096)
    monkeypatch.setattr(pieces, "_LONG", 8_192)
    monkeypatch.setattr(operators, "_STEP_EDGES", 8_192)


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_every_long_step_asks_for_time_and_whether_it_was_cancelled(graph, text, short_pieces):
    for _ in range(2):
        wanted = graph.query(text).to_dicts()
    asked = 0

    class After:
        def __init__(self, times):
            self.left = times

        def is_set(self):
            nonlocal asked
            asked += 1
            self.left -= 1
            return self.left < 0

    assert graph.query(text, cancel=After(10**9)).to_dicts() == wanted
    # Sixty thousand rows in pieces of four thousand: at least one question for each.
    assert asked >= COUNT // 4_096
    for times in (0, asked // 3, asked // 2, asked - 1):
        with pytest.raises(QueryCancelledError):
            graph.query(text, cancel=After(times))


def test_the_clock_starts_with_the_call_and_a_late_answer_is_none(place):
    clock = Ticking()
    options = omnigraph.GraphOptions(storage=FAST.storage, clock=clock)
    text = 'query q() { match { $a: Person { name: "p00007" } } return { $a.age } }'
    with omnigraph.connect(place, options=options) as graph:
        for _ in range(3):
            assert len(graph.query(text, limits=Limits(seconds=10**6))) == 1
        with pytest.raises(BudgetExceededError, match=r"time budget of 0\.5 s"):
            graph.query(text, limits=Limits(seconds=0.5))
        with pytest.raises(BudgetExceededError, match=r"time budget of 0\.5 s"):
            list(graph.stream(text, limits=Limits(seconds=0.5)))


def test_a_mutation_that_is_stopped_has_written_nothing(graph):
    before = graph.snapshot().commit_id
    stop = threading.Event()
    stop.set()
    text = 'query m() { update Person set { age: 1 } where name = "p00001" }'
    with pytest.raises(QueryCancelledError):
        graph.mutate(text, cancel=stop)
    with pytest.raises(BudgetExceededError):
        graph.mutate(text, limits=Limits(seconds=0))
    assert graph.snapshot().commit_id == before
    assert PROCESS.used == 0


def test_a_mutation_of_many_rows_is_stopped_while_they_are_written(graph, monkeypatch):
    monkeypatch.setattr(watched, "PIECE_ROWS", 8_192)
    text = "query m() { update Person set { note: 'x' } where age >= 0 }".replace("'", '"')
    before = graph.snapshot().commit_id
    steps: list[str] = []

    class Once:
        """Set as soon as rows are on their way into the table."""

        def is_set(self):
            return len(steps) > 2

    seen = watched.Watched.check

    def check(self):
        steps.append("writing")
        seen(self)

    monkeypatch.setattr(watched.Watched, "check", check)
    with pytest.raises(QueryCancelledError, match="the job was cancelled in writing node"):
        graph.mutate(text, cancel=Once())
    assert len(steps) == 3
    assert graph.snapshot().commit_id == before
    assert PROCESS.used == 0


def test_a_write_that_waits_for_another_writer_still_heeds_its_clock_and_cancel(tmp_path):
    class Later:
        """Set once somebody who waits has asked for a while."""

        asked = 0

        def is_set(self):
            self.asked += 1
            return self.asked > 40

    text = 'query m() { insert Person { name: "late" } }'
    line = b'{"type": "Person", "data": {"name": "late"}}'
    waiting = "waiting for the lock 'branch:main'"
    with (
        omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as graph,
        omnigraph.connect(tmp_path / "g.omni", options=FAST) as other,
    ):
        before = graph.snapshot().commit_id
        for holder in (graph, other):  # a thread of this handle; somebody else
            with holder.store.kernel.locks.hold(branch_lock_name("main"), "a long write"):
                with pytest.raises(BudgetExceededError, match=waiting):
                    graph.mutate(text, limits=Limits(seconds=0.5))
                with pytest.raises(BudgetExceededError, match=waiting):
                    graph.load(line, mode="merge", limits=Limits(seconds=1))
                with pytest.raises(QueryCancelledError, match=waiting):
                    graph.mutate(text, cancel=Later())
        assert graph.snapshot().commit_id == before
        assert graph.mutate(text, limits=Limits(seconds=30)).commit_id is not None


def test_a_load_that_does_not_fit_has_written_nothing(tmp_path):
    rows = pa.table({"name": [f"n{at}" for at in range(20_000)]})
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as graph:
        before = graph.snapshot().commit_id
        with pytest.raises(BudgetExceededError, match=r"limits\.job_memory"):
            graph.load({"Person": rows}, limits=Limits(bytes=10_000))
        assert graph.snapshot().commit_id == before
        assert graph.load({"Person": rows}).commit_id is not None


def test_limits_are_limits(graph):
    for call in (graph.query, graph.stream, graph.mutate):
        with pytest.raises(BadRequestError, match="limits are Limits"):
            call(SCAN, limits={"seconds": 5})


def test_what_is_no_event_and_no_number_of_rows_is_refused_before_anything_runs(graph):
    text = "query q() { match { $p: Person } return { $p.name } }"
    for use in (graph.query, graph.stream, graph.mutate):
        with pytest.raises(BadRequestError, match=r"threading\.Event, not bool"):
            use(text, cancel=True)
    for rows in (None, "many", 1.5, 0, -1):
        with pytest.raises(BadRequestError, match="a batch cannot have"):
            graph.stream(text, batch_rows=rows)
    assert PROCESS.used == 0
