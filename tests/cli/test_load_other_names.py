"""`load` of files whose columns are called otherwise."""

import json

import pytest

import omnigraph
from tests.support.fast import FAST

SCHEMA = """node Customer { customer_id: I64 @key full_name: String? }
edge Bought: Customer -> Customer
"""


@pytest.fixture
def folder(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST):
        pass
    (tmp_path / "c.csv").write_text("Customer ID,Full name\n1,Ann\n2,Bo\n")
    (tmp_path / "b.csv").write_text("buyer,seller\n1,2\n")
    return tmp_path


def loaded(ran):
    assert ran.code == 0, ran.err
    return {one["table_key"]: one["rows_loaded"] for one in json.loads(ran.out)["tables"]}


def test_columns_are_named_by_flags(cli, folder):
    base = ("load", "g.omni", "--mode", "append", "--json", "--quiet")
    ran = cli(
        *base, "--type", "Customer=c.csv", "--key", "Customer ID", "--column", "Full name=full_name"
    )
    assert loaded(ran) == {"node:Customer": 2}
    ran = cli(*base, "--edge", "Bought=b.csv", "--from-column", "buyer", "--to-column", "seller")
    assert loaded(ran) == {"edge:Bought": 1}


def test_a_mapping_file_names_them_all(cli, folder):
    (folder / "map.yaml").write_text(
        'types:\n  Customer: {columns: {"Customer ID": customer_id, "Full name": full_name}}\n'
        "  Bought: {columns: {buyer: from, seller: to}}\n"
    )
    ran = cli(
        "load", "g.omni", "--map", "map.yaml", "--type", "Customer=c.csv", "--edge", "Bought=b.csv",
        "--mode", "append", "--json", "--quiet",
    )  # fmt: skip
    assert loaded(ran) == {"node:Customer": 2, "edge:Bought": 1}


def test_a_flag_that_names_nothing_is_a_wrong_command_line(cli, folder):
    for word in ("x", "x=", "=y"):
        assert cli("load", "g.omni", "--type", "Customer=c.csv", "--column", word).code == 2


def test_a_drafted_mapping_loads_the_files_it_was_drafted_from(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    text = "ID;Full Name;größe\n1;Änn;3\n2;Bo;4\n"
    (tmp_path / "data" / "our people.csv").write_bytes(text.encode("windows-1252"))
    (tmp_path / "data" / "knows.csv").write_text("Source\tTarget\n1\t2\n")
    files = ("data/our people.csv", "data/knows.csv")
    ran = cli(
        "schema", "infer", *files, "-o", "s.pg", "--map", "m.yaml",
        "--encoding", "windows-1252", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert (facts["mapping"], facts["edges"]) == ("m.yaml", ["Knows"])
    assert cli("init", "--schema", "s.pg", "x.omni").code == 0
    assert loaded(cli("load", "x.omni", "--map", "m.yaml", "--json", "--quiet")) == {
        "node:OurPeople": 2,
        "edge:Knows": 1,
    }
    names = "match { $p: OurPeople } return { $p.full_name as n }"
    rows = cli("read", "x.omni", "-e", names, "-f", "csv")
    assert rows.out.split() == ["n", "Änn", "Bo"]
    assert cli("schema", "infer", *files, "-o", "t.pg", "--map", "m.yaml").code == 1
    assert not (tmp_path / "t.pg").exists()


def test_a_load_without_a_mode_tells_what_it_replaced_and_how_to_get_it_back(cli, folder):
    load = ("load", "g.omni", "--type", "Customer=c.csv", "--key", "Customer ID", "--column",
            "Full name=full_name", "--quiet")  # fmt: skip
    first = cli(*load)
    assert (first.code, first.err) == (0, "")  # there was nothing
    (folder / "c.csv").write_text("Customer ID,Full name\n9,Zed\n")
    assert "replaced" not in cli(*load, "--mode", "merge").err
    again = cli(*load)
    assert again.err.startswith("warning: replaced 3 rows of node:Customer: without --mode")
    count = (
        "read",
        "g.omni",
        "-e",
        "match { $c: Customer } return { count($c) as n }",
        "-f",
        "csv",
    )
    assert cli(*count).out.split() == ["n", "1"]
    back = again.err.split("omnigraph branch reset ")[1].split()
    assert cli("branch", "reset", *back, "--uri", "g.omni").code == 0
    assert cli(*count).out.split() == ["n", "3"]


def test_a_load_from_a_branch_is_an_ingest(cli, folder):
    ran = cli(
        "load", "g.omni", "--from", "main", "--branch", "x", "--type", "Customer=c.csv",
        "--key", "Customer ID", "--column", "Full name=full_name", "--json", "--quiet",
    )  # fmt: skip
    assert loaded(ran) == {"node:Customer": 2}
    facts = json.loads(ran.out)
    assert (facts["branch"], facts["base_branch"], facts["branch_created"]) == ("x", "main", True)
    assert facts["mode"] == "merge"
