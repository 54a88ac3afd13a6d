"""What a process did, counted under names that a dashboard can use. Thread-safe, no dependency.

Rooms declare their metrics where they count. Nothing is counted, timed or kept until somebody
activates the registry (a server does), so that who does not look pays for one comparison.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

SECONDS = (0.000_1, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0)
"""Upper bounds of histograms of time."""

Labels = tuple[str, ...]


class Metric:
    """One name, with a value for each combination of labels that occurred."""

    kind = "counter"

    def __init__(self, registry: Registry, name: str, help_text: str, labels: Labels) -> None:
        self.name, self.help, self.labels = name, help_text, labels
        self._registry = registry
        self._lock = threading.Lock()

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield suffix of the name, labels as text, and value."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew."""
        raise NotImplementedError

    def _text(self, values: Labels, *more: tuple[str, str]) -> str:
        pairs = [*zip(self.labels, values, strict=True), *more]
        inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
        return f"{{{inside}}}" if pairs else ""


class Counter(Metric):
    """A total that only grows."""

    def __init__(self, registry: Registry, name: str, help_text: str, labels: Labels) -> None:
        super().__init__(registry, name, help_text, labels)
        self._totals: dict[Labels, float] = {}

    def add(self, amount: float = 1, *labels: str) -> None:
        """Add to the total of some labels."""
        if self._registry.active:
            with self._lock:
                self._totals[labels] = self._totals.get(labels, 0.0) + amount

    def value(self, *labels: str) -> float:
        """Return the total of some labels."""
        with self._lock:
            return self._totals.get(labels, 0.0)

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield every total; one without labels is there from the beginning."""
        with self._lock:
            totals = sorted(self._totals.items())
        if not totals and not self.labels:
            totals = [((), 0.0)]
        for labels, total in totals:
            yield "", self._text(labels), total

    def reset(self) -> None:
        """Begin anew."""
        with self._lock:
            self._totals.clear()


class Gauge(Metric):
    """A value that is asked for when somebody looks, or was set last."""

    kind = "gauge"

    def __init__(
        self, registry: Registry, name: str, help_text: str, read: Callable[[], float] | None
    ) -> None:
        super().__init__(registry, name, help_text, ())
        self._read = read
        self._value = 0.0

    def set(self, value: float) -> None:
        """Set the value."""
        self._value = value

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield the value."""
        yield "", "", self._value if self._read is None else self._read()

    def reset(self) -> None:
        """Begin anew."""
        self._value = 0.0


class Histogram(Metric):
    """How often values were at most some bounds, with their count and sum."""

    kind = "histogram"

    def __init__(
        self,
        registry: Registry,
        name: str,
        help_text: str,
        labels: Labels,
        bounds: Sequence[float],
    ) -> None:
        super().__init__(registry, name, help_text, labels)
        self._bounds = tuple(bounds)
        self._found: dict[Labels, tuple[list[int], float]] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value."""
        if self._registry.active:
            with self._lock:
                counts, total = self._found.get(labels, ([0] * (len(self._bounds) + 1), 0.0))
                counts[bisect_left(self._bounds, value)] += 1
                self._found[labels] = (counts, total + value)

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield buckets, each with all below it, then sum and count."""
        with self._lock:
            found = [(labels, [*counts], total) for labels, (counts, total) in self._found.items()]
        for labels, counts, total in sorted(found):
            below = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                below += count
                yield "_bucket", self._text(labels, ("le", _number(bound))), below
            yield "_sum", self._text(labels), total
            yield "_count", self._text(labels), below

    def reset(self) -> None:
        """Begin anew."""
        with self._lock:
            self._found.clear()


class Registry:
    """The metrics of a process."""

    def __init__(self) -> None:
        self.active = False
        self._metrics: dict[str, Metric] = {}

    def activate(self, *, active: bool = True) -> None:
        """Begin to count, or stop."""
        self.active = active

    def counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """Declare a counter; its name ends in `_total`."""
        made = Counter(self, name, help_text, labels)
        self._declare(made)
        return made

    def gauge(self, name: str, help_text: str, read: Callable[[], float] | None = None) -> Gauge:
        """Declare a gauge."""
        made = Gauge(self, name, help_text, read)
        self._declare(made)
        return made

    def histogram(
        self, name: str, help_text: str, *labels: str, bounds: Sequence[float] = SECONDS
    ) -> Histogram:
        """Declare a histogram."""
        made = Histogram(self, name, help_text, labels, bounds)
        self._declare(made)
        return made

    def _declare(self, metric: Metric) -> None:
        assert metric.name not in self._metrics, f"{metric.name} is declared twice"
        self._metrics[metric.name] = metric

    def metrics(self) -> list[Metric]:
        """Return every declared metric, by name."""
        return [self._metrics[name] for name in sorted(self._metrics)]

    def text(self) -> str:
        """Return everything in the text format that Prometheus reads."""
        lines: list[str] = []
        for metric in self.metrics():
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [
                f"{metric.name}{suffix}{labels} {_number(value)}"
                for suffix, labels, value in metric.samples()
            ]
        return "".join(f"{line}\n" for line in lines)

    def reset(self) -> None:
        """Forget what was counted."""
        for metric in self._metrics.values():
            metric.reset()


METRICS = Registry()
"""Those of this process."""


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
