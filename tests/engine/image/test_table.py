"""A table image equals a plain dict of rows, however it came about."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.image.table import fresh_image

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("s", pa.string())])
ids = st.sampled_from("abcdefgh")
row = st.fixed_dictionaries(
    {"n": st.none() | st.integers(0, 9), "s": st.none() | st.text("xy", max_size=2)}
)
changes = st.lists(
    st.tuples(st.dictionaries(ids, row, max_size=4), st.lists(ids, max_size=3)), max_size=5
)


def table(rows):
    return pa.Table.from_pylist([{"id": one, **values} for one, values in rows.items()], SCHEMA)


def image_of(rows):
    whole = table(rows)
    return fresh_image(len(rows), lambda names: whole.select(list(names)))


def rows_of(image):
    at = image.live_positions
    columns = [image.column(name).take(at).to_pylist() for name in SCHEMA.names]
    return {one: {"n": n, "s": s} for one, n, s in zip(*columns, strict=True)}


@pytest.mark.parametrize("in_place", [True, False])
@given(start=st.dictionaries(ids, row, max_size=6), steps=changes)
def test_an_image_with_changes_holds_exactly_the_rows_a_dict_would(in_place, start, steps):
    model, image = dict(start), image_of(start)
    for upserts, deleted in steps:
        deleted = [one for one in deleted if one not in upserts]
        before = image
        kept = rows_of(before)
        image = image.with_changes(table(upserts) if upserts else None, deleted, in_place=in_place)
        model = {one: values for one, values in model.items() if one not in deleted} | upserts
        assert rows_of(image) == model
        assert image.rows == len(model)
        assert rows_of(before) == kept, "an older image changed"
    for one in "abcdefgh":
        position = image.find(one)
        assert (position >= 0) == (one in model)
        if position >= 0:
            assert image.column("n").take(np.array([position])).to_pylist() == [model[one]["n"]]
    many = image.find_many(pa.array([*"abcdefgh", None] * 10))
    assert many.tolist() == [image.find(one) if one else -1 for one in [*"abcdefgh", None]] * 10


@given(start=st.dictionaries(ids, row, max_size=6), steps=changes)
def test_a_changed_row_keeps_its_position(start, steps):
    image = image_of(start)
    for upserts, _ in steps:
        where = {one: image.find(one) for one in upserts if image.find(one) >= 0}
        image = image.with_changes(table(upserts) if upserts else None, [])
        assert all(image.find(one) == position for one, position in where.items())


def test_columns_are_read_once_and_only_when_asked_for():
    asked = []
    whole = table({"a": {"n": 1, "s": "x"}})

    def load(names):
        asked.append(list(names))
        return whole.select(list(names))

    image = fresh_image(1, load)
    image.column("n").take(np.array([0]))
    image.with_changes(None, ["a"]).column("n")
    assert asked == [["n"], ["id"]]
