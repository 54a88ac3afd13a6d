"""Readers give way while somebody writes in the same process, for a moment only."""

import threading
from dataclasses import replace

import pyarrow as pa

import omnigraph
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.graph.turns import TURNS, Turns
from tests.support.fast import FAST

SCHEMA = "node P { k: String @key }\n"


def test_a_reader_waits_until_the_last_writer_is_done():
    turns = Turns(pause_s=600)
    passed = threading.Event()

    def read() -> None:
        turns.give_way()
        passed.set()

    with turns.writing():
        reader = threading.Thread(target=read)
        with turns.writing():
            reader.start()
        assert not passed.is_set()
    assert passed.wait(60)
    reader.join(60)


def test_a_reader_waits_no_longer_than_the_pause():
    turns = Turns(pause_s=0.001)
    with turns.writing():
        turns.give_way()
    turns.give_way()
    assert turns.writers == 0


class Watching:
    """A clock that notes how many writers there are whenever it is asked for the time."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def now_us(self) -> int:
        self.seen.add(TURNS.writers)
        return SYSTEM_CLOCK.now_us()

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def sleep(self, seconds: float) -> None:
        SYSTEM_CLOCK.sleep(seconds)


def test_mutations_count_as_writers_and_long_jobs_do_not(tmp_path):
    clock = Watching()
    options = replace(FAST, clock=clock)
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=options) as graph:
        clock.seen.clear()
        graph.load({"P": pa.table({"k": ["a", "b"]})})
        assert clock.seen == {0}
        graph.mutate('query m() { insert P { k: "c" } }')
        assert clock.seen == {0, 1}
        assert TURNS.writers == 0
