"""A node keeps its position for ever, so that adjacency built once stays true."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.image.table import fresh_image

ids = st.sampled_from(["a", "b", "c", "d", "e", "f"])
change = st.tuples(st.lists(ids, max_size=3, unique=True), st.lists(ids, max_size=3, unique=True))


def rows(names, value):
    return pa.table({"id": pa.array(names, pa.string()), "v": [value] * len(names)})


def image_of(names):
    table = rows(names, 0)
    return fresh_image(len(names), lambda wanted: table.select(list(wanted)))


@given(st.lists(change, max_size=5))
def test_an_id_that_comes_back_has_its_old_position(changes):
    image, model = image_of(["a", "b", "c"]), {"a": 0, "b": 0, "c": 0}
    positions = {"a": 0, "b": 1, "c": 2}
    for step, (deleted, written) in enumerate(changes, start=1):
        image = image.with_changes(rows(written, step) if written else None, deleted)
        model = {one: v for one, v in model.items() if one not in deleted}
        model |= dict.fromkeys(written, step)
        for one in "abcdef":
            position = image.find(one)
            assert (position >= 0) == (one in model)
            if one in model:
                assert positions.setdefault(one, position) == position
                assert image.column("v").take(pa.array([position]).to_numpy()).to_pylist() == [
                    model[one]
                ]
        assert image.rows == len(model)
        found = image.find_many(pa.array(list("abcdef"))).tolist()
        assert found == [image.find(one) for one in "abcdef"]
