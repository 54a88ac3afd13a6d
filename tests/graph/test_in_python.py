"""What Python people expect of results and handles."""

import datetime as dt
import logging
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.extras import MissingExtraError, load_extra
from omnigraph.errors import BadRequestError, NotFoundError
from tests.support.fast import FAST

SCHEMA = "node P { name: String @key big: I64? wide: U64? size: F64? at: DateTime? }\n"
BIG = 2**53 + 1
ALL = "match { $p: P } return { $p.name as name, $p.big as big, $p.wide as wide, $p.at as at }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with omnigraph.init(str(tmp_path_factory.mktemp("py") / "g"), SCHEMA, options=FAST) as made:
        made.mutate(
            f'insert P {{ name: "a" big: {BIG} wide: {2**64 - 1} '
            'at: datetime("2024-05-01T12:30:00Z") } '
            'insert P { name: "b" } insert P { name: "c" big: 1 wide: 2 }'
        )
        yield made


@pytest.fixture(scope="module")
def rows(graph):
    return graph.query(ALL)


def test_rows_columns_and_ranges_are_taken_by_brackets(rows):
    assert rows[0]["big"] == BIG
    assert rows[-1]["name"] == "c"
    assert [row["name"] for row in rows[1:]] == ["b", "c"]
    assert [row["name"] for row in rows[::-1]] == ["c", "b", "a"]
    assert rows["name"].to_pylist() == ["a", "b", "c"]
    assert rows["at"].type == pa.timestamp("ms", "UTC")


def test_rows_and_columns_that_are_not_there_are_refused(rows):
    with pytest.raises(IndexError):
        rows[3]
    with pytest.raises(NotFoundError, match="it has name, big, wide, at"):
        rows["nme"]


def test_the_only_row_and_the_only_value(graph, rows):
    count = graph.query("match { $p: P } return { count(*) as n }")
    assert (count.one(), count.scalar()) == ({"n": 3}, 3)
    with pytest.raises(BadRequestError, match="one row was expected, the result has 3"):
        rows.one()
    with pytest.raises(BadRequestError, match="one column was expected"):
        rows[:1].scalar()


def test_other_libraries_take_a_result_as_it_is(rows):
    noon = dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)
    assert pa.table(rows).column("at").to_pylist() == [noon, None, None]
    assert pl.DataFrame(rows)["big"].to_list() == [BIG, None, 1]
    assert pa.schema(rows).names == ["name", "big", "wide", "at"]


def test_pandas_keeps_every_digit_beside_nulls(graph, rows):
    frame = rows.to_pandas()
    assert frame["big"].tolist() == [BIG, pd.NA, 1]
    assert frame["wide"].tolist() == [2**64 - 1, pd.NA, 2]
    assert (str(frame["big"].dtype), str(frame["wide"].dtype)) == ("Int64", "UInt64")
    whole = graph.query("match { $p: P $p.big > 0 } return { $p.big as big }").to_pandas()
    assert whole["big"].dtype == np.int64


def test_handles_say_what_they_are(graph, tmp_path):
    uri = repr(graph.uri)
    assert repr(graph) == f"Graph({uri})"
    assert repr(graph.as_actor("ada")) == f"Graph({uri}, actor='ada')"
    assert repr(graph.branch("main")) == f"GraphBranch({uri}, 'main')"
    assert repr(graph.at(graph.snapshot().commit_id)) == f"GraphView({uri})"
    assert [repr(one) for one in (graph.branches, graph.commits, graph.tags, graph.runs)] == [
        f"{name}({uri})" for name in ("Branches", "Commits", "Tags", "Runs")
    ]
    closed = omnigraph.init(str(tmp_path / "c"), SCHEMA, options=FAST)
    closed.close()
    assert repr(closed) == "Graph(closed)"


def test_the_package_lists_what_it_has():
    assert set(omnigraph.__all__) <= set(dir(omnigraph))
    code = "import omnigraph; print('connect' in dir(omnigraph))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


def test_plans_profiles_and_schemas_are_shown_in_notebooks(graph):
    assert graph.explain(ALL)._repr_html_().startswith("<pre>read inline()")
    assert "&gt;" in graph.explain("match { $p: P $p.big > 3 } return { $p.name }")._repr_html_()
    assert graph.schema._repr_html_().startswith("<pre>node P")
    shown = graph.profile(ALL)._repr_html_()
    assert "<th>operator</th>" in shown
    assert "inline: 3 rows in" in shown


@pytest.mark.parametrize(("call", "extra"), [("to_pandas", "notebook"), ("to_polars", "notebook")])
def test_a_missing_library_names_the_extra_that_brings_it(rows, monkeypatch, call, extra):
    monkeypatch.setitem(sys.modules, call.removeprefix("to_"), None)
    with pytest.raises(MissingExtraError, match=call) as caught:
        getattr(rows, call)()
    assert caught.value.hint == f'pip install "omnigraph[{extra}]"'


def test_spark_that_is_not_installed_is_named_too(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"graph\.spark needs pyspark"):
        graph.spark(None)


def test_a_library_that_lacks_one_of_its_own_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "halfway.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load_extra("halfway", "notebook", "this")


def test_embedding_leaves_the_logging_of_the_program_alone():
    code = (
        "import logging; from omnigraph.embedders.local import LocalEmbedder\n"
        "LocalEmbedder().embed_queries(['tea'], 8)\n"
        "root = logging.getLogger(); print(root.handlers, root.level == logging.WARNING)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[] True\n"
    assert logging.getLogger().level == logging.WARNING
