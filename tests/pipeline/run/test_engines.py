"""Which engine is chosen, and what is said about it."""

import pytest

from omnigraph.errors import BadRequestError
from omnigraph.pipeline.model import LoadOptions
from omnigraph.pipeline.run import engines
from omnigraph.pipeline.run.engines import Engines


def test_small_inputs_are_read_inline():
    engine = Engines(LoadOptions()).choose(64 << 20)
    assert (engine.runner.name, engine.reason) == ("inline", "64.0 MiB is not above 64 MiB")


def test_large_inputs_stay_inline_without_spark(monkeypatch):
    monkeypatch.setattr(engines, "_has_spark", lambda: False)
    engine = Engines(LoadOptions()).choose((64 << 20) + 1)
    assert engine.runner.name == "inline"
    assert "pyspark is not installed" in engine.reason


def test_spark_that_is_asked_for_and_missing_is_an_error(monkeypatch):
    monkeypatch.setattr(engines, "_has_spark", lambda: False)
    with pytest.raises(BadRequestError, match="needs pyspark, which is not installed"):
        Engines(LoadOptions(engine="spark")).choose(1)


class Context:
    """Looks like a Spark context as long as nothing is run."""

    def parallelize(self):
        raise NotImplementedError


def test_a_given_session_is_used_whatever_the_size():
    engine = Engines(LoadOptions(), spark=Context()).choose(1)
    assert (engine.runner.name, engine.reason) == ("spark", "a Spark session or master is given")


def test_inline_can_be_insisted_on():
    engine = Engines(LoadOptions(engine="inline"), spark=object()).choose(1 << 40)
    assert (engine.runner.name, engine.reason) == ("inline", "asked for")


def test_what_is_no_session_is_refused():
    with pytest.raises(BadRequestError, match="cannot run tasks on a str"):
        Engines(LoadOptions(), spark="local").choose(1)
