"""Files under other names, arrays and lists of objects load the same from here and there."""

import datetime as dt
import io
import json
import tarfile

import httpx2
import pytest

from omnigraph.config.document import ConfigError
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import BadRequestError, NotFoundError

BORN = "match { $p: Person } return { $p.name as n, $p.age as a } order { n }"


def people(graph):
    return {row["n"]: row["a"] for row in graph.query(BORN)}


def test_columns_may_be_called_otherwise(graph, place):
    (place.parent / "crm.csv").write_text("Full name,Years,Notes\nZoe,5,x\n")
    (place.parent / "map.yaml").write_text(
        'types:\n  Person:\n    columns: {"Full name": name, Years: age}\n    ignore: [Notes]\n'
    )
    data = {"Person": str(place.parent / "crm.csv")}
    graph.load(data, "append", mapping=place.parent / "map.yaml")
    assert people(graph)["Zoe"] == 5
    (place.parent / "crm.csv").write_text("Full name,Years\nYan,6\n")
    columns = {"Full name": "id", "Years": "age"}
    graph.ingest(data, branch="main", mode="merge", columns=columns)
    assert people(graph)["Yan"] == 6
    with pytest.raises(BadRequestError, match="no column 'Gone', which the mapping names"):
        graph.load(data, "append", columns={"Gone": "age"})


def test_a_mapping_that_cannot_be_is_refused_before_anything_is_sent(graph, place):
    (place.parent / "bad.yaml").write_text("typs: {}")
    with pytest.raises(ConfigError, match="unknown key `typs`"):
        graph.load({"Person": [{"name": "x"}]}, "append", mapping=place.parent / "bad.yaml")
    with pytest.raises(NotFoundError, match="mapping file"):
        graph.load({"Person": [{"name": "x"}]}, "append", mapping=place.parent / "gone.yaml")


def test_lists_of_objects_and_arrays_are_loaded(graph, place):
    done = graph.load(
        {
            "Person": [{"name": "Xia", "age": 7}, {"name": "Wim"}],
            "Knows": [{"from": "Xia", "to": "Wim", "since": dt.date(2020, 1, 2)}],
        },
        "append",
    )
    assert (done.nodes_loaded, done.edges_loaded) == ({"Person": 2}, {"Knows": 1})
    (place.parent / "Person.json").write_text(json.dumps([{"name": "Vic", "age": 8}]))
    graph.load(str(place.parent / "Person.json"), "append")
    assert people(graph)["Vic"] == 8
    with pytest.raises(ConstraintError):
        graph.load({"Person": [{"name": "Uma", "age": "old"}]}, "append")
    with pytest.raises(BadRequestError, match="a object is no value"):
        graph.load({"Person": [{"name": object()}]}, "append")


def test_a_tar_with_holes_is_refused(address):
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("lines/0/x.jsonl")
        info.type = tarfile.GNUTYPE_SPARSE
        tar.addfile(info)
    with httpx2.Client(timeout=120) as http:
        said = {"content-type": "application/x-tar"}
        url = f"{address}/load/files?mode=append"
        told = http.post(url, content=text.getvalue(), headers=said)
    assert told.status_code == 400, told.text
    assert "is no file of a load" in told.text or "no tar of files" in told.text
