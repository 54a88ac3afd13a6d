import logging
import subprocess
import sys
import threading

from omnigraph.base.background import Background
from omnigraph.base.budget import checkpoint


def test_work_is_done_one_piece_at_a_time_and_the_same_piece_once():
    line, gate, begun, done = Background(), threading.Event(), threading.Event(), []

    def first():
        begun.set()
        assert gate.wait(60)
        done.append("first")

    assert line.start("a", first)
    assert begun.wait(60)
    assert line.start("a", lambda: done.append("again"))
    assert line.start("b", lambda: done.append("second"))
    assert line.is_doing("a")
    assert line.is_doing("b")
    assert not done
    gate.set()
    assert line.wait(60)
    assert done == ["first", "second"]
    assert not line.is_doing("a")


def test_what_fails_is_told_to_the_log_and_stops_nothing(caplog):
    line, done = Background(), []
    with caplog.at_level(logging.WARNING):
        line.start("a", lambda: 1 / 0)
        line.start("b", lambda: done.append(1))
        assert line.wait(60)
    assert done == [1]
    [told] = caplog.records
    assert "in the background failed" in told.message
    assert told.exc_info[0] is ZeroDivisionError


def test_a_full_line_refuses_and_takes_again_later(monkeypatch):
    monkeypatch.setattr("omnigraph.base.background._MOST_WAITING", 1)
    line, gate, begun = Background(), threading.Event(), threading.Event()
    line.start("running", lambda: begun.set() or gate.wait(60))
    assert begun.wait(60)
    assert line.start("waiting", lambda: None)
    assert not line.start("too many", lambda: None)
    gate.set()
    assert line.wait(60)
    assert line.start("too many", lambda: None)
    assert line.wait(60)


def test_stopping_breaks_off_what_runs_and_drops_the_rest():
    line, begun, done = Background(), threading.Event(), []

    def forever():
        begun.set()
        while True:
            checkpoint("waiting")

    line.start("a", forever)
    line.start("b", lambda: done.append(1))
    assert begun.wait(60)
    line.stop()
    assert line.wait(60)
    assert not done
    assert not line.start("c", lambda: done.append(1))


def test_a_forked_child_begins_with_an_empty_line():
    line, gate, begun = Background(), threading.Event(), threading.Event()
    line.start("a", lambda: begun.set() or gate.wait(60))
    assert begun.wait(60)
    line.forked()
    assert not line.is_doing("a")
    assert line.start("a", lambda: None)
    assert line.wait(60)
    gate.set()


def test_a_process_ends_although_work_goes_on():
    script = """
import threading
from omnigraph.base.background import BACKGROUND
from omnigraph.base.budget import checkpoint
begun = threading.Event()
def forever():
    begun.set()
    while True:
        checkpoint("waiting")
BACKGROUND.start("a", forever)
BACKGROUND.start("b", lambda: print("never"))
assert begun.wait(60)
print("the end")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
