"""The five layouts, character by character."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.api.rows import ReadOutput, ReadTarget
from omnigraph.cli.formats import TableStyle, lines


def read_output(query, branch, snapshot, columns, rows):
    return ReadOutput(query, ReadTarget(branch, snapshot), tuple(rows), tuple(columns))


RESULT = read_output(
    "people",
    "main",
    None,
    ["p.name", "p.note", "n"],
    [
        {"p.name": "Ann", "p.note": 'says "hi", twice', "n": 1},
        {"p.name": "Bé", "p.note": "two\nlines", "n": None},
        {"p.name": "C", "p.note": [1.5, "x"], "n": True},
    ],
)
EMPTY = read_output("people", "main", None, ["p.name", "n"], [])
NOTHING = read_output("people", None, "01ABC", [], [])
STYLE = TableStyle()


def text(output, wanted, style=STYLE):
    return "\n".join(lines(output, wanted, style)) + "\n"


def test_json_is_the_whole_result_with_two_spaces():
    assert text(RESULT, "json") == (
        "{\n"
        '  "query_name": "people",\n'
        '  "target": {\n'
        '    "branch": "main",\n'
        '    "snapshot": null\n'
        "  },\n"
        '  "row_count": 3,\n'
        '  "columns": [\n'
        '    "p.name",\n'
        '    "p.note",\n'
        '    "n"\n'
        "  ],\n"
        '  "rows": [\n'
        "    {\n"
        '      "p.name": "Ann",\n'
        '      "p.note": "says \\"hi\\", twice",\n'
        '      "n": 1\n'
        "    },\n"
        "    {\n"
        '      "p.name": "Bé",\n'
        '      "p.note": "two\\nlines",\n'
        '      "n": null\n'
        "    },\n"
        "    {\n"
        '      "p.name": "C",\n'
        '      "p.note": [\n'
        "        1.5,\n"
        '        "x"\n'
        "      ],\n"
        '      "n": true\n'
        "    }\n"
        "  ]\n"
        "}\n"
    )
    assert "columns" not in json.loads(text(NOTHING, "json"))


def test_jsonl_is_a_metadata_line_and_one_compact_object_per_row():
    assert text(RESULT, "jsonl") == (
        '{"kind":"metadata","query_name":"people",'
        '"target":{"branch":"main","snapshot":null},"row_count":3}\n'
        '{"p.name":"Ann","p.note":"says \\"hi\\", twice","n":1}\n'
        '{"p.name":"Bé","p.note":"two\\nlines","n":null}\n'
        '{"p.name":"C","p.note":[1.5,"x"],"n":true}\n'
    )


def test_csv_quotes_only_what_needs_it():
    assert text(RESULT, "csv") == (
        'p.name,p.note,n\nAnn,"says ""hi"", twice",1\nBé,"two\nlines",null\nC,"[1.5,""x""]",true\n'
    )
    bare = read_output("q", "main", None, ["a"], [{"a": "x\ry"}, {"a": "null"}])
    assert text(bare, "csv") == 'a\n"x\ry"\n"null"\n'


def test_kv_is_one_block_per_row():
    assert text(RESULT, "kv") == (
        "3 rows from branch main via people\n"
        "row 1\n"
        "p.name: Ann\n"
        'p.note: says "hi", twice\n'
        "n: 1\n"
        "\n"
        "row 2\n"
        "p.name: Bé\n"
        "p.note: two\nlines\n"
        "n: null\n"
        "\n"
        "row 3\n"
        "p.name: C\n"
        'p.note: [1.5,"x"]\n'
        "n: true\n"
    )
    assert text(EMPTY, "kv") == "0 rows from branch main via people\n(no rows)\n"


def test_tables_are_as_wide_as_their_longest_cell():
    assert text(RESULT, "table") == (
        "3 rows from branch main via people\n"
        "p.name | p.note           | n   \n"
        "-------+------------------+-----\n"
        'Ann    | says "hi", twice | 1   \n'
        "Bé     | two\\nlines       | null\n"
        'C      | [1.5,"x"]        | true\n'
    )


def test_tables_without_rows_show_titles_and_without_columns_say_so():
    assert text(EMPTY, "table") == "0 rows from branch main via people\np.name | n\n-------+--\n"
    assert text(NOTHING, "table") == "0 rows from snapshot 01ABC via people\n(no rows)\n"


def test_long_cells_are_cut_or_wrapped():
    output = read_output("q", "main", None, ["a", "b"], [{"a": "abcdefghij", "b": "x"}])
    cut = text(output, "table", TableStyle(5))
    assert cut == "1 rows from branch main via q\na     | b\n------+--\nabcd… | x\n"
    wrapped = text(output, "table", TableStyle(4, "wrap"))
    assert wrapped == (
        "1 rows from branch main via q\na    | b\n-----+--\nabcd | x\nefgh |  \nij   |  \n"
    )
    assert text(output, "table", TableStyle(1)).splitlines()[3] == "a | x"


def test_a_long_title_overflows_its_column_and_is_never_cut():
    output = read_output("q", "main", None, ["a_rather_long_title"], [{"a_rather_long_title": "x"}])
    assert text(output, "table", TableStyle(4)).splitlines()[1:] == [
        "a_rather_long_title",
        "--------",
        "x       ",
    ]


def test_control_characters_cannot_tear_a_table_apart():
    output = read_output("q", "main", None, ["a"], [{"a": "1\t2\r3\x1b[31m"}])
    assert text(output, "table").splitlines()[3] == "1\\t2\\r3\\x1b[31m"


def test_titles_are_bold_only_when_colours_are_wanted():
    assert "\x1b[1mp.name | n\x1b[0m" in text(EMPTY, "table", TableStyle(color=True))


WHOLE = st.integers(-(2**63), 2**63 - 1)
VALUES = st.none() | st.booleans() | WHOLE | st.text() | st.lists(st.text(), max_size=3)


@given(
    st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}), max_size=5),
    st.integers(1, 30),
    st.sampled_from(["truncate", "wrap"]),
)
def test_every_line_of_a_table_is_equally_wide(rows, width, layout):
    output = read_output("q", "main", None, ["a", "b"], rows)
    shown = list(lines(output, "table", TableStyle(width, layout)))[1:]
    assert len({len(line) for line in shown}) == 1


@given(st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}), max_size=5))
def test_jsonl_and_json_hold_the_same_rows(rows):
    output = read_output("q", "main", None, ["a", "b"], rows)
    assert json.loads(text(output, "json"))["rows"] == rows
    assert [json.loads(line) for line in list(lines(output, "jsonl", STYLE))[1:]] == rows


@pytest.mark.parametrize("wanted", ["json", "jsonl", "csv", "kv", "table"])
def test_reading_through_the_command_gives_the_same_layout(cli, people, wanted):
    expected = {
        "json": '"row_count": 2',
        "jsonl": '{"p.age":41,"p.name":"Ann"}\n{"p.age":30,"p.name":"Cé"}\n',
        "csv": "p.age,p.name\n41,Ann\n30,Cé\n",
        "kv": "2 rows from branch main via adults\nrow 1\np.age: 41\np.name: Ann\n\nrow 2\n",
        "table": "p.age | p.name\n------+-------\n41    | Ann   \n30    | Cé    \n",
    }[wanted]
    ran = cli("read", "-q", "people.gq", "-n", "adults", "-p", "min=18", "--format", wanted)
    assert ran.code == 0, ran.err
    assert expected in ran.out
