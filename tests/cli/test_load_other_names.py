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
