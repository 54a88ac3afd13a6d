"""Metrics: nothing before somebody looks, then what Prometheus can read."""

import threading

from omnigraph.base.metrics import Registry


def test_nothing_is_counted_before_the_registry_is_active():
    registry = Registry()
    asked = registry.counter("x_total", "Asked.", "kind")
    took = registry.histogram("x_seconds", "Took.", bounds=(0.1, 1.0))
    asked.add(1, "read")
    took.observe(0.5)
    assert list(asked.samples()) == list(took.samples()) == []
    registry.activate()
    asked.add(2, "read")
    assert asked.value("read") == 2


def test_the_text_is_what_prometheus_reads():
    registry = Registry()
    registry.activate()
    asked = registry.counter("x_total", "Asked.", "kind")
    registry.counter("y_total", "Plain.")
    registry.gauge("x_bytes", "Held.", lambda: 1.5)
    took = registry.histogram("x_seconds", "Took.", bounds=(0.1, 1.0))
    asked.add(2, 'a "b"\n')
    for seconds in (0.1, 0.5, 7.0):
        took.observe(seconds)
    assert registry.text().splitlines() == [
        "# HELP x_bytes Held.",
        "# TYPE x_bytes gauge",
        "x_bytes 1.5",
        "# HELP x_seconds Took.",
        "# TYPE x_seconds histogram",
        'x_seconds_bucket{le="0.1"} 1',
        'x_seconds_bucket{le="1"} 2',
        'x_seconds_bucket{le="+Inf"} 3',
        "x_seconds_sum 7.6",
        "x_seconds_count 3",
        "# HELP x_total Asked.",
        "# TYPE x_total counter",
        'x_total{kind="a \\"b\\"\\n"} 2',
        "# HELP y_total Plain.",
        "# TYPE y_total counter",
        "y_total 0",
    ]
    registry.reset()
    assert asked.value('a "b"\n') == 0


def test_threads_lose_no_count():
    registry = Registry()
    registry.activate()
    asked = registry.counter("x_total", "Asked.")
    threads = [
        threading.Thread(target=lambda: [asked.add() for _ in range(2_000)]) for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert asked.value() == 8_000
